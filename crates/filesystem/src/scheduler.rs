//! I/O schedulers: reads and sets the scheduler of a queue, and translates old names.
//!
//! Source: `Documentation/block/switching-sched.rst`. The single-queue schedulers noop, deadline
//! and cfq left with kernel 5.0; row was never in the mainline kernel.

use std::io;
use std::path::Path;

use flashfit_catalog::CatalogEntryError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Today's schedulers of the mainline kernel.
const MAINLINE: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// Earlier schedulers, the one that serves the same end today, and why.
const EARLIER: [(&str, &str, &str); 4] = [
    ("noop", "none", "noop was removed in kernel 5.0; none replaces it"),
    ("deadline", "mq-deadline", "deadline was removed in kernel 5.0; mq-deadline replaces it"),
    ("cfq", "bfq", "cfq was removed in kernel 5.0; bfq is the closest"),
    ("row", "bfq", "row was never in the mainline kernel; bfq is the closest"),
];

/// An I/O scheduler by its name in the kernel.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Scheduler(String);

/// A name that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedScheduler {
    /// The scheduler as the kernel names it today.
    pub scheduler: Scheduler,
    /// What to tell the user, where the name was an earlier one.
    pub note: Option<String>,
}

impl Scheduler {
    /// A scheduler by its name, which is not checked.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

/// The schedulers of today's mainline kernel, whether this one has them or not.
pub fn mainline() -> impl Iterator<Item = Scheduler> {
    MAINLINE.into_iter().map(Scheduler::new)
}

/// The schedulers that a queue offers, in the kernel's order; `queue_dir` is `/sys/block/X/queue`.
///
/// # Errors
/// When the attribute cannot be read.
pub fn available(queue_dir: &Path) -> io::Result<Vec<Scheduler>> {
    Ok(parse(&read(queue_dir)?).0)
}

/// The scheduler that a queue uses.
///
/// # Errors
/// When the attribute cannot be read or names none as in use.
pub fn current(queue_dir: &Path) -> io::Result<Scheduler> {
    let text = read(queue_dir)?;
    parse(&text).1.ok_or_else(|| {
        let reason = format!("`{}` does not name the active scheduler", text.trim());
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })
}

/// Makes a queue use `scheduler`, and looks whether it does. Who calls this restores the earlier
/// one, as [`current`] reported it.
///
/// # Errors
/// When the kernel refuses (it does not have it, or rights are lacking) or keeps another one.
pub fn set(queue_dir: &Path, scheduler: &Scheduler) -> io::Result<()> {
    std::fs::write(queue_dir.join("scheduler"), scheduler.name())?;
    let now = current(queue_dir)?;
    if now == *scheduler {
        Ok(())
    } else {
        Err(io::Error::other(format!("the queue uses {now} instead of {scheduler}")))
    }
}

fn read(queue_dir: &Path) -> io::Result<String> {
    std::fs::read_to_string(queue_dir.join("scheduler"))
}

/// Reads `none [mq-deadline] kyber bfq`; a queue without a choice shows one name without brackets.
fn parse(text: &str) -> (Vec<Scheduler>, Option<Scheduler>) {
    let mut offered = Vec::new();
    let mut current = None;
    for word in text.split_whitespace() {
        let name = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        offered.push(Scheduler::new(name.unwrap_or(word)));
        if let Some(name) = name {
            current = Some(Scheduler::new(name));
        }
    }
    let only = if offered.len() == 1 { offered.first().cloned() } else { None };
    (offered, current.or(only))
}

/// What a scheduler's name means on a kernel of today; earlier names are translated.
///
/// # Errors
/// [`CatalogEntryError::Unknown`] with the nearest name.
pub fn understand(name: &str) -> Result<ParsedScheduler, CatalogEntryError> {
    if MAINLINE.contains(&name) {
        return Ok(ParsedScheduler { scheduler: Scheduler::new(name), note: None });
    }
    match EARLIER.iter().find(|(earlier, _, _)| *earlier == name) {
        Some((_, today, note)) => Ok(ParsedScheduler {
            scheduler: Scheduler::new(*today),
            note: Some((*note).to_owned()),
        }),
        None => {
            let known = MAINLINE.into_iter().chain(EARLIER.map(|(earlier, _, _)| earlier));
            Err(CatalogEntryError::unknown("I/O scheduler", name, known))
        }
    }
}

/// The scheduler of that name among those that a queue offers; a name that the queue offers is
/// taken as it is, an earlier one is translated.
///
/// # Errors
/// [`CatalogEntryError::Unknown`] when the queue offers no such scheduler.
pub fn choose(name: &str, offered: &[Scheduler]) -> Result<ParsedScheduler, CatalogEntryError> {
    let understood = if offered.iter().any(|scheduler| scheduler.name() == name) {
        ParsedScheduler { scheduler: Scheduler::new(name), note: None }
    } else {
        understand(name)?
    };
    if offered.contains(&understood.scheduler) {
        return Ok(understood);
    }
    let known = offered.iter().map(Scheduler::name);
    let wanted = understood.scheduler.name();
    Err(CatalogEntryError::unknown("I/O scheduler of this device", wanted, known))
}

/// What stands in rules for the kernel name of a disk that is not there.
pub const EXAMPLE_DISK: &str = "YOUR-CARD";

/// A udev(7) rule that sets the scheduler of the disks whose kernel name matches `kernel_name`
/// (such as `mmcblk0` or `sd[a-z]`) whenever one appears.
pub fn udev_rule(kernel_name: &str, scheduler: &Scheduler) -> String {
    udev_queue_rule(kernel_name, "scheduler", scheduler.name())
}

/// The same for any attribute of the queue.
pub fn udev_queue_rule(kernel_name: &str, attribute: &str, value: &str) -> String {
    // A quote or a line's end would end the rule's value; `?` matches any one character.
    let plain =
        |c: char| if c.is_ascii_alphanumeric() || "*?[]-_!|.".contains(c) { c } else { '?' };
    let pattern: String = kernel_name.chars().map(plain).collect();
    let value: String = value.chars().map(plain).collect();
    format!(
        "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", \
         KERNEL==\"{pattern}\", ATTR{{queue/{attribute}}}=\"{value}\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("scheduler"), text).unwrap();
        folder
    }

    #[test]
    fn the_one_in_brackets_is_in_use() {
        let queue = queue("none [mq-deadline] kyber bfq\n");
        let names: Vec<String> =
            available(queue.path()).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["none", "mq-deadline", "kyber", "bfq"]);
        assert_eq!(current(queue.path()).unwrap(), Scheduler::new("mq-deadline"));
    }

