//! Estimates how long the setups of a run last under a usage model.

use std::path::Path;

use flashfit_testbed::TestBedSpec;
use flashfit_tune::{Config, RunHeader, RunLife, Years, life::GivenLife};
use flashfit_user_error::ExitClass;
use flashfit_wear::{trace_file, usage};

use crate::command_error::CommandError;
use crate::wear::setup_life::{add, thousandths};
use crate::wear::target::{self, ModelChoice};
use crate::wear::{setup_name::SetupName, usage_args::UsageArgs};

/// What the user asks of the life of a device.
#[derive(Debug, Clone, Default)]
pub struct LifeChoice {
    usage: Option<String>,
    given: GivenLife,
}

/// The device of a run and the file systems on it.
#[derive(Debug, Clone, Copy)]
pub struct LifeSubject<'a> {
    pub target: &'a str,
    /// Whether it is on another machine, or only recorded.
    pub is_elsewhere: bool,
    pub filesystems: &'a [String],
}

impl LifeChoice {
    /// The flags, then the configuration file.
    pub fn of(args: &UsageArgs, min_years: Option<Years>, config: &Config) -> Self {
        Self {
            usage: args.usage.clone().or_else(|| config.usage.clone()),
            given: GivenLife {
                min_years_thousandths: min_years.or(config.min_years).map(|years| years.0),
                endurance_cycles: args.endurance.or(config.endurance),
                capacity_bytes: args.capacity.or(config.capacity),
                class: args.class.clone().or_else(|| config.class.clone()),
            },
        }
    }

    /// The years that a recommended setup must last, in thousandths.
    pub fn min_years_thousandths(&self) -> Option<u32> {
        self.given.min_years_thousandths
    }

    /// With a usage model, what is not given is as in these recorded estimates.
    pub fn or_recorded(mut self, recorded: Option<&RunLife>) -> Self {
        if let Some(recorded) = recorded.filter(|_| self.has_usage()) {
            self.given = self.given.or(&recorded.given);
        }
        self
    }

    pub fn has_usage(&self) -> bool {
        self.usage.is_some()
    }

    /// The estimates of a run; `None` if nothing is asked.
    pub fn for_run(
        self,
        target: &str,
        on: &TestBedSpec,
        filesystems: &[String],
        catalog: Option<&Path>,
    ) -> Result<Option<RunLife>, CommandError> {
        let is_elsewhere = matches!(on, TestBedSpec::Ssh { .. } | TestBedSpec::Lab { .. });
        self.estimates(LifeSubject { target, is_elsewhere, filesystems }, catalog)
    }

    /// The estimates; `None` if nothing is asked.
    pub fn estimates(
        self,
        subject: LifeSubject<'_>,
        catalog: Option<&Path>,
    ) -> Result<Option<RunLife>, CommandError> {
        let Self { usage: name, given } = self;
        let Some(name) = name else {
            let asked = [
                ("--min-years", given.min_years_thousandths.is_some()),
                ("--endurance", given.endurance_cycles.is_some()),
                ("--capacity", given.capacity_bytes.is_some()),
                ("--class", given.class.is_some()),
            ];
            return match asked.iter().find(|(_, asked)| *asked) {
                None => Ok(None),
                Some((flag, _)) => Err(CommandError::new(
                    ExitClass::Usage,
                    format!("{flag} needs a usage model: how much is written a day is not known"),
                    Some("name one with --usage, such as raspberry-pi or a file of your own"),
                )),
            };
        };
        let usage = usage::load(&name, catalog)?;
        let choice = ModelChoice {
            target: subject.target,
            is_elsewhere: subject.is_elsewhere,
            capacity: given.capacity_bytes,
            endurance: given.endurance_cycles,
            class: given.class.as_deref(),
            used_percent: None,
        };
        let target = target::modeled(&choice, &usage, catalog)?;
        let mut life = RunLife {
            usage: name,
            gib_a_day_thousandths: thousandths(usage.gib_a_day()),
            device: target.explanation.clone(),
            rated_cycles: target.model.nand.endurance_cycles,
            given,
            setups: Vec::new(),
            unknown: Vec::new(),
        };
        for filesystem in subject.filesystems {
            let mut recorded = trace_file::recorded_options(filesystem, catalog)?;
            if !recorded.contains(&Vec::new()) {
                recorded.push(Vec::new());
            }
            for options in recorded {
                let setup = SetupName { filesystem: filesystem.clone(), options };
                add(&mut life, setup, &target, &usage, catalog)?;
            }
        }
        Ok(Some(life))
    }
}

/// Estimates a recorded run if it is asked; the new estimates replace those of the run.
pub fn estimate_recorded(
    header: &mut RunHeader,
    args: &UsageArgs,
    catalog: Option<&Path>,
) -> Result<(), CommandError> {
    // The device may no longer be what it was.
    let is_elsewhere = !header.spec.target.starts_with("sim:");
    let asked = LifeChoice::of(args, None, &Config::default());
    let mut asked = asked.or_recorded(header.spec.life.as_ref());
    if is_elsewhere && asked.has_usage() {
        let capacity = header.facts.device.capacity;
        asked.given.capacity_bytes = asked.given.capacity_bytes.or(Some(capacity));
    }
    let spec = &mut header.spec;
    let subject =
        LifeSubject { target: &spec.target, is_elsewhere, filesystems: &spec.filesystems };
    let life = asked.estimates(subject, catalog)?;
    spec.life = life.or(spec.life.take());
    Ok(())
}
