//! From flags and configuration file to a run's specification: defaults filled in, every name
//! known.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flashfit_bench::plan::Points;
use flashfit_bench::{PointProfile, RunPlan, Workloads};
use flashfit_catalog::CatalogEntryError;
use flashfit_device::Bytes;
use flashfit_filesystem::{Durability, FileSystemCatalog, Scheduler, scheduler};
use flashfit_geometry::Geometry;
use flashfit_host::SystemRunner;
use flashfit_target::InspectedTarget;
use flashfit_tune::{Config, Criterion, RunSpec, StrategyKind};
use flashfit_user_error::ExitClass;

use crate::cli::layout_start;
use crate::command_error::CommandError;
use crate::output::note;
use crate::probe::saved;
use crate::tune::args::TuneArgs;
use crate::tune::constraints;

/// What a short look at a device measures.
const QUICK_WORKLOADS: [&str; 2] = ["sync-files", "random-write"];
/// What distributions put on a card when nobody chooses.
const USUAL_FILESYSTEM: &str = "ext4";
pub const DEFAULT_SEED: u64 = 1;
/// Trials of each setup under each workload, of strategies that fix it.
pub const DEFAULT_REPEATS: u32 = 3;
/// Rounds of confirming trials of strategies that only rank.
pub const DEFAULT_CONFIRM_ROUNDS: u32 = 5;
/// One day: longer is a unit mistaken.
const MOST_RUNTIME_MS: u64 = 86_400_000;

/// A specification and where its run is kept.
#[derive(Debug)]
pub struct ResolvedSpec {
    /// What is run.
    pub spec: RunSpec,
    /// The run directory.
    pub dir: PathBuf,
}

/// Brings flags and file together.
pub fn resolve(args: &TuneArgs, catalog: Option<&Path>) -> Result<ResolvedSpec, CommandError> {
    let config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    let what = &args.what;
    let Some(target) = args.target.clone().or_else(|| config.device.clone()) else {
        return Err(CommandError::new(
            ExitClass::Usage,
            "no medium is named",
            Some("flashfit tune sim:sd-c4-block tries a simulated card; flashfit list shows yours"),
        ));
    };
    let profile = what.profile.map(Into::into).or(config.profile).unwrap_or(PointProfile::Quick);
    let quick = profile == PointProfile::Quick;
    let catalog_dir = catalog.map(Path::to_owned).or_else(|| config.catalog_dir.clone());
    crate::cli::is_folder(catalog_dir.as_deref())?;
    let workloads = Workloads::load(catalog_dir.as_deref())?;
    let filesystems = FileSystemCatalog::load(catalog_dir.as_deref())?;
    let default_workloads = || default_workloads(quick, &workloads);
    let all_filesystems = || default_filesystems(&filesystems);
    let probed = probed(args.what.geometry.as_deref(), &target, catalog_dir.as_deref())?;
    let (chosen_fs, chosen_workloads) = (config.filesystems.clone(), config.workloads.clone());
    let chosen_fs = once(what.filesystems.clone().or(chosen_fs).unwrap_or_else(all_filesystems));
    let chosen_workloads =
        once(what.workloads.clone().or(chosen_workloads).unwrap_or_else(default_workloads));
    for (name, option) in args.asked.with.iter().chain(&args.asked.without) {
        filesystems.filesystem(name)?.option(option)?;
    }
    for (name, _) in &args.asked.weights {
        workloads.find(name)?;
    }
    let spec = RunSpec {
        on: args.stand.choose(&config, &target, args.dry_run)?,
        probed,
        options: constraints::options(&args.asked, &config, &chosen_fs)?,
        weights_thousandths: constraints::weights(&args.asked, &config, &chosen_workloads)?,
        p99_write_max_ns: args.asked.p99_write_max.or(config.p99_write_max).map(|span| span.0),
        limits: constraints::limits(&args.spend, &config)?,
        state: constraints::state(&args.asked, &config)?,
        allow: constraints::allow(args, &config)?.unwrap_or(Durability::Safe),
        filesystems: chosen_fs,
        workloads: chosen_workloads,
        schedulers: understood(what.schedulers.clone().or(config.schedulers))?,
        strategy: what
            .strategy
            .map(Into::into)
            .or(config.strategy)
            .unwrap_or(StrategyKind::Adaptive),
        profile,
        by: what.by.map(Into::into).or(config.by).unwrap_or(Criterion::Throughput),
        repeats: what.repeats.or(config.repeats).unwrap_or(DEFAULT_REPEATS),
        confirm_rounds: what
            .confirm_rounds
            .or(config.confirm_rounds)
            .unwrap_or(DEFAULT_CONFIRM_ROUNDS),
        seed: what.seed.or(config.seed).unwrap_or(DEFAULT_SEED),
        start: what.start.clone().or(config.start).unwrap_or_else(|| "auto".to_owned()),
        data_size: what.data_size.or(config.data_size).unwrap_or(Bytes::mib(if quick {
            16
        } else {
            128
        })),
        memory: what.memory.or(config.memory).unwrap_or(Bytes::mib(if quick { 64 } else { 256 })),
        runtime_ms: what.runtime_ms.or(config.runtime_ms).unwrap_or(if quick {
            2_000
        } else {
            10_000
        }),
        erase_unit: what.erase_unit.or(config.media_erase_block_size),
        write_unit: what.write_unit.or(config.media_page_size),
        mount_dir: config.mount_dir,
        catalog_dir,
        target,
    };
    check(&spec, &filesystems, &workloads)?;
    let dir = args.dir.clone().or(config.result_dir).unwrap_or_else(|| default_dir(&spec.target));
    Ok(ResolvedSpec { spec, dir })
}

