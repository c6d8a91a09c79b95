//! A read-only image under a writable layer: which commands make one of a folder and mount it.
//!
//! Source: the Gentoo wiki's page on SD cards (an image on a host file system, and a layer over
//! it); Documentation/filesystems/overlayfs.rst: the writable folder and the work folder lie in one
//! file system, which has extended attributes and file types in folders. Limits: one image; it is
//! packed anew to take in what was changed.

use std::path::{Path, PathBuf};

use flashfit_host::Program;

use crate::filesystem::{FileSystem, Layered};
use crate::recipe::Recipe;

/// Where the parts lie, below the place where the host file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    image: PathBuf,
    lower: PathBuf,
    upper: PathBuf,
    work: PathBuf,
}

impl Layers {
    /// The parts on the host file system at `host`; `None` where the file system needs no layer.
    pub fn new(filesystem: &FileSystem, host: &Path) -> Option<Self> {
        filesystem.layered.as_ref().map(|layered| Self::of(layered, host))
    }

    fn of(layered: &Layered, host: &Path) -> Self {
        let below = |name: &str| host.join(name);
        Self {
            image: below(&layered.image),
            lower: below("lower"),
            upper: below("upper"),
            work: below("work"),
        }
    }

    /// The image's file.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Where the image is mounted.
    pub fn lower(&self) -> &Path {
        &self.lower
    }

    /// Packs `folder` into the image, makes the folders, and mounts image and layer, so that the
    /// whole appears at `point`. In this order, as root, with the host file system mounted.
    pub fn commands(&self, recipe: &Recipe, folder: &Path, point: &Path) -> Vec<Program> {
        let text = |path: &Path| path.display().to_string();
        let folders = [&self.lower, &self.upper, &self.work].map(|path| text(path));
        let lower_options = joined(&["loop", "ro"], recipe);
        vec![
            recipe.pack(folder, &self.image),
            Program::new("mkdir").arg("-p").args(folders),
            Program::new("mount")
                .args(["-t", recipe.kind(), "-o", &lower_options])
                .arg(text(&self.image))
                .arg(text(&self.lower)),
            Program::new("mount")
                .args(["-t", "overlay", "-o", &self.options(), "overlay"])
                .arg(text(point)),
        ]
    }

    /// The lines for fstab(5) that mount image and layer at every start, in order.
    pub fn fstab_lines(&self, recipe: &Recipe, point: &Path) -> Vec<String> {
        let host = self.image.parent().unwrap_or(Path::new("/"));
        let after = format!("x-systemd.requires-mounts-for={}", host.display());
        let lower_options = joined(&["loop", "ro", &after], recipe);
        let upper_after = format!("x-systemd.requires-mounts-for={}", self.lower.display());
        vec![
            format!(
                "{} {} {} {lower_options} 0 0",
                self.image.display(),
                self.lower.display(),
                recipe.kind()
            ),
            format!("overlay {} overlay {},{upper_after} 0 0", point.display(), self.options()),
        ]
    }

    fn options(&self) -> String {
        let (lower, upper, work) =
            (self.lower.display(), self.upper.display(), self.work.display());
        format!("lowerdir={lower},upperdir={upper},workdir={work}")
    }
}

fn joined(own: &[&str], recipe: &Recipe) -> String {
    let own = own.iter().map(|option| (*option).to_owned());
    own.chain(recipe.mount_options().iter().cloned()).collect::<Vec<_>>().join(",")
}
