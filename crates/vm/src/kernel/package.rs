//! Downloads and unpacks the newest Debian kernel package.
//!
//! apt verifies the archive's signatures. The package is unpacked to a temporary directory and
//! renamed when complete. Drivers for hardware that guests lack are omitted, which saves more than
//! half of 400 MB.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::{Program, Runner};
use tempfile::Builder;

use super::{Kernel, KernelError};
use crate::architecture;
use crate::modules::Modules;
use crate::unfinished;

const DOWNLOAD_WAIT: Duration = Duration::from_secs(900);
/// Omitted directories below `kernel/`.
const OMITTED: [&str; 10] = [
    "sound",
    "drivers/gpu",
    "drivers/media",
    "drivers/infiniband",
    "drivers/iio",
    "drivers/staging",
    "drivers/net/wireless",
    "drivers/net/ethernet",
    "drivers/hwmon",
    "drivers/isdn",
];

/// The kernels unpacked in `folder`, the newest release first.
pub(super) fn unpacked(folder: &Path) -> Vec<Kernel> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let kernels = names.filter_map(|release| unpacked_release(folder, &release));
    let mut kernels: Vec<Kernel> = kernels.collect();
    kernels.sort_by_key(|kernel| std::cmp::Reverse(numbers(&kernel.release)));
    kernels
}

fn unpacked_release(folder: &Path, release: &str) -> Option<Kernel> {
    let root = folder.join(release);
    let image = root.join("boot").join(format!("vmlinuz-{release}"));
    let modules = root.join("lib/modules").join(release);
    let is_there = image.is_file() && modules.join("modules.dep").is_file();
    is_there.then(|| Kernel { image, modules, release: release.to_owned() })
}

pub(super) fn downloaded(folder: &Path, runner: &dyn Runner) -> Result<Kernel, KernelError> {
    let package = newest(runner)?;
    let release = package.strip_prefix("linux-image-").unwrap_or(&package).to_owned();
    if let Some(kernel) = unpacked_release(folder, &release) {
        return Ok(kernel);
    }
    unfinished::remove_abandoned(folder);
    let file =
        |source| KernelError::File { what: "create a directory in", path: folder.into(), source };
    std::fs::create_dir_all(folder).map_err(file)?;
    // Removed when dropped.
    let work = Builder::new().prefix(unfinished::PREFIX).tempdir_in(folder).map_err(file)?;
    fetch(work.path(), &package, &release, runner).and_then(|()| {
        let target = folder.join(&release);
        match std::fs::rename(work.path().join("root"), &target) {
            // Another process was first.
            Err(_) if unpacked_release(folder, &release).is_some() => Ok(()),
            Err(source) => Err(KernelError::File { what: "rename into", path: target, source }),
            Ok(()) => Ok(()),
        }
    })?;
    unpacked_release(folder, &release).ok_or_else(|| KernelError::Package {
        package,
        why: "it does not contain the kernel of its name".to_owned(),
    })
}

/// The package that Debian's metapackage for the newest kernel depends on.
fn newest(runner: &dyn Runner) -> Result<String, KernelError> {
    let general = architecture::host().kernel_package;
    let show = Program::new("apt-cache").args(["show", "--no-all-versions", general]);
    let shown = runner.run_checked(&show).map_err(|error| KernelError::NotFound {
        why: format!("apt does not know {general}: {error}"),
    })?;
    dependency(&shown.stdout).ok_or_else(|| KernelError::Package {
        package: general.to_owned(),
        why: "it does not depend on a kernel".to_owned(),
    })
}

/// The kernel's package in a `Depends:` line.
fn dependency(shown: &str) -> Option<String> {
    let line = shown.lines().find_map(|line| line.strip_prefix("Depends:"))?;
    let names = line.split([',', '|']).filter_map(|part| part.split_whitespace().next());
    names.map(str::to_owned).find(|name| name.starts_with("linux-image-"))
}

