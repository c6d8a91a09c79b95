//! What options are tried with: whether images can be mounted here, and where they are made.

use std::path::{Path, PathBuf};

use flashfit_host::capability;
use flashfit_host::mount::enter_private_namespace;

const AS_ROOT: &str = "run it as root";

/// What options are tried with.
#[derive(Debug, Clone)]
pub struct OptionProbeTools {
    /// Why images cannot be mounted here; `None` where they can.
    pub(super) cannot_mount: Option<String>,
    pub(super) hint: Option<String>,
    /// Where scratch images are made.
    pub(super) folder: PathBuf,
    /// The `rotational` attribute of scratch images; `None` for what their disk is.
    pub(super) rotational: Option<bool>,
}

impl OptionProbeTools {
    /// Gives this process its own mounts where it may. To be called before any thread is started.
    pub fn take() -> Self {
        let cannot_mount = capability::missing_for_block_devices()
            .or_else(|| enter_private_namespace().err().map(|error| error.to_string()));
        let is_root = rustix::process::geteuid().is_root();
        let hint = (cannot_mount.is_some() && !is_root).then(|| AS_ROOT.to_owned());
        Self { cannot_mount, hint, ..Self::without_mounting("") }
    }

    /// Only what can be seen without mounting.
    pub fn without_mounting(reason: &str) -> Self {
        let cannot_mount = Some(reason.to_owned());
        let folder = std::env::temp_dir();
        Self { cannot_mount, hint: None, folder, rotational: Some(false) }
    }

    /// As where images can be mounted; nothing is tried with it.
    pub(super) fn mounting() -> Self {
        Self { cannot_mount: None, ..Self::without_mounting("") }
    }

    /// With scratch images in this folder.
    #[must_use]
    pub fn in_folder(self, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..self }
    }

    /// With scratch images of which the kernel believes this, as it does of flash unless told;
    /// `None` for what it believes of the disk that they are on.
    #[must_use]
    pub fn rotational(self, rotational: Option<bool>) -> Self {
        Self { rotational, ..self }
    }

    /// Why images cannot be mounted here; `None` where they can.
    pub fn cannot_mount(&self) -> Option<&str> {
        self.cannot_mount.as_deref()
    }

    /// What the user can do so that they can be.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}
