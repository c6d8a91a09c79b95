//! Finds a kernel to boot: the user's, the running system's, or the newest Debian package.
//!
//! A downloaded kernel is unpacked to `flashfit/kernels/RELEASE` in the user's cache directory and
//! reused from there. Limit: packages are only downloaded with apt.

mod format;
mod package;
pub(crate) mod plain;

use std::io;
use std::path::{Path, PathBuf};

use flashfit_host::program::quote;
use flashfit_host::{ProgramError, Runner};
use flashfit_user_error::{ExitClass, Hint, Task, UserError, UserSetting};

use crate::architecture;
use crate::cache_folder::cache_folder;
use crate::modules::{ModulePresence, Modules};

/// A kernel's image and its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// A `vmlinuz`, or another format that QEMU boots.
    pub image: PathBuf,
    /// Directory of its modules, such as `/lib/modules/RELEASE`.
    pub modules: PathBuf,
    /// Such as `6.1.0-56-amd64`.
    pub release: String,
}

#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The user's kernel cannot be used.
    #[error("{} cannot be booted: {why}", image.display())]
    Given { image: PathBuf, why: String },
    /// Compressed modules need depmod's index, because their dependencies cannot be read.
    #[error("{} cannot be booted: its modules are compressed and have no index", image.display())]
    Unindexed { image: PathBuf, modules: PathBuf },
    /// None was found, and none could be downloaded.
    #[error("no kernel to boot was found: {why}")]
    NotFound { why: String },
    /// A downloaded package cannot be used.
    #[error("the package {package} cannot be used: {why}")]
    Package { package: String, why: String },
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// A verb, such as `read`.
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl UserError for KernelError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Given { .. } | Self::Unindexed { .. } => ExitClass::Usage,
            Self::Program(ProgramError::Interrupted { .. }) => ExitClass::Interrupted,
            _ => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<Hint> {
        let package = architecture::host().kernel_package;
        match self {
            Self::Given { .. } => Some(
                Hint::from("name a kernel of a package, as in ls /boot/vmlinuz*, or leave out ")
                    .and(UserSetting::VmKernel),
            ),
            Self::Unindexed { modules, .. } => Some(index_command(modules).into()),
            Self::Program(ProgramError::Interrupted { .. }) => None,
            error if is_disk_full(error) => Some(
                Hint::from("make room in the cache directory, or use another: XDG_CACHE_HOME=DIR ")
                    .and(Task::Any),
            ),
            _ => {
                let install = format!("apt-get install {package}, or choose a kernel with ");
                Some(Hint::from(install).and(UserSetting::VmKernel).and(" FILE"))
            }
        }
    }
}

/// The command that indexes the modules in `folder`, which is `ROOT/lib/modules/RELEASE`.
fn index_command(folder: &Path) -> String {
    let root = folder.ancestors().nth(3).filter(|root| *root != Path::new("/"));
    let at = root.map(|root| format!("-b {} ", quote(&root.to_string_lossy())));
    let release = folder.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "depmod {}{release}, as a user with write access; depmod is in the package kmod",
        at.unwrap_or_default()
    )
}

/// Whether the disk was full; for failed programs, according to their message.
fn is_disk_full(error: &KernelError) -> bool {
    match error {
        KernelError::File { source, .. } => source.kind() == io::ErrorKind::StorageFull,
        other => other.to_string().contains("No space left on device"),
    }
}

impl Kernel {
    /// The kernel in the file `image`, with the modules in `modules`. Without `modules`, those of
    /// its release in `../lib/modules` or `/lib/modules`.
    ///
    /// # Errors
    /// [`KernelError::Given`] if it is not a kernel, or its modules are not found.
    pub fn given(image: &Path, modules: Option<&Path>) -> Result<Self, KernelError> {
        let given = |why: String| KernelError::Given { image: image.to_owned(), why };
        let image_path = std::path::absolute(image).map_err(|error| given(error.to_string()))?;
        let is_arm = architecture::host().is_arm();
        let stated =
            format::release(&image_path, is_arm).map_err(|error| given(error.to_string()))?;
        let folder_name = |folder: &Path| Some(folder.file_name()?.to_str()?.to_owned());
        let release = stated.or_else(|| modules.and_then(folder_name)).ok_or_else(|| {
            given("its release is not in the file; its name has to end with it".to_owned())
        })?;
        let root = image_path.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let candidates = [
            root.join("lib/modules").join(&release),
            root.join("usr/lib/modules").join(&release),
            Path::new("/lib/modules").join(&release),
        ];
        let folder = match modules {
            Some(folder) => folder.is_dir().then(|| folder.to_owned()),
            None => candidates.into_iter().find(|folder| folder.is_dir()),
        };
        let modules =
            folder.ok_or_else(|| given(format!("its modules ({release}) are not found")))?;
        if !Modules::has_dependencies(&modules) {
            return Err(KernelError::Unindexed { image: image.to_owned(), modules });
        }
        Ok(Self { image: image_path, modules, release })
    }