/// Creates `work/root` with the kernel and its modules.
fn fetch(
    work: &Path,
    package: &str,
    release: &str,
    runner: &dyn Runner,
) -> Result<(), KernelError> {
    let file = |what: &'static str, path: &Path, source: io::Error| KernelError::File {
        what,
        path: path.to_owned(),
        source,
    };
    let unusable = |why: String| KernelError::Package { package: package.to_owned(), why };
    // apt-get always downloads to the working directory.
    let script = "cd -- \"$1\" && exec apt-get download -qq -- \"$2\"";
    let download =
        Program::new("sh").args(["-c", script, "sh"]).arg(work).arg(package).timeout(DOWNLOAD_WAIT);
    runner.run_checked(&download)?;
    let archive = find_archive(work).ok_or_else(|| unusable("it was not downloaded".to_owned()))?;
    let unpacked = work.join("unpacked");
    let unpack = Program::new("dpkg-deb")
        .arg("--extract")
        .args([&archive, &unpacked])
        .timeout(DOWNLOAD_WAIT);
    runner.run_checked(&unpack)?;
    let root = work.join("root");
    let image = PathBuf::from("boot").join(format!("vmlinuz-{release}"));
    let modules = PathBuf::from("lib/modules").join(release);
    let merged = unpacked.join("usr").join(&modules);
    let found = if merged.is_dir() { merged } else { unpacked.join(&modules) };
    for name in OMITTED {
        let _ = std::fs::remove_dir_all(found.join("kernel").join(name));
    }
    for (from, to) in [(unpacked.join(&image), root.join(&image)), (found, root.join(&modules))] {
        let parent = to.parent().expect("it is below the root");
        std::fs::create_dir_all(parent).map_err(|error| file("make", parent, error))?;
        std::fs::rename(&from, &to)
            .map_err(|error| unusable(format!("{}: {error}", from.display())))?;
    }
    decompress(&root.join(&modules), runner)?;
    index(&root.join(&modules)).map_err(|error| file("index", &root.join(&modules), error))
}

fn find_archive(folder: &Path) -> Option<PathBuf> {
    let paths = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    paths.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "deb"))
}

/// Modules in newer packages are compressed with xz.
fn decompress(modules: &Path, runner: &dyn Runner) -> Result<(), KernelError> {
    let script = "find \"$1\" -name '*.ko.xz' -exec xz -d -- {} +";
    let all = Program::new("sh").args(["-c", script, "sh"]).arg(modules).timeout(DOWNLOAD_WAIT);
    runner.run_checked(&all)?;
    Ok(())
}

/// Writes the same index as depmod(8).
fn index(folder: &Path) -> io::Result<()> {
    let modules = Modules::read(folder)?;
    for (name, text) in modules.index() {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// The numbers in a release, as a sort key: `6.1.0-56-amd64` is after `6.1.0-9-amd64`.
fn numbers(release: &str) -> Vec<u64> {
    let parts = release.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use flashfit_host::program::ScriptedRunner;

    use super::*;

    #[test]
    fn the_newest_kernel_is_a_dependency_of_the_metapackage() {
        let shown =
            "Package: linux-image-amd64\nDepends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)\n";
        assert_eq!(dependency(shown).as_deref(), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(dependency("Package: x\nDepends: libc6\n"), None);
    }

    #[test]
    fn later_releases_come_first() {
        let folder = tempfile::tempdir().unwrap();
        for release in ["6.1.0-9-amd64", "6.1.0-56-amd64", "5.10.0-99-amd64"] {
            let root = folder.path().join(release);
            let modules = root.join("lib/modules").join(release);
            std::fs::create_dir_all(&modules).unwrap();
            std::fs::create_dir_all(root.join("boot")).unwrap();
            std::fs::write(root.join("boot").join(format!("vmlinuz-{release}")), "").unwrap();
            std::fs::write(modules.join("modules.dep"), "").unwrap();
        }
        std::fs::create_dir(folder.path().join(".new-1")).unwrap();
        let releases: Vec<String> =
            unpacked(folder.path()).into_iter().map(|kernel| kernel.release).collect();
        assert_eq!(releases, ["6.1.0-56-amd64", "6.1.0-9-amd64", "5.10.0-99-amd64"]);
    }

    #[test]
    fn without_apt_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let runner = ScriptedRunner::default();
        assert!(downloaded(folder.path(), &runner).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
