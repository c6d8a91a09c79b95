//! Transactions of SQLite, through the program sqlite3, and what must be left of them.
//!
//! Each transaction adds a row and counts it in another table. Sources: "Atomic Commit In SQLite"
//! and `PRAGMA synchronous` (sqlite.org). With a rollback journal that is deleted and
//! `synchronous=FULL`, the deletion is not synced, so the last transaction can be rolled back:
//! that is its documented behavior and not a loss.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use flashfit_device::random::Random;
use flashfit_host::Program;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LoggedOperation, Operation};
use crate::model::{Oracle, Violation};
use crate::observe::ProgramView;

const TRANSACTIONS: u32 = 40;
const CREATED: &str = "created";
const ABSENT: &str = "absent";
const DATABASE: &str = "data.db";
/// The text of row `n`, as an expression of SQL.
const PAYLOAD: &str = "printf('%0*d', 200 + (n * 7919) % 4000, n)";

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SqliteJournal {
    Wal,
    Delete,
    Truncate,
    Persist,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SqliteSync {
    Off,
    Normal,
    Full,
    Extra,
}

/// How a database is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SqliteMode {
    pub journal: SqliteJournal,
    pub sync: SqliteSync,
}

impl Default for SqliteMode {
    fn default() -> Self {
        Self { journal: SqliteJournal::Wal, sync: SqliteSync::Full }
    }
}

impl SqliteJournal {
    const ALL: [Self; 4] = [Self::Wal, Self::Delete, Self::Truncate, Self::Persist];

    fn name(self) -> &'static str {
        match self {
            Self::Wal => "wal",
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Persist => "persist",
        }
    }
}

impl SqliteSync {
    const ALL: [Self; 4] = [Self::Off, Self::Normal, Self::Full, Self::Extra];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Normal => "normal",
            Self::Full => "full",
            Self::Extra => "extra",
        }
    }
}

impl fmt::Display for SqliteMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.journal.name(), self.sync.name())
    }
}

impl FromStr for SqliteMode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (journal, sync) = text.split_once('-').ok_or(())?;
        let journal = SqliteJournal::ALL.into_iter().find(|mode| mode.name() == journal);
        let sync = SqliteSync::ALL.into_iter().find(|mode| mode.name() == sync);
        Ok(Self { journal: journal.ok_or(())?, sync: sync.ok_or(())? })
    }
}

impl SqliteMode {
    /// How many of the last transactions it may lose.
    fn may_lose(self) -> u32 {
        match (self.journal, self.sync) {
            (_, SqliteSync::Off | SqliteSync::Normal) => u32::MAX,
            (SqliteJournal::Delete, SqliteSync::Full) => 1,
            _ => 0,
        }
    }

    /// The program that makes transactions in `root`, and its input.
    pub fn program(self, root: &Path, seed: u64) -> (Program, String) {
        let (journal, sync) = (self.journal.name(), self.sync.name());
        let mut input = format!(
            ".output /dev/null\nPRAGMA journal_mode={journal}; PRAGMA synchronous={sync};\n\
             BEGIN; CREATE TABLE entries(n INTEGER PRIMARY KEY, payload TEXT);\n\
             CREATE TABLE total(n INTEGER); INSERT INTO total VALUES(0); COMMIT;\n\
             .system echo {CREATED}\n"
        );
        let mut random = Random::new(seed);
        for number in 1..=TRANSACTIONS {
            // Few checkpoints of the log, so that most of the rows are only in it.
            if random.below(12) == 0 {
                input.push_str("PRAGMA wal_checkpoint;\n");
            }
            input.push_str(&format!(
                "BEGIN; INSERT INTO entries SELECT n, {PAYLOAD} FROM (SELECT {number} AS n);\n\
                 UPDATE total SET n = {number}; COMMIT;\n.system echo {number}\n"
            ));
        }
        (in_folder(root, &format!("exec sqlite3 -batch -bail {DATABASE}")), input)
    }

    /// The program that checks the database in `root`, and its input.
    pub fn check(root: &Path) -> (Program, String) {
        let input = format!(
            "SELECT 'integrity', integrity_check FROM pragma_integrity_check LIMIT 3;\n\
             SELECT 'tables', count(*) FROM sqlite_schema WHERE name IN ('entries', 'total');\n\
             SELECT 'rows', count(*), ifnull(max(n), 0) FROM entries;\n\
             SELECT 'total', n FROM total;\n\
             SELECT 'wrong', count(*) FROM entries WHERE payload IS NOT {PAYLOAD};\n"
        );
        let script = format!(
            "[ -e {DATABASE} ] || {{ echo {ABSENT}; exit; }}; exec sqlite3 -batch {DATABASE}"
        );
        (in_folder(root, &script), input)
    }
}

/// A shell command in a folder.
pub(super) fn in_folder(root: &Path, command: &str) -> Program {
    let root = root.display().to_string();
    Program::new("sh").args(["-c", "cd \"$1\" && eval \"$2\"", "sh"]).arg(root).arg(command)
}

