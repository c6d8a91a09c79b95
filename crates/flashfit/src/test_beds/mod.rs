//! Test beds by name: from the choice to a place for trials.

pub mod again_words;
pub mod args;
pub mod lab;
pub mod ssh;
pub mod switched;
pub mod vm;

use std::path::Path;

use flashfit_host::SystemRunner;
use flashfit_testbed::{CardProgram, Host, LocalHost, TestBedSpec, VmChoice};
use flashfit_tune::RunSpec;

use crate::command_error::CommandError;
use crate::commands::card_server;
use flashfit_tune::run::Catalogs;

/// The version and the hash of the source: both machines of a test bed must have the same.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " build ", env!("FLASHFIT_BUILD"));

/// What a place is made with.
#[derive(Clone, Copy)]
pub struct TestBedContext<'a> {
    pub runner: &'a SystemRunner,
    pub catalogs: &'a Catalogs,
    pub dir: &'a Path,
    /// A folder for job files and results.
    pub scratch: &'a Path,
}

/// The place of a run.
pub fn place<'a>(
    spec: &RunSpec,
    means: TestBedContext<'a>,
) -> Result<Box<dyn Host + 'a>, CommandError> {
    match &spec.on {
        TestBedSpec::Here => Ok(Box::new(local(spec, means))),
        TestBedSpec::Ssh { host } => ssh::place(host, spec, means),
        TestBedSpec::Vm(choice) => Ok(Box::new(vm::place(choice, spec, means)?)),
        TestBedSpec::Lab { .. } => unreachable!("a lab has several places"),
    }
}

fn local<'a>(spec: &RunSpec, means: TestBedContext<'a>) -> LocalHost<'a> {
    let TestBedContext { runner, catalogs, dir, scratch } = means;
    let cards = cards(spec.catalog_dir.as_deref());
    LocalHost::new(runner, &catalogs.filesystems, cards, &dir.join("mnt"), scratch)
}

/// This very program as the server of simulated cards.
pub fn cards(catalog: Option<&Path>) -> CardProgram {
    let catalog = catalog.map(Path::to_owned);
    let catalog_args = card_server::catalog_args(catalog.as_deref());
    let args = move |name: &str| card_server::args(name, catalog.as_deref());
    CardProgram { program: card_server::program(), args: Box::new(args), catalog_args }
}

/// Where a test bed is and what was chosen of it, as part of a sentence.
pub fn description(on: &TestBedSpec) -> String {
    let VmChoice { kernel, speed_mips, disk } = match on {
        TestBedSpec::Vm(choice) => choice,
        TestBedSpec::Lab { tags } => return format!("on all free boards of the lab with {tags}"),
        TestBedSpec::Here | TestBedSpec::Ssh { .. } => return on.whereabouts(),
    };
    let kernel = kernel.as_ref().map(|file| format!("with the kernel {}", file.display()));
    let speed = speed_mips.map(|mips| format!("counting {mips} million instructions a second"));
    let disk = (!disk.is_default()).then(|| format!("which sees the device as {disk}"));
    let parts = [Some(on.whereabouts()), kernel, speed, disk];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
