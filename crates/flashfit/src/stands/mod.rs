//! The stands by name: from what was chosen to a place where trials can be made.

pub mod args;
pub mod lab;
pub mod ssh;
mod vm;

use std::path::Path;

use flashfit_host::SystemRunner;
use flashfit_stand::{CardProgram, LocalPlace, On, Place, VmChoice};
use flashfit_tune::RunSpec;

use crate::catalogues::Catalogues;
use crate::commands::card_server;
use crate::failure::Failure;

/// What a place is made with.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub runner: &'a SystemRunner,
    pub catalogues: &'a Catalogues,
    /// The run directory.
    pub dir: &'a Path,
    /// A folder for job files and results.
    pub scratch: &'a Path,
}

/// The place of a run.
pub fn place<'a>(spec: &RunSpec, means: Means<'a>) -> Result<Box<dyn Place + 'a>, Failure> {
    match &spec.on {
        On::Here => Ok(Box::new(local(spec, means))),
        On::Ssh { host } => ssh::place(host, spec, means),
        On::Vm(choice) => vm::place(choice, spec, means),
        On::Lab { .. } => unreachable!("a lab has several places"),
    }
}

/// This machine.
fn local<'a>(spec: &RunSpec, means: Means<'a>) -> LocalPlace<'a> {
    let Means { runner, catalogues, dir, scratch } = means;
    let cards = cards(spec.catalog_dir.as_deref());
    LocalPlace::new(runner, &catalogues.filesystems, cards, &dir.join("mnt"), scratch)
}

/// This very program as the server of simulated cards.
pub fn cards(catalog: Option<&Path>) -> CardProgram {
    let catalog = catalog.map(Path::to_owned);
    let args = move |name: &str| card_server::args(name, catalog.as_deref());
    CardProgram { program: card_server::program(), args: Box::new(args) }
}

/// Where a stand is, as part of a sentence.
pub fn whereabouts(on: &On) -> String {
    match on {
        On::Here => "here".to_owned(),
        On::Vm(_) => "in a virtual machine".to_owned(),
        On::Ssh { host } => format!("on {host}"),
        On::Lab { .. } => "on that board".to_owned(),
    }
}

/// Where a stand is and what was chosen of it, as part of a sentence.
pub fn description(on: &On) -> String {
    let VmChoice { kernel, speed_mips, disk } = match on {
        On::Vm(choice) => choice,
        On::Lab { tags } => return format!("on all free boards of the lab with {tags}"),
        On::Here | On::Ssh { .. } => return whereabouts(on),
    };
    let kernel = kernel.as_ref().map(|file| format!("with the kernel {}", file.display()));
    let speed = speed_mips.map(|mips| format!("counting {mips} million instructions a second"));
    let disk = (!disk.is_usual()).then(|| format!("which sees the medium as {disk}"));
    let parts = [Some(whereabouts(on)), kernel, speed, disk];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