    #[test]
    fn a_queue_without_a_choice_uses_what_it_shows() {
        assert_eq!(current(queue("none\n").path()).unwrap(), Scheduler::new("none"));
        assert!(current(queue("none bfq\n").path()).is_err());
        assert!(current(queue("\n").path()).is_err());
        assert!(available(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn set_reads_back_what_it_wrote() {
        let queue = queue("[none] bfq\n");
        set(queue.path(), &Scheduler::new("bfq")).unwrap();
        assert_eq!(current(queue.path()).unwrap(), Scheduler::new("bfq"));
    }

    #[test]
    fn earlier_names_mean_todays_schedulers() {
        for (name, today) in
            [("noop", "none"), ("deadline", "mq-deadline"), ("cfq", "bfq"), ("row", "bfq")]
        {
            let understood = understand(name).unwrap();
            assert_eq!(understood.scheduler, Scheduler::new(today));
            assert!(understood.note.unwrap().contains(name));
        }
        assert_eq!(understand("kyber").unwrap().note, None);
    }

    #[test]
    fn an_unknown_name_gets_the_nearest() {
        let error = understand("mq-deadlin").unwrap_err();
        let CatalogEntryError::Unknown { nearest, .. } = error else { panic!("{error}") };
        assert_eq!(nearest.as_deref(), Some("mq-deadline"));
    }

    #[test]
    fn a_choice_is_among_what_the_queue_offers() {
        let offered = ["none", "adios"].map(Scheduler::new);
        assert_eq!(choose("adios", &offered).unwrap().scheduler.name(), "adios");
        assert_eq!(choose("noop", &offered).unwrap().scheduler.name(), "none");
        assert!(choose("cfq", &offered).is_err());
    }

    #[test]
    fn a_udev_rule_cannot_be_broken_out_of() {
        assert_eq!(
            udev_rule("mmcblk0", &Scheduler::new("bfq")),
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", \
             KERNEL==\"mmcblk0\", ATTR{queue/scheduler}=\"bfq\"\n"
        );
        let broken = udev_rule("a\"\nRUN+=\"x", &Scheduler::new("bfq"));
        assert_eq!(broken.lines().count(), 1);
        assert!(!broken.contains("RUN+="));
    }
}
