//! From flags and configuration file to a run's specification: defaults filled in, every name
//! known.

use std::collections::BTreeSet;
use std::path::Path;

use flashfit_bench::{PointProfile, Workloads, start_kind};
use flashfit_filesystem::plan::numbers::usual_end;
use flashfit_filesystem::{Durability, FileSystemCatalog};
use flashfit_host::interrupt::Interrupt;
use flashfit_tune::{Config, Criterion, RunSpec, SearchPhase, StrategyKind};
use flashfit_user_error::ExitClass;

use crate::cli::{is_unpartitioned, layout_start, partition_end};
use crate::command_error::CommandError;
use crate::tune::args::TuneArgs;
use crate::tune::resolved::{ResolvedSpec, default_dir};
use crate::tune::schedulers::understood;
use crate::tune::spec_check::{check, default_filesystems, default_workloads, named_workloads};
use crate::tune::{budget, constraints, geometry};
use crate::wear::run_life::LifeChoice;

pub const DEFAULT_SEED: u64 = 1;
pub const DEFAULT_REPEATS: u32 = 3;
/// Rounds of confirming trials of strategies that only rank.
pub const DEFAULT_CONFIRM_ROUNDS: u32 = 5;

/// Brings flags and file together.
pub fn resolve(
    args: &TuneArgs,
    catalog: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<ResolvedSpec, CommandError> {
    let config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    let what = &args.what;
    let Some(target) = args.target.clone().or_else(|| config.device.clone()) else {
        return Err(CommandError::new(
            ExitClass::Usage,
            "no device is named",
            Some("flashfit tune sim:sd-c4-block tries a simulated card; flashfit list shows yours"),
        ));
    };
    let profile = what.profile.map(Into::into).or(config.profile).unwrap_or(PointProfile::Quick);
    let quick = profile == PointProfile::Quick;
    let usual = profile.usual_size();
    let catalog_dir = catalog.map(Path::to_owned).or_else(|| config.catalog_dir.clone());
    crate::cli::is_folder(catalog_dir.as_deref())?;
    let workloads = Workloads::load(catalog_dir.as_deref())?;
    let filesystems = FileSystemCatalog::load(catalog_dir.as_deref())?;
    if let Some(path) = &args.config {
        config.check_names(path, &filesystems)?;
    }
    let default_workloads = || default_workloads(quick, &workloads);
    let all_filesystems = || default_filesystems(&filesystems);
    let chosen_fs = what.filesystems.clone().or_else(|| config.filesystems.clone());
    let chosen_fs = once(chosen_fs.unwrap_or_else(all_filesystems));
    let chosen_workloads = what.workloads.clone().or_else(|| config.workloads.clone());
    let chosen_workloads = chosen_workloads.unwrap_or_else(default_workloads);
    let chosen_workloads = once(named_workloads(chosen_workloads, &workloads));
    for (name, option) in args.asked.with.iter().chain(&args.asked.without) {
        filesystems.filesystem(name)?.option(option)?;
    }
    for (name, _) in &args.asked.weights {
        workloads.find(name)?;
    }
    let strategy =
        what.strategy.map(Into::into).or(config.strategy).unwrap_or(StrategyKind::Adaptive);
    let state = budget::state(&args.asked, &config)?;
    let kinds = state.varied.then(|| start_kind::load(catalog_dir.as_deref())).transpose()?;
    let starts = kinds.unwrap_or_default();
    let on = args.stand.choose(&config, &target, args.dry_run)?;
    let geometry =
        geometry::of_run(args, &config, (&target, &on), catalog_dir.as_deref(), interrupt)?;
    let asked = LifeChoice::of(&args.life, args.asked.min_years, &config);
    let life = asked.for_run(&target, &on, &chosen_fs, catalog_dir.as_deref())?;
    let start = what.start.as_ref().or(config.start.as_ref()).map_or("auto", String::as_str);
    let table = what.table.map(Into::into).or(config.table);
    let is_whole = is_unpartitioned(Some(layout_start(start)?), table);
    let found = chosen_fs.iter().filter_map(|name| filesystems.filesystem(name).ok());
    let usual_end = usual_end(found.filter(|_| !is_whole).map(|it| it.kind.as_str()));
    let end = partition_end(what.align_end || config.align_end == Some(true)).unwrap_or(usual_end);
    // The configuration of an earlier run has the usual end, too.
    let end_requested = what.align_end || end != usual_end;
    let spec = RunSpec {
        on,
        life,
        probed: geometry.found,
        options: constraints::options(&args.asked, &config, &chosen_fs)?,
        weights_thousandths: constraints::weights(&args.asked, &config, &chosen_workloads)?,
        p99_write_max_ns: args.asked.p99_write_max.or(config.p99_write_max).map(|span| span.0),
        limits: budget::limits_of_run(&args.spend, &config, strategy)?,
        state,
        starts,
        crash_states: args.crash_states,
        phase: SearchPhase::default(),
        prior: None,
        allow: constraints::allow(args, &config)?.unwrap_or(Durability::Safe),
        filesystems: chosen_fs,
        workloads: chosen_workloads,
        schedulers: understood(what.schedulers.clone().or(config.schedulers))?,
        strategy,
        profile,
        by: what.by.map(Into::into).or(config.by).unwrap_or(Criterion::Throughput),
        repeats: what.repeats.or(config.repeats).unwrap_or(DEFAULT_REPEATS),
        confirm_rounds: what
            .confirm_rounds
            .or(config.confirm_rounds)
            .unwrap_or(DEFAULT_CONFIRM_ROUNDS),
        seed: what.seed.or(config.seed).unwrap_or(DEFAULT_SEED),
        start: start.to_owned(),
        table,
        end: Some(end),
        label: what.label.clone().or(config.label),
        second: what.second.clone().or(config.second),
        data_size: what.data_size.or(config.data_size).unwrap_or(usual.data_size),
        memory: what.memory.or(config.memory).unwrap_or(usual.memory),
        runtime_ms: what.runtime_ms.or(config.runtime_ms).unwrap_or(usual.runtime_ms),
        erase_block: what.erase_block.or(config.media_erase_block_size),
        write_unit: what.write_unit.or(config.media_page_size),
        mount_dir: config.mount_dir,
        catalog_dir,
        target,
    };
    check(&spec, &filesystems, &workloads)?;
    let dir = args.dir.clone().or(config.result_dir).unwrap_or_else(|| default_dir(&spec.target));
    Ok(ResolvedSpec { spec, dir, end_requested, probe: geometry.unchecked })
}

/// The names without those that were there before.
fn once(names: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}