/// What a probe of this device found, where its file is named.
fn probed(
    file: Option<&Path>,
    target: &str,
    catalog: Option<&Path>,
) -> Result<Geometry, CommandError> {
    let Some(file) = file else { return Ok(Geometry::default()) };
    let mut notes = Vec::new();
    let inspected = InspectedTarget::inspect(target, &SystemRunner::default(), catalog)?;
    let probed = saved::read(Some(file), &inspected.planned(), &mut notes)?;
    notes.iter().for_each(|text| note(&format!("note: {text}")));
    Ok(probed)
}

/// All that are tried without being asked for, the usual one first: it is what the others are
/// compared with.
fn default_filesystems(filesystems: &FileSystemCatalog) -> Vec<String> {
    let tried = filesystems.filesystems().iter().filter(|found| found.tried);
    let mut names: Vec<String> = tried.map(|found| found.name.clone()).collect();
    names.sort_by_key(|name| name != USUAL_FILESYSTEM);
    names
}

fn default_workloads(quick: bool, workloads: &Workloads) -> Vec<String> {
    if quick {
        QUICK_WORKLOADS.map(str::to_owned).to_vec()
    } else {
        workloads.all().iter().map(|workload| workload.name.clone()).collect()
    }
}

/// The names without those that were there before.
fn once(names: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}

/// `run-` and what tells the target apart.
fn default_dir(target: &str) -> PathBuf {
    let last = target.rsplit(['/', ':']).next().unwrap_or(target);
    PathBuf::from(format!("run-{last}"))
}

/// Schedulers by today's names; earlier names are translated, which the user is told.
pub fn understood(names: Option<Vec<String>>) -> Result<Vec<Scheduler>, CatalogEntryError> {
    let mut schedulers = Vec::new();
    for name in names.unwrap_or_default() {
        let understood = scheduler::understand(&name)?;
        if let Some(text) = understood.note {
            note(&format!("note: {text}"));
        }
        if !schedulers.contains(&understood.scheduler) {
            schedulers.push(understood.scheduler);
        }
    }
    Ok(schedulers)
}

/// Whether every name is one of the catalog, and every number makes sense.
fn check(
    spec: &RunSpec,
    filesystems: &FileSystemCatalog,
    workloads: &Workloads,
) -> Result<(), CommandError> {
    for name in &spec.filesystems {
        let filesystem = filesystems.filesystem(name)?;
        if let Some(reason) = &filesystem.plan_only {
            return Err(CommandError::new(
                ExitClass::Usage,
                format!("{name} cannot be tried: {reason}"),
                Some("name another file system with --fs; flashfit catalog lists them"),
            ));
        }
    }
    if spec.runtime_ms > MOST_RUNTIME_MS {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("a runtime of {} ms is longer than a day", spec.runtime_ms),
            Some("a stage of some seconds is enough; more --repeats tell more"),
        ));
    }
    let plan = plan(spec);
    for name in &spec.workloads {
        plan.points(workloads.find(name)?)?;
    }
    for (name, choice) in &spec.options {
        let filesystem = filesystems.filesystem(name)?;
        for option in choice.always.iter().chain(&choice.exclude).chain(&choice.include) {
            filesystem.option(option)?;
        }
    }
    let empty = |what: &str| {
        CommandError::new(
            ExitClass::Usage,
            format!("no {what} is left to try"),
            Some("name at least one"),
        )
    };
    if spec.filesystems.is_empty() {
        return Err(empty("file system"));
    }
    if spec.workloads.is_empty() {
        return Err(empty("workload"));
    }
    layout_start(&spec.start)?;
    Ok(())
}

/// The figures of a run as its workloads take them.
pub fn plan(spec: &RunSpec) -> RunPlan {
    RunPlan {
        points: Points::Profile(spec.profile),
        data_size_bytes: spec.data_size.0,
        memory_bytes: spec.memory.0,
        runtime_ns: spec.runtime_ns(),
        seed: spec.seed,
        scratch: PathBuf::new(),
    }
}
