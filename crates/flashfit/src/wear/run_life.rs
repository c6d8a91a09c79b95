//! Estimates how long the setups of a run last under a usage model.

use std::path::Path;

use flashfit_testbed::TestBedSpec;
use flashfit_tune::{Config, RunLife, Years, life::GivenLife};
use flashfit_user_error::ExitClass;
use flashfit_wear::{trace_file, usage};

use crate::command_error::CommandError;
use crate::wear::setup_life::{add, thousandths};
use crate::wear::target::{self, ModelChoice};
use crate::wear::{setup_name::SetupName, usage_args::UsageArgs};

/// What the user asks of the life of a device.
#[derive(Debug, Clone, Default)]
pub struct LifeChoice {
    pub(super) usage: Option<String>,
    pub(super) given: GivenLife,
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

    /// Whether estimates are asked for other than recorded ones.
    pub(super) fn is_of_model(&self) -> bool {
        let given = &self.given;
        self.usage.is_some()
            || given.endurance_cycles.is_some()
            || given.capacity_bytes.is_some()
            || given.class.is_some()
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