    /// The running kernel, if its files exist and can be read.
    pub fn running() -> Option<Self> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
        let release = release.trim();
        let image = Path::new("/boot").join(format!("vmlinuz-{release}"));
        let modules = Path::new("/lib/modules").join(release);
        Self::given(&image, Some(&modules)).ok()
    }

    /// Kernels downloaded earlier, the newest release first.
    pub fn cached() -> Vec<Self> {
        cache_folder().map(|cache| package::unpacked(&cache.join("kernels"))).unwrap_or_default()
    }

    /// Downloads and unpacks the newest Debian kernel for this architecture with `apt-get
    /// download`, which needs no root, unless it was unpacked earlier.
    ///
    /// # Errors
    /// If there is no apt or no network, or the disk is full.
    pub fn downloaded(runner: &dyn Runner) -> Result<Self, KernelError> {
        let cache = cache_folder().ok_or_else(|| KernelError::NotFound {
            why: "neither XDG_CACHE_HOME nor HOME is set, so there is no cache directory"
                .to_owned(),
        })?;
        package::downloaded(&cache.join("kernels"), runner)
    }

    /// The first kernel with all modules in `wanted`: the running one, one downloaded earlier, or
    /// one downloaded now. If none has them all, the one that lacks the fewest.
    ///
    /// # Errors
    /// If there is none at all; see [`Kernel::downloaded`].
    pub fn find(wanted: &[String], runner: &dyn Runner) -> Result<Self, KernelError> {
        let here: Vec<Self> = Self::running().into_iter().chain(Self::cached()).collect();
        if let Some(kernel) = here.iter().find(|kernel| kernel.lacking(wanted).is_empty()) {
            return Ok(kernel.clone());
        }
        match Self::downloaded(runner) {
            Ok(kernel) => {
                let all = here.into_iter().chain([kernel]);
                Ok(all.min_by_key(|kernel| kernel.lacking(wanted).len()).expect("one at least"))
            }
            Err(error) => {
                here.into_iter().min_by_key(|kernel| kernel.lacking(wanted).len()).ok_or(error)
            }
        }
    }

    /// The modules in `wanted` that the kernel lacks.
    pub fn lacking(&self, wanted: &[String]) -> Vec<String> {
        let modules = Modules::read(&self.modules).unwrap_or_default();
        let is_lacking = |name: &&String| modules.presence(name) == ModulePresence::Lacking;
        wanted.iter().filter(is_lacking).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(release: &str) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        let text = format!("{release} (somebody@somewhere) #1 SMP\0");
        bytes[0x300..0x300 + text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    #[test]
    fn release_and_modules_of_a_kernel_are_found() {
        let root = tempfile::tempdir().unwrap();
        let modules = root.path().join("lib/modules/6.1.0-9-test");
        std::fs::create_dir_all(&modules).unwrap();
        std::fs::create_dir(root.path().join("boot")).unwrap();
        let path = root.path().join("boot/vmlinuz");
        std::fs::write(&path, image("6.1.0-9-test")).unwrap();
        let kernel = Kernel::given(&path, None).unwrap();
        assert_eq!((kernel.release.as_str(), kernel.modules), ("6.1.0-9-test", modules));
        std::fs::write(&path, image("6.1.0-10-test")).unwrap();
        let error = Kernel::given(&path, None).unwrap_err();
        assert_eq!(error.class(), ExitClass::Usage);
        assert!(error.to_string().contains("modules (6.1.0-10-test)"), "{error}");
    }

    #[test]
    fn compressed_modules_need_an_index() {
        let root = tempfile::tempdir().unwrap();
        let modules = root.path().join("lib/modules/6.12.9-test");
        let of_ext4 = modules.join("kernel/fs/ext4");
        std::fs::create_dir_all(&of_ext4).unwrap();
        std::fs::write(of_ext4.join("ext4.ko.xz"), "").unwrap();
        let path = root.path().join("vmlinuz");
        std::fs::write(&path, image("6.12.9-test")).unwrap();
        let error = Kernel::given(&path, Some(&modules)).unwrap_err();
        let expected = format!("depmod -b {} 6.12.9-test", root.path().display());
        assert!(
            error
                .hint()
                .is_some_and(|hint| hint.text().is_some_and(|text| text.starts_with(&expected))),
            "{error:?}"
        );
        std::fs::write(modules.join("modules.dep"), "kernel/fs/ext4/ext4.ko.xz:\n").unwrap();
        assert_eq!(Kernel::given(&path, Some(&modules)).unwrap().modules, modules);
    }

    #[test]
    fn a_file_that_is_not_a_kernel_is_refused() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(Kernel::given(&file, None).is_err());
        assert!(Kernel::given(Path::new("/nowhere/vmlinuz"), None).is_err());
    }
}
