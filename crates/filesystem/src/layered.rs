//! The commands that pack a directory into a read-only image and mount it under a writable layer.
//!
//! Source: the Gentoo wiki's page on SD cards (an image on a host file system, and a layer over
//! it); Documentation/filesystems/overlayfs.rst: the writable folder and the work folder lie in one
//! file system, which has extended attributes and file types in folders. Limits: one image; it is
//! packed again to take in what was changed.

use std::path::{Path, PathBuf};

use flashfit_host::Program;

use crate::filesystem::{FileSystem, Layered};
use crate::recipe::{Recipe, escape};

/// What overlayfs and mount(8) divide their options by.
const DIVIDERS: [char; 4] = [':', ',', '\\', '"'];

/// Where the parts lie, below the place where the host file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    image: PathBuf,
    lower: PathBuf,
    upper: PathBuf,
    work: PathBuf,
}

/// A command and what it is for, in a few words.
pub type LayerCommand = (&'static str, Program);

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

    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Where the image is mounted.
    pub fn lower(&self) -> &Path {
        &self.lower
    }

    /// Whether options of mount(8) can name the folders of a host that is mounted there.
    pub fn can_be_at(host: &Path) -> bool {
        host.to_str().is_some_and(|text| !text.contains(DIVIDERS))
    }

    /// Packs `folder` into the image, makes the folders, and mounts image and layer, so that the
    /// whole appears at `point`. In this order, as root, with the host file system mounted.
    pub fn commands(&self, recipe: &Recipe, folder: &Path, point: &Path) -> Vec<Program> {
        self.steps(recipe, folder, point).into_iter().map(|(_, program)| program).collect()
    }

    /// The same commands, each with what it is for.
    pub fn steps(&self, recipe: &Recipe, folder: &Path, point: &Path) -> Vec<LayerCommand> {
        let mut steps = vec![
            ("pack a directory, FOLDER, into the image", recipe.pack(folder, &self.image)),
            ("create the directories of the layers", {
                make_folders(&[&self.lower, &self.upper, &self.work, point])
            }),
        ];
        steps.extend(self.mounts(recipe, point));
        steps
    }

    /// Packs what is at `point` now into a new image, which takes the place of the earlier one, and
    /// empties the writable layer.
    pub fn renewal(&self, recipe: &Recipe, point: &Path) -> Vec<LayerCommand> {
        let new = PathBuf::from(format!("{}.new", self.image.display()));
        let (point_text, lower, image) = (text(point), text(&self.lower), text(&self.image));
        let mut steps = vec![
            (
                "remount read-only, so that nothing changes",
                // Without `bind`, mount(8) of util-linux 2.41 asks overlayfs for a change that it
                // refuses.
                Program::new("mount").args(["-o", "remount,bind,ro", &point_text]),
            ),
            ("pack it into a new image", recipe.pack(point, &new)),
            ("sync the new image", Program::new("sync").arg(text(&new))),
            ("unmount the layers", Program::new("umount").args([&point_text, &lower])),
            ("replace the old image", Program::new("mv").args([&text(&new), &image])),
            ("sync the file system", Program::new("sync").args(["--file-system", &image])),
            (
                "empty the writable layer",
                Program::new("rm").arg("-r").args([&self.upper, &self.work].map(|path| text(path))),
            ),
            ("create its directories", make_folders(&[&self.upper, &self.work])),
        ];
        steps.extend(self.mounts(recipe, point));
        steps
    }

    /// The commands that mount image and layer again, in order.
    pub fn mounts(&self, recipe: &Recipe, point: &Path) -> [LayerCommand; 2] {
        let lower_options = joined(&["loop", "ro"], recipe);
        let image = Program::new("mount")
            .args(["-t", recipe.kind(), "-o", &lower_options])
            .args([text(&self.image), text(&self.lower)]);
        let options = self.options();
        let layer = Program::new("mount")
            .args(["-t", "overlay"])
            .args(options.iter().flat_map(|option| ["-o", option]))
            .args(["overlay", &text(point)]);
        [("mount the image", image), ("mount the writable layer over it", layer)]
    }

    /// The lines for fstab(5) that mount image and layer at every start, in order. Where the host
    /// file system is not there the start goes on without them.
    pub fn fstab_lines(&self, recipe: &Recipe, point: &Path) -> Vec<String> {
        let host = self.image.parent().unwrap_or(Path::new("/"));
        let after = |path: &Path| format!("x-systemd.requires-mounts-for={}", path.display());
        let lower_options = joined(&["loop", "ro", "nofail", &after(host)], recipe);
        let upper_options = format!("{},nofail,{}", self.options().join(","), after(&self.lower));
        let line = |fields: [&str; 4]| fields.map(escape).join(" ") + " 0 0";
        let (image, lower, point) = (text(&self.image), text(&self.lower), text(point));
        vec![
            line([&image, &lower, recipe.kind(), &lower_options]),
            line(["overlay", &point, "overlay", &upper_options]),
        ]
    }

    fn options(&self) -> [String; 3] {
        let folders =
            [("lowerdir", &self.lower), ("upperdir", &self.upper), ("workdir", &self.work)];
        folders.map(|(name, path)| format!("{name}={}", path.display()))
    }
}

fn make_folders(folders: &[&Path]) -> Program {
    Program::new("mkdir").arg("-p").args(folders.iter().map(|path| text(path)))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn joined(own: &[&str], recipe: &Recipe) -> String {
    let own = own.iter().map(|option| (*option).to_owned());
    own.chain(recipe.mount_options().iter().cloned()).collect::<Vec<_>>().join(",")
}
