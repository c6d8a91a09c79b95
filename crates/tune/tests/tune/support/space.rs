//! Search spaces of invented file systems, written as catalog files to be independent of the real
//! catalog.

use flashfit_catalog::{CatalogEntry, Origin};
use flashfit_filesystem::{
    Conditions, Durability, FileSystem, FileSystemCatalog, Scheduler, Setup,
};
use flashfit_tune::{FileSystemChoices, Space};

/// An option of an invented file system.
#[derive(Debug, Clone)]
pub struct Opt {
    name: String,
    risky: bool,
}

pub fn opt(name: &str) -> Opt {
    Opt { name: name.to_owned(), risky: false }
}

impl Opt {
    /// An option with which a power cut may damage the file system.
    pub fn risky(self) -> Self {
        Self { risky: true, ..self }
    }
}

pub struct SpaceOf(Space);

impl SpaceOf {
    /// One file system with these options, one scheduler, and only safe setups allowed.
    pub fn filesystem(name: &str, options: &[Opt]) -> Self {
        let space = Space {
            choices: Vec::new(),
            allow: Durability::Safe,
            default_scheduler: Scheduler::new("none"),
        };
        Self(space).and(name, options)
    }

    /// A further file system.
    pub fn and(mut self, name: &str, options: &[Opt]) -> Self {
        self.0.choices.push(FileSystemChoices {
            filesystem: filesystem(name, options),
            always: Vec::new(),
            free: options.iter().map(|option| option.name.clone()).collect(),
            schedulers: vec![Scheduler::new("none")],
            conditions: Conditions::default(),
        });
        self
    }

    /// With these schedulers, of which the kernel chose the first.
    pub fn schedulers(mut self, names: &[&str]) -> Self {
        let schedulers: Vec<Scheduler> = names.iter().map(|&name| Scheduler::new(name)).collect();
        self.0.default_scheduler = schedulers[0].clone();
        for choices in &mut self.0.choices {
            choices.schedulers = schedulers.clone();
        }
        self
    }

    pub fn build(self) -> Space {
        self.0
    }
}

/// A setup of a space by its label: `toy a+b none`.
pub fn setup(space: &Space, label: &str) -> Setup {
    let [filesystem, options, scheduler] = label.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{label} is no label");
    };
    let choices = space.of(filesystem).unwrap();
    let scheduler = Scheduler::new(scheduler);
    Setup::new(&choices.filesystem, options.split('+'), scheduler, &choices.conditions).unwrap()
}

fn filesystem(name: &str, options: &[Opt]) -> FileSystem {
    let mut text = format!(
        "name = \"{name}\"\ntitle = \"T\"\nkind = \"{name}\"\nleast_medium_bytes = \"1MiB\"\n\
         block_bytes = 4096\n[mkfs]\nprogram = \"mkfs.ext4\"\nversion_args = []\n\
         [fsck]\nprogram = \"e2fsck\"\nargs = []\npass = 0\n"
    );
    for option in options {
        let durability = if option.risky { "may-corrupt" } else { "safe" };
        text += &format!(
            "[[option]]\nname = \"{0}\"\ntitle = \"T\"\nmount = [\"{0}\"]\ndurability = \"{durability}\"\nrisk = \"R\"\nsource = \"S\"\n",
            option.name
        );
    }
    let origin = Origin::File(format!("{name}.toml").into());
    let entry = CatalogEntry { name: name.to_owned(), text, origin };
    FileSystemCatalog::from_entries(&[entry]).unwrap().filesystem(name).unwrap().clone()
}
