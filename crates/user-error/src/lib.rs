//! What every error of flashfit says besides its text: a class, which decides the exit code, and a
//! hint.
//!
//! A broken invariant is not an error of this kind; it panics and ends with [`ExitClass::Bug`].

mod hint;

pub use hint::{Hint, HintPart, Task, UserSetting};

/// What the exit code of the command says. Documented in the README; the numbers never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitClass {
    /// 0: done.
    Done = 0,
    /// 1: it ran, and the verdict is bad (every trial failed, a target was missed).
    BadVerdict = 1,
    /// 2: the command line, configuration or a file given by the user is wrong.
    Usage = 2,
    /// 3: refused, because something could be lost.
    Refused = 3,
    /// 4: the machine lacks something: a program, a right, a kernel feature, disk space.
    Environment = 4,
    /// 5: the device returned an error or vanished.
    Io = 5,
    /// 6: interrupted; what was recorded is kept and the run can be resumed.
    Interrupted = 6,
    /// 70: a mistake in flashfit itself.
    Bug = 70,
}

impl ExitClass {
    /// The process exit code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::BadVerdict => "bad-verdict",
            Self::Usage => "usage",
            Self::Refused => "refused",
            Self::Environment => "environment",
            Self::Io => "io",
            Self::Interrupted => "interrupted",
            Self::Bug => "bug",
        }
    }

    /// The class of an exit code of flashfit; an unknown code counts as a bug.
    pub fn of_code(code: u8) -> Self {
        let all = [
            Self::Done,
            Self::BadVerdict,
            Self::Usage,
            Self::Refused,
            Self::Environment,
            Self::Io,
            Self::Interrupted,
        ];
        all.into_iter().find(|class| class.code() == code).unwrap_or(Self::Bug)
    }
}

/// An error that can be shown to a user: what and where (its `Display`), and what to do.
pub trait UserError: std::error::Error {
    /// Decides the exit code.
    fn class(&self) -> ExitClass;

    /// Something the user can type or do, where there is such a thing.
    fn hint(&self) -> Option<Hint> {
        None
    }
}
