//! Why there is no virtual machine, or none any more.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use flashfit_host::ProgramError;
use flashfit_user_error::{ExitClass, UserError};

/// Why a virtual machine cannot be started or used.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A program that the machine is made with is not installed, or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The kernel does not bring a module without which the guest reaches neither its disks nor
    /// its channel.
    #[error("the kernel {release} has no module `{module}`, without which the guest cannot work")]
    Module {
        /// The kernel's release.
        release: String,
        /// The module's name.
        module: String,
    },
    /// The options contradict each other or the machine.
    #[error("this virtual machine cannot be: {what}")]
    Options {
        /// What is wrong with them.
        what: String,
    },
    /// A file or folder of the machine's own cannot be read or made.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was to be done with it.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// QEMU ended before it should, of itself or by somebody's hand.
    #[error("the virtual machine ended {when}: {how}")]
    Ended {
        /// During what.
        when: &'static str,
        /// How it ended, and what it or the guest said last.
        how: String,
    },
    /// This QEMU has no such device.
    #[error("this QEMU ({version}) has no device `{device}`")]
    NoDevice {
        /// Its name there.
        device: &'static str,
        /// The version of this QEMU.
        version: String,
    },
    /// The host does not give QEMU the memory that the guest is to have.
    #[error("there is no memory here for a virtual machine of {mib} MiB: {how}")]
    Memory {
        /// What it was to have, in MiB.
        mib: u64,
        /// What QEMU said.
        how: String,
    },
    /// The guest says why it cannot work.
    #[error("the guest cannot start: {what}")]
    Guest {
        /// What it said.
        what: String,
    },
    /// The guest was not ready in time.
    #[error("the guest was not ready within {} s; its console: {console}", wait.as_secs())]
    NotReady {
        /// How long it was waited for.
        wait: Duration,
        /// The last lines of its console.
        console: String,
    },
    /// QEMU does not take or do what its monitor was told.
    #[error("QEMU refuses to {what}: {why}")]
    Monitor {
        /// What was asked.
        what: String,
        /// Its answer.
        why: String,
    },
    /// The user interrupted.
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

    fn hint(&self) -> Option<String> {
        match self {
            Self::Program(error) => error.hint(),
            Self::Module { .. } => {
                Some("use another kernel, e.g. that of linux-image-amd64".into())
            }
            Self::NoDevice { device: "emmc", .. } => Some(
                "an eMMC needs QEMU 10.2 or later, as Debian's backports for 13 have; take --vm-disk sd"
                    .into(),
            ),
            Self::Memory { .. } => Some("ask for less of it: --memory SIZE".into()),
            Self::File { source, .. } if source.kind() == ErrorKind::StorageFull => Some(
                "make room there, or name other folders: XDG_CACHE_HOME=DIR TMPDIR=DIR flashfit ..."
                    .into(),
            ),
            Self::NotReady { .. } => {
                Some("wait longer, or end what keeps the processors busy".into())
            }
            _ => None,
        }
    }
}

impl VmError {
    /// For `map_err`: what was to be done with which file.
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl Fn(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path: path.clone(), source }
    }
}
