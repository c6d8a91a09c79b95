//! The database file: opening, its version, and what SQLite is told.
//!
//! Write-ahead log; a source is added in one transaction, so after a kill it is there as a whole or
//! not at all. Writers wait for each other. A file of another program, or with other tables than
//! those of its version, is refused. Limit: SQLite's write-ahead log needs a local file system.

mod adding;
mod bundled;
mod cards;
mod merging;
mod replacing;
mod results;
mod schema;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::durable;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::error::SurveyError;
use crate::identity::{SALT_BYTES, Salt};

pub use adding::{AddOptions, Addition};
pub use bundled::BundleAddition;
pub use cards::{StoredCard, StoredSource, SurveyTable};
pub use merging::MergedSurvey;
pub use results::{ResultTable, StoredResult};
use schema::{APPLICATION_ID, MIGRATIONS};

/// How long a writer waits for another one.
const WAIT: Duration = Duration::from_secs(60);
/// Permissions of a folder that is made for the file: serial numbers are nobody else's business.
const FOLDER_MODE: u32 = 0o700;

/// An open survey.
#[derive(Debug)]
pub struct SurveyDatabase {
    connection: Connection,
    path: PathBuf,
}

impl SurveyDatabase {
    /// Opens the survey at `path` for writing; makes it, and its folder, if there is none.
    ///
    /// # Errors
    /// See [`SurveyError`].
    pub fn open(path: &Path) -> Result<Self, SurveyError> {
        let unreachable = |reason: std::io::Error| SurveyError::Unreachable {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.exists()) {
            durable::create_folders(folder, FOLDER_MODE).map_err(unreachable)?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut survey = Self::connect(&file_name(path), path, flags)?;
        survey.prepare_for_writing().map_err(|error| survey.failed(&error))??;
        Ok(survey)
    }

    /// Opens an existing survey for reading; nothing in it is changed.
    ///
    /// # Errors
    /// See [`SurveyError`].
    pub fn open_for_reading(path: &Path) -> Result<Self, SurveyError> {
        if !path.exists() {
            return Err(SurveyError::Missing { path: path.to_owned() });
        }
        // For writing where that is possible, so that the files of the log are removed again.
        let survey = Self::connect(&file_name(path), path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let query_only = survey.connection.pragma_update(None, "query_only", true);
        query_only.map_err(|error| survey.failed(&error))?;
        let version = match survey.version() {
            // On a read-only file system, SQLite cannot make the files of its log. Nobody writes
            // there, so it needs none.
            Err(SurveyError::Unreachable { .. } | SurveyError::ReadOnly { .. })
                if !log_of(path).exists() =>
            {
                return Self::open_immutable(path);
            }
            other => other?,
        };
        survey.check(version)?;
        Ok(survey)
    }

    fn open_immutable(path: &Path) -> Result<Self, SurveyError> {
        let name: String = path
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .map(|byte| match byte {
                b'/' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
                byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
                byte => format!("%{byte:02x}"),
            })
            .collect();
        let uri = PathBuf::from(format!("file:{name}?immutable=1"));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let survey = Self::connect(&uri, path, flags)?;
        let version = survey.version()?;
        survey.check(version)?;
        Ok(survey)
    }

    fn connect(name: &Path, path: &Path, flags: OpenFlags) -> Result<Self, SurveyError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let made = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(name, flags)?;
            connection.busy_timeout(WAIT)?;
            // The file may be a stranger's.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.pragma_update(None, "trusted_schema", false)?;
            connection.pragma_update(None, "cell_size_check", true)?;
            connection.pragma_update(None, "foreign_keys", true)?;
            Ok(connection)
        };
        let connection = made().map_err(|error| SurveyError::of(path, &error))?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// The version of the tables; 0 for an empty file.
    fn version(&self) -> Result<i64, SurveyError> {
        self.number("user_version")
    }

    fn number(&self, pragma: &str) -> Result<i64, SurveyError> {
        self.connection
            .pragma_query_value(None, pragma, |row| row.get(0))
            .map_err(|error| self.failed(&error))
    }

    /// Whether this program knows the tables of the file.
    fn check(&self, version: i64) -> Result<(), SurveyError> {
        let path = || self.path.clone();
        let foreign = |reason: &str| SurveyError::Foreign { path: path(), reason: reason.into() };
        if self.number("application_id")? != APPLICATION_ID {
            return Err(foreign("it is a database of another program"));
        }
        let known = schema::newest();
        if version > known {
            return Err(SurveyError::Newer { path: path(), found: version, known });
        }
        if version < known {
            return Err(foreign("its tables have an earlier version; add something to it first"));
        }
        let wanted = fresh_tables().map_err(|error| self.failed(&error))?;
        let found = tables(&self.connection).map_err(|error| self.failed(&error))?;
        if found == wanted { Ok(()) } else { Err(foreign("its tables were changed")) }
    }

    fn prepare_for_writing(&mut self) -> rusqlite::Result<Result<(), SurveyError>> {
        // Waits for another process that makes or changes the tables.
        let version = |connection: &Connection| {
            connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
        };
        let application = |connection: &Connection| {
            connection.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0))
        };
        if version(&self.connection)? == 0 && tables(&self.connection)?.is_empty() {
            self.connection.pragma_update(None, "journal_mode", "WAL")?;
        }
        // Synced when the log is written back, and when the database is closed.
        self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        let (found, is_new) = (version(&transaction)?, tables(&transaction)?.is_empty());
        let is_ours = application(&transaction)? == APPLICATION_ID;
        if (is_ours && found < schema::newest()) || (is_new && found == 0) {
            migrate(&transaction, found)?;
            transaction.commit()?;
        } else {
            drop(transaction);
        }
        let version = version(&self.connection)?;
        Ok(self.check(version))
    }

    /// Writes what is in the log back to the file, synced. Another reader or writer may prevent it;
    /// then the last one to close does it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> Result<(), SurveyError> {
        let done = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        done.map_err(|error| self.failed(&error))
    }

    #[cfg(test)]
    pub(crate) fn own_salt(&self) -> Salt {
        let query = "SELECT bytes FROM salt WHERE is_own";
        self.connection.query_row(query, [], |row| row.get(0)).unwrap()
    }

    /// Lets the file grow by this many pages only, as on a full disk.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, more: i64) {
        let pages = self.number("page_count").unwrap();
        self.connection.pragma_update(None, "max_page_count", pages + more).unwrap();
    }

    fn failed(&self, error: &rusqlite::Error) -> SurveyError {
        SurveyError::of(&self.path, error)
    }
}

