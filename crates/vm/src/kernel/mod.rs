//! Finding a kernel to boot: the user's, the running system's, or the newest of Debian's packages.
//!
//! A downloaded kernel is unpacked into `flashfit/kernels/RELEASE` of the user's cache folder and
//! used again from there. Limits: a package is looked for with apt alone.

mod package;
pub(crate) mod plain;

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flashfit_host::input_file::{self, InputFileError};
use flashfit_host::program::quote;
use flashfit_host::{ProgramError, Runner};
use flashfit_user_error::{ExitClass, UserError};

use crate::architecture;
use crate::cache_folder::cache_folder;
use crate::modules::{ModulePresence, Modules};

/// A kernel's image and its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// What QEMU boots: a `vmlinuz`.
    pub image: PathBuf,
    /// The folder with its modules, as `/lib/modules/RELEASE`.
    pub modules: PathBuf,
    /// Its release, e.g. `6.1.0-56-amd64`.
    pub release: String,
}

/// Why there is no kernel to boot.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// What was given is not a kernel that can be used.
    #[error("{} cannot be booted: {why}", image.display())]
    Given {
        /// The file given.
        image: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Its modules are compressed, and there is no index of what they need.
    #[error("{} cannot be booted: its modules are compressed and were not indexed", image.display())]
    Unindexed {
        /// The file given.
        image: PathBuf,
        /// The folder of its modules.
        modules: PathBuf,
    },
    /// None was found, and none could be downloaded.
    #[error("there is no kernel to boot here: {why}")]
    NotFound {
        /// What was tried, and how it went.
        why: String,
    },
    /// A package came, and cannot be used.
    #[error("the package {package} cannot be used: {why}")]
    Package {
        /// Its name.
        package: String,
        /// Why not.
        why: String,
    },
    /// A program that is needed for it is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A file or folder cannot be used.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was to be done with it.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why not.
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

    fn hint(&self) -> Option<String> {
        let package = architecture::host().kernel_package;
        match self {
            Self::Given { .. } => None,
            Self::Unindexed { modules, .. } => Some(index_command(modules)),
            Self::Program(ProgramError::Interrupted { .. }) => None,
            error if says_no_room(error) => Some(
                "make room in the cache folder, or name another: XDG_CACHE_HOME=DIR flashfit ..."
                    .to_owned(),
            ),
            _ => Some(format!("apt-get install {package}, or name a kernel with --vm-kernel")),
        }
    }
}

/// What makes the index of the modules in `folder`, which is `ROOT/lib/modules/RELEASE`.
fn index_command(folder: &Path) -> String {
    let root = folder.ancestors().nth(3).filter(|root| *root != Path::new("/"));
    let at = root.map(|root| format!("-b {} ", quote(&root.to_string_lossy())));
    let release = folder.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "depmod {}{release}, by who may write there; apt-get install kmod brings it",
        at.unwrap_or_default()
    )
}

/// Whether a file could not be written for want of room; of programs, which say it in words.
fn says_no_room(error: &KernelError) -> bool {
    match error {
        KernelError::File { source, .. } => source.kind() == io::ErrorKind::StorageFull,
        other => other.to_string().contains("No space left on device"),
    }
}

impl Kernel {
    /// The kernel in the file `image`, with the modules in `modules`; without it, those of its
    /// release beside it (`../lib/modules/RELEASE`) or in `/lib/modules`.
    ///
    /// # Errors
    /// [`KernelError::Given`] when it is no kernel, or its modules are not found.
    pub fn given(image: &Path, modules: Option<&Path>) -> Result<Self, KernelError> {
        let given = |why: String| KernelError::Given { image: image.to_owned(), why };
        let image_path = std::path::absolute(image).map_err(|error| given(error.to_string()))?;
        let told = release_of(&image_path).map_err(|error| given(error.to_string()))?;
        let folder_name = |folder: &Path| Some(folder.file_name()?.to_str()?.to_owned());
        let release = told.or_else(|| modules.and_then(folder_name)).ok_or_else(|| {
            given("it does not say its release; name the folder of its modules too".to_owned())
        })?;
        let beside = image_path.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let places = [
            beside.join("lib/modules").join(&release),
            beside.join("usr/lib/modules").join(&release),
            Path::new("/lib/modules").join(&release),
        ];
        let folder = match modules {
            Some(folder) => folder.is_dir().then(|| folder.to_owned()),
            None => places.into_iter().find(|folder| folder.is_dir()),
        };
        let modules =
            folder.ok_or_else(|| given(format!("its modules ({release}) are not found")))?;
        if !Modules::are_told(&modules) {
            return Err(KernelError::Unindexed { image: image.to_owned(), modules });
        }
        Ok(Self { image: image_path, modules, release })
    }

