//! Counting attempts to do harm, for `make harm`.

use std::io::Write;

/// The environment variable that names the file of attempts.
pub const ATTEMPTS_LOG: &str = "FLASHFIT_ATTEMPTS_LOG";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptKind {
    TargetInUse,
    SwappedTarget,
    ForeignRunDir,
    Kill,
    HostileClient,
    PowerCutState,
}

impl AttemptKind {
    fn name(self) -> &'static str {
        match self {
            Self::TargetInUse => "targets in use",
            Self::SwappedTarget => "swapped targets",
            Self::ForeignRunDir => "edited and foreign directories",
            Self::Kill => "kills",
            Self::HostileClient => "hostile clients",
            Self::PowerCutState => "power-cut states",
        }
    }
}

/// Records that a test has made so many attempts, as a line `KIND<TAB>COUNT`.
///
/// # Panics
/// When the file cannot be written.
pub fn attempted(kind: AttemptKind, count: usize) {
    let Some(path) = std::env::var_os(ATTEMPTS_LOG) else { return };
    let file = std::fs::File::options().create(true).append(true).open(path);
    let line = format!("{}\t{count}\n", kind.name());
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{ATTEMPTS_LOG}: {error}"));
}