/// Brings the tables from version `from` to the newest.
fn migrate(transaction: &Transaction<'_>, from: i64) -> rusqlite::Result<()> {
    for (version, statements) in (1..).zip(MIGRATIONS) {
        if version > from {
            transaction.execute_batch(statements)?;
            transaction.pragma_update(None, "user_version", version)?;
        }
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    let salts: i64 = transaction.query_row("SELECT count(*) FROM salt", [], |row| row.get(0))?;
    if salts == 0 {
        transaction.execute("INSERT INTO salt (bytes, is_own) VALUES (?1, 1)", [random_salt()])?;
    }
    Ok(())
}

fn random_salt() -> Salt {
    let mut salt = [0; SALT_BYTES];
    let mut filled = 0;
    while filled < salt.len() {
        let rest = &mut salt[filled..];
        match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel has no random numbers: {error}"),
        }
    }
    salt
}

/// The statements of all tables, indexes and views, sorted.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut query = connection
        .prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name")?;
    query.query_map([], |row| row.get(0))?.collect()
}

/// Those of a new database.
fn fresh_tables() -> rusqlite::Result<Vec<String>> {
    let mut connection = Connection::open_in_memory()?;
    let transaction = connection.transaction()?;
    migrate(&transaction, 0)?;
    tables(&transaction)
}

/// The name of a file for SQLite, which makes a database in memory of `:memory:` and a temporary
/// one of no name.
fn file_name(path: &Path) -> PathBuf {
    if path.is_relative() { Path::new(".").join(path) } else { path.to_owned() }
}

/// The log next to a database.
fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}
