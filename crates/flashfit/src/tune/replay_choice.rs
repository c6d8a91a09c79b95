//! What a replay searches: the flags, then the file, then what the runs themselves say.

use std::collections::BTreeMap;
use std::path::Path;

use flashfit_filesystem::{Durability, Setup};
use flashfit_tune::replay::Recording;
use flashfit_tune::{Config, DriverRules, Objective, OptionChoice, RunLife, StrategyKind};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::tune::args::TuneArgs;
use crate::tune::schedulers::understood;
use crate::tune::{budget, constraints, resolve};
use crate::wear::recorded_life::RecordedLifeSubject;
use crate::wear::run_life::LifeChoice;

pub struct ReplayChoice {
    pub rules: DriverRules,
    pub judge: Objective,
    pub workloads: Vec<String>,
    pub weights: BTreeMap<String, u32>,
    pub allow: Durability,
    pub filesystems: Option<Vec<String>>,
    pub schedulers: Option<Vec<String>>,
    pub options: BTreeMap<String, OptionChoice>,
    pub life: Option<RunLife>,
}

impl ReplayChoice {
    pub fn of(
        args: &TuneArgs,
        config: &Config,
        recording: &Recording,
        catalog: Option<&Path>,
    ) -> Result<Self, CommandError> {
        let what = &args.what;
        let filesystems = what.filesystems.clone().or_else(|| config.filesystems.clone());
        let workloads = what.workloads.clone().or_else(|| config.workloads.clone());
        let schedulers = what.schedulers.clone().or_else(|| config.schedulers.clone());
        let schedulers = match schedulers {
            None => None,
            Some(names) => {
                let known = understood(Some(names))?;
                Some(known.iter().map(|scheduler| scheduler.name().to_owned()).collect())
            }
        };
        for name in filesystems.iter().flatten() {
            if !recording.filesystems.contains(name) {
                return Err(CommandError::new(
                    ExitClass::Usage,
                    format!("no trial was recorded with the file system `{name}`"),
                    Some(&format!("recorded were {}", recording.filesystems.join(", "))),
                ));
            }
        }
        let tried = filesystems.as_ref().unwrap_or(&recording.filesystems);
        let counted = workloads.as_ref().unwrap_or(&recording.workloads);
        let mut weights = recording.weights_thousandths.clone();
        weights.retain(|name, _| counted.contains(name));
        weights.extend(constraints::weights(&args.asked, config, counted)?);
        let recorded_judge = recording.judge;
        let rules = DriverRules {
            strategy: what
                .strategy
                .map(Into::into)
                .or(config.strategy)
                .unwrap_or(StrategyKind::Adaptive),
            repeats: what.repeats.or(config.repeats).unwrap_or(resolve::DEFAULT_REPEATS),
            confirm_rounds: what
                .confirm_rounds
                .or(config.confirm_rounds)
                .unwrap_or(resolve::DEFAULT_CONFIRM_ROUNDS),
            limits: budget::limits(&args.spend, config)?,
            seed: what.seed.or(config.seed).unwrap_or(resolve::DEFAULT_SEED),
            short: true,
        };
        Ok(Self {
            life: life(args, config, recording, tried, catalog)?,
            rules,
            judge: Objective {
                by: what.by.map(Into::into).or(config.by).unwrap_or(recorded_judge.by),
                p99_write_max_ns: args
                    .asked
                    .p99_write_max
                    .or(config.p99_write_max)
                    .map(|span| span.0)
                    .or(recorded_judge.p99_write_max_ns),
            },
            options: constraints::options(&args.asked, config, tried)?,
            allow: constraints::allow(args, config)?
                .or(recording.allow)
                .unwrap_or(Durability::Safe),
            workloads: workloads.unwrap_or_default(),
            weights,
            filesystems,
            schedulers,
        })
    }

    pub fn wants(&self, setup: &Setup) -> bool {
        let named = |names: &Option<Vec<String>>, name: &str| {
            names.as_ref().is_none_or(|names| names.iter().any(|known| known == name))
        };
        let fits = self.options.get(&setup.filesystem).is_none_or(|choice| {
            choice.always.iter().all(|option| setup.options.contains(option))
                && !choice.exclude.iter().any(|option| setup.options.contains(option))
        });
        named(&self.filesystems, &setup.filesystem)
            && named(&self.schedulers, setup.scheduler.name())
            && fits
    }
}

/// How long setups last on the recorded device.
fn life(
    args: &TuneArgs,
    config: &Config,
    recording: &Recording,
    filesystems: &[String],
    catalog: Option<&Path>,
) -> Result<Option<RunLife>, CommandError> {
    let run = RecordedLifeSubject {
        target: recording.target.as_deref().unwrap_or("the recorded device"),
        capacity: recording.capacity,
        filesystems,
        life: recording.life.as_ref(),
    };
    LifeChoice::of(&args.life, args.asked.min_years, config).for_recorded(run, catalog)
}
