//! Errors of virtual machines.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use flashfit_host::ProgramError;
use flashfit_user_error::{ExitClass, Hint, Task, UserError, UserSetting};

#[derive(Debug, thiserror::Error)]
pub enum VmError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Needed for the disks or the channel.
    #[error("the kernel {release} lacks the module `{module}`, which the guest needs")]
    Module { release: String, module: String },
    /// The options contradict each other or the machine.
    #[error("invalid virtual machine: {what}")]
    Options { what: String },
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// A verb, such as `read`.
        what: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the virtual machine ended {when}: {how}")]
    Ended {
        when: &'static str,
        /// Exit status and last output.
        how: String,
    },
    #[error("this QEMU ({version}) has no device `{device}`")]
    NoDevice { device: &'static str, version: String },
    #[error("not enough memory for a virtual machine of {mib} MiB: {how}")]
    Memory { mib: u64, how: String },
    /// Reported by the guest.
    #[error("the guest cannot start: {what}")]
    Guest { what: String },
    #[error("the guest was not ready within {} s; its console: {console}", wait.as_secs())]
    NotReady {
        wait: Duration,
        /// The last lines of its console.
        console: String,
    },
    /// QEMU's monitor refused a command.
    #[error("QEMU refuses to {what}: {why}")]
    Monitor { what: String, why: String },
    #[error("interrupted while the virtual machine was starting")]
    Interrupted,
}

impl UserError for VmError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Program(error) => error.class(),
            Self::Options { .. } => ExitClass::Usage,
            Self::Module { .. }
            | Self::File { .. }
            | Self::Memory { .. }
            | Self::NoDevice { .. }
            | Self::Guest { .. }
            | Self::NotReady { .. } => ExitClass::Environment,
            Self::Ended { .. } | Self::Monitor { .. } => ExitClass::Environment,
            Self::Interrupted => ExitClass::Interrupted,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Program(error) => error.hint(),
            Self::Module { .. } => {
                Some("use another kernel, such as the package linux-image-amd64".into())
            }
            Self::NoDevice { device: "emmc", .. } => Some(
                Hint::from("install QEMU 10.2 or later (Debian 13 backports), or use ")
                    .and(UserSetting::VmDisk)
                    .and(" sd"),
            ),
            Self::Memory { .. } => {
                Some(Hint::from("use less memory: ").and(UserSetting::Memory).and(" SIZE"))
            }
            Self::File { source, .. } if source.kind() == ErrorKind::StorageFull => Some(
                Hint::from("make room there, or use other directories: ")
                    .and("XDG_CACHE_HOME=DIR TMPDIR=DIR ")
                    .and(Task::Any),
            ),
            Self::NotReady { .. } => {
                Some("end other programs that keep the processors busy, then try again".into())
            }
            _ => None,
        }
    }
}

impl VmError {
    /// For `map_err`: the failed action and its file.
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl Fn(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path: path.clone(), source }
    }
}