/// The numbered lines among those that arrived before a power cut or may have been about to.
fn last_transaction<'a>(operations: impl Iterator<Item = &'a LoggedOperation>) -> u32 {
    let number = |done: &LoggedOperation| match &done.operation {
        Operation::Acknowledge { line } => line.parse().ok(),
        _ => None,
    };
    operations.filter_map(number).max().unwrap_or(0)
}

/// What is wrong with a database after a power cut at `position`.
pub fn grade(
    mode: SqliteMode,
    seen: &ProgramView,
    operations: &[LoggedOperation],
    position: u32,
) -> Vec<Violation> {
    let acknowledged = || operations.iter().filter(|done| done.end <= position);
    // There may be more: a commit reaches the device before its line is read.
    let least = last_transaction(acknowledged());
    let is_created = acknowledged().next().is_some();
    let fields: Vec<Vec<&str>> =
        seen.output.lines().map(|line| line.split('|').collect()).collect();
    let field = |name: &str, at: usize| {
        let line = fields.iter().find(|fields| fields[0] == name)?;
        line.get(at).and_then(|text| text.parse::<u32>().ok())
    };
    let lost = |detail: String| vec![Violation::new(Oracle::Commit, detail)];
    let damaged = |detail: String| match mode.sync {
        // It then promises nothing after a power cut.
        SqliteSync::Off => Vec::new(),
        _ => vec![Violation::new(Oracle::Database, detail)],
    };
    if field("tables", 1) == Some(0) || seen.output.trim() == ABSENT {
        let may_be_new = !is_created || mode.may_lose() > least;
        return if may_be_new { Vec::new() } else { lost("the database is missing".to_owned()) };
    }
    let integrity: Vec<&str> = fields
        .iter()
        .filter(|fields| fields[0] == "integrity")
        .map(|fields| fields.get(1).copied().unwrap_or_default())
        .collect();
    if integrity != ["ok"] {
        let what = integrity.first().copied().unwrap_or(seen.error.as_str());
        return damaged(format!("integrity check: {what}"));
    }
    let (Some(rows), Some(last), Some(total), Some(wrong)) =
        (field("rows", 1), field("rows", 2), field("total", 1), field("wrong", 1))
    else {
        return damaged(format!("it cannot be read: {}", seen.error));
    };
    if rows != last || rows != total || wrong != 0 || rows > TRANSACTIONS {
        return damaged(format!(
            "{rows} rows up to {last}, counted {total}, {wrong} of them wrong"
        ));
    }
    if rows < least && least - rows > mode.may_lose() {
        return lost(format!("{rows} of {least} acknowledged transactions are there"));
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(line: &str, begin: u32, end: u32) -> LoggedOperation {
        let operation = Operation::Acknowledge { line: line.to_owned() };
        LoggedOperation { operation, number: 0, begin, end, inode: None, error: None }
    }

    fn graded(mode: &str, output: &str, position: u32) -> Vec<Oracle> {
        let operations = [done(CREATED, 0, 10), done("1", 10, 20), done("2", 20, 30)];
        let seen =
            ProgramView { code: Some(0), output: output.to_owned(), error: "none".to_owned() };
        let found = grade(mode.parse().unwrap(), &seen, &operations, position);
        found.into_iter().map(|violation| violation.oracle).collect()
    }

    fn rows(count: u32) -> String {
        format!("integrity|ok\ntables|2\nrows|{count}|{count}\ntotal|{count}\nwrong|0\n")
    }

    #[test]
    fn transactions_are_there_as_their_mode_promises() {
        assert_eq!(graded("wal-full", &rows(2), 30), []);
        assert_eq!(graded("wal-full", &rows(1), 30), [Oracle::Commit]);
        assert_eq!(graded("delete-full", &rows(1), 30), []);
        assert_eq!(graded("delete-full", &rows(0), 30), [Oracle::Commit]);
        assert_eq!(graded("wal-normal", &rows(0), 30), []);
        assert_eq!(graded("wal-full", &rows(2), 25), []);
        assert_eq!(graded("wal-full", &rows(2), 20), []);
        assert_eq!(graded("wal-full", &rows(TRANSACTIONS + 1), 30), [Oracle::Database]);
        assert_eq!(graded("wal-full", ABSENT, 5), []);
        assert_eq!(graded("wal-full", ABSENT, 10), [Oracle::Commit]);
    }

    #[test]
    fn damage_is_noticed() {
        let torn = "integrity|ok\ntables|2\nrows|2|2\ntotal|1\nwrong|0\n";
        assert_eq!(graded("wal-full", torn, 30), [Oracle::Database]);
        let malformed = "integrity|row 1 missing from index\n";
        assert_eq!(graded("wal-normal", malformed, 30), [Oracle::Database]);
        assert_eq!(graded("wal-off", malformed, 30), []);
        assert_eq!(graded("wal-full", "", 30), [Oracle::Database]);
    }
}
