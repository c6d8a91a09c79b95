//! Estimates how long the setups of a recorded run last, for every command that reads runs.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_host::program::quote;
use flashfit_tune::{Config, RunHeader, RunLife};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::wear::run_life::{LifeChoice, LifeSubject};
use crate::wear::usage_args::UsageArgs;

/// What a run records about its device and how long setups last on it.
#[derive(Debug, Clone, Copy)]
pub struct RecordedLifeSubject<'a> {
    pub target: &'a str,
    /// If recorded.
    pub capacity: Option<Bytes>,
    pub filesystems: &'a [String],
    /// If the run had a usage model.
    pub life: Option<&'a RunLife>,
}

impl LifeChoice {
    /// New estimates if a usage model or a property of the device is given, else those of the run.
    /// What is not given is as recorded.
    pub fn for_recorded(
        mut self,
        run: RecordedLifeSubject<'_>,
        catalog: Option<&Path>,
    ) -> Result<Option<RunLife>, CommandError> {
        // Only a simulated card is surely the same as when it was recorded.
        let is_elsewhere = !run.target.starts_with("sim:");
        if let Some(recorded) = run.life {
            if !self.is_of_model() {
                let mut life = recorded.clone();
                life.given = self.given.or(&recorded.given);
                return Ok(Some(life));
            }
            if self.usage.is_none() {
                self.usage = Some(recorded_usage(recorded, catalog)?);
            }
            self.given = self.given.or(&recorded.given);
        }
        if is_elsewhere && self.usage.is_some() {
            self.given.capacity_bytes = self.given.capacity_bytes.or(run.capacity);
        }
        let RecordedLifeSubject { target, filesystems, .. } = run;
        self.estimates(LifeSubject { target, is_elsewhere, filesystems }, catalog)
    }
}

/// The usage model of a run. It must be one of the catalog: a run directory alone does not decide
/// which files are read.
fn recorded_usage(recorded: &RunLife, catalog: Option<&Path>) -> Result<String, CommandError> {
    let usage = &recorded.usage;
    let known = flashfit_catalog::entries("usage", "toml", catalog)?;
    if known.iter().any(|entry| entry.name == *usage) {
        return Ok(usage.clone());
    }
    Err(CommandError::new(
        ExitClass::Usage,
        format!("the usage model of the run, `{usage}`, is not in the catalog"),
        Some(&format!(
            "name it: --usage {}; an entry of a catalog of your own also needs --catalog",
            quote(usage)
        )),
    ))
}

/// Estimates a recorded run if it is asked; the new estimates replace those of the run.
pub fn estimate_recorded(
    header: &mut RunHeader,
    args: &UsageArgs,
    catalog: Option<&Path>,
) -> Result<(), CommandError> {
    let spec = &header.spec;
    let run = RecordedLifeSubject {
        target: &spec.target,
        capacity: Some(header.facts.device.capacity),
        filesystems: &spec.filesystems,
        life: spec.life.as_ref(),
    };
    let asked = LifeChoice::of(args, None, &Config::default());
    header.spec.life = asked.for_recorded(run, catalog)?;
    Ok(())
}
