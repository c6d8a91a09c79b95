//! `flashfit tune --replay DIR…`: any strategy on recorded runs instead of a device. Needs no root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flashfit_filesystem::{Durability, FileSystemCatalog, Setup};
use flashfit_tune::replay::{Recording, ReplayRequest, replay};
use flashfit_tune::{
    Conclusion, Config, DriverRules, Objective, OptionChoice, StrategyKind, Weight,
};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output;
use crate::rendering::replay as rendering;
use crate::tune::args::TuneArgs;
use crate::tune::{constraints, resolve};

/// Searches the recorded runs and prints what came of it.
pub fn run(args: &TuneArgs, dirs: &[PathBuf], catalog: Option<&Path>) -> Result<(), CommandError> {
    let config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    let catalog_dir = catalog.map(Path::to_owned).or_else(|| config.catalog_dir.clone());
    crate::cli::is_folder(catalog_dir.as_deref())?;
    let catalogue = FileSystemCatalog::load(catalog_dir.as_deref())?;
    let recording = Recording::read(dirs)?;
    if let [first, others @ ..] = &recording.media[..] {
        if !others.is_empty() {
            let count = recording.media.len();
            output::note(&format!("note: {count} media were measured; figures are as on {first}"));
        }
    }
    let choice = Choice::of(args, &config, &recording)?;
    let wanted = |setup: &Setup| choice.wants(setup);
    let weight = |workload: &str| {
        choice.weights.get(workload).map_or(Weight::ONE, |weight| Weight(*weight)).value()
    };
    let question = ReplayRequest {
        rules: choice.rules.clone(),
        judge: choice.judge,
        workloads: choice.workloads.clone(),
        weight: &weight,
        allow: choice.allow,
        wanted: &wanted,
    };
    let replayed = replay(&recording, &question, &catalogue)?;
    let conclusion = Conclusion::of(
        replayed.problem.clone(),
        replayed.history.clone(),
        replayed.costs.clone(),
        &choice.rules,
        &recording.trials,
        &replayed.copied,
    );
    let shown = rendering::ReplayView {
        recording: &recording,
        replayed: &replayed,
        conclusion: &conclusion,
        rules: &choice.rules,
        by: choice.judge.by,
    };
    if args.json || args.json_stream {
        return output::json("replay", rendering::document(&shown));
    }
    output::print(&rendering::text(&shown, output::width()))
}

/// What is asked of the record: the flags, then the file, then what the runs themselves say.
struct Choice {
    rules: DriverRules,
    judge: Objective,
    workloads: Vec<String>,
    weights: BTreeMap<String, u32>,
    allow: Durability,
    filesystems: Option<Vec<String>>,
    schedulers: Option<Vec<String>>,
    options: BTreeMap<String, OptionChoice>,
}

impl Choice {
    fn of(args: &TuneArgs, config: &Config, recording: &Recording) -> Result<Self, CommandError> {
        let what = &args.what;
        let filesystems = what.filesystems.clone().or_else(|| config.filesystems.clone());
        let workloads = what.workloads.clone().or_else(|| config.workloads.clone());
        let schedulers = what.schedulers.clone().or_else(|| config.schedulers.clone());
        let schedulers = match schedulers {
            None => None,
            Some(names) => {
                let known = resolve::understood(Some(names))?;
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
            limits: constraints::limits(&args.spend, config)?,
            seed: what.seed.or(config.seed).unwrap_or(resolve::DEFAULT_SEED),
            short: true,
        };
        Ok(Self {
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

    fn wants(&self, setup: &Setup) -> bool {
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
