//! The environment variables of flashfit, as man pages list them. `docs/install.md` has the same.

use std::ffi::OsString;

/// Names the user's catalog, as `--catalog` does.
pub const CATALOG: &str = "FLASHFIT_CATALOG";

/// The value of a variable; an empty one counts as not set, as in shell scripts that clear one.
pub fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

pub struct EnvironmentVariable {
    pub name: &'static str,
    pub meaning: &'static str,
    /// The commands that read it; all if there are none.
    pub commands: &'static [&'static str],
}

pub const VARIABLES: [EnvironmentVariable; 5] = [
    EnvironmentVariable {
        name: CATALOG,
        meaning: "Directory with your own catalog files; --catalog replaces it.",
        commands: &[],
    },
    EnvironmentVariable {
        name: "FLASHFIT_PATH",
        meaning: "Directories in which root looks for programs, separated by colons, instead of \
                  those of the system. Each must belong to root, and only root may write to it. \
                  Other users' programs are found by PATH.",
        commands: &[],
    },
    EnvironmentVariable {
        name: "FLASHFIT_SSH_CONFIG",
        meaning: "Configuration file for ssh, as ssh -F takes it, for boards.",
        commands: &["tune", "probe", "doctor", "crash"],
    },
    EnvironmentVariable {
        name: "FLASHFIT_STATE_DIR",
        meaning: "Directory with the records of unfinished devices [default: /var/lib/flashfit].",
        commands: &["apply", "restore", "check", "tune", "crash"],
    },
    EnvironmentVariable {
        name: "FLASHFIT_SURVEY",
        meaning: "File of the survey [default: flashfit/survey.db in your data directory]; --db \
                  and --survey replace it.",
        commands: &["survey", "tune", "inspect", "probe"],
    },
];