    /// The running system's, if its files are there and can be read.
    pub fn running() -> Option<Self> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
        let release = release.trim();
        let image = Path::new("/boot").join(format!("vmlinuz-{release}"));
        let modules = Path::new("/lib/modules").join(release);
        Self::given(&image, Some(&modules)).ok()
    }

    /// Those that were downloaded before, the newest release first.
    pub fn cached() -> Vec<Self> {
        cache_folder().map(|cache| package::unpacked(&cache.join("kernels"))).unwrap_or_default()
    }

    /// Downloads the newest of Debian's packages for this architecture with `apt-get download`,
    /// which an ordinary user may do, and unpacks it; takes what was unpacked before.
    ///
    /// # Errors
    /// When there is no apt, no network, or no room.
    pub fn downloaded(runner: &dyn Runner) -> Result<Self, KernelError> {
        let cache = cache_folder().ok_or_else(|| KernelError::NotFound {
            why: "neither XDG_CACHE_HOME nor HOME names a folder to keep one in".to_owned(),
        })?;
        package::downloaded(&cache.join("kernels"), runner)
    }

    /// The first that has all modules called `wanted`: the running system's, one downloaded
    /// before, one downloaded now. Where none has them all, the one with most.
    ///
    /// # Errors
    /// When there is none at all; what [`Kernel::downloaded`] says.
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

    /// Which of the modules called `wanted` it neither has nor has built in.
    pub fn lacking(&self, wanted: &[String]) -> Vec<String> {
        let modules = Modules::read(&self.modules).unwrap_or_default();
        let is_lacking = |name: &&String| modules.presence(name) == ModulePresence::Lacking;
        wanted.iter().filter(is_lacking).cloned().collect()
    }
}

/// The release that a bzImage tells in its header; `None` for other kinds of images.
///
/// Source: the kernel's `Documentation/arch/x86/boot.rst`, fields `header` and `kernel_version`.
fn release_of(image: &Path) -> io::Result<Option<String>> {
    let mut file = input_file::open(image).map_err(InputFileError::into_io)?;
    let mut header = [0; 0x210];
    if file.read_exact(&mut header).is_err() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too short for a kernel"));
    }
    if header[0x202..0x206] != *b"HdrS" {
        return Ok(None);
    }
    let at = u64::from(u16::from_le_bytes([header[0x20e], header[0x20f]])) + 0x200;
    file.seek(SeekFrom::Start(at))?;
    let mut text = Vec::new();
    file.take(256).read_to_end(&mut text)?;
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let release = String::from_utf8_lossy(text);
    Ok(release.split_whitespace().next().map(str::to_owned))
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
    fn a_given_kernel_tells_its_release_and_has_its_modules_beside() {
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
        assert!(error.hint().is_some_and(|hint| hint.starts_with(&expected)), "{error:?}");
        std::fs::write(modules.join("modules.dep"), "kernel/fs/ext4/ext4.ko.xz:\n").unwrap();
        assert_eq!(Kernel::given(&path, Some(&modules)).unwrap().modules, modules);
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(Kernel::given(&file, None).is_err());
        assert!(Kernel::given(Path::new("/nowhere/vmlinuz"), None).is_err());
    }
}
