//! Which options of the catalog this kernel and the installed programs take, refuse, or take and
//! ignore: found out on scratch images.
//!
//! For each option the file system is made and mounted with it and without it, as trials make it,
//! and compared: the superblock, the mount table, the file system's own list of its options, the
//! kernel's log. Every attempt has its own image (an empty file system is made in some
//! milliseconds), so that what a mount changes for good (`space_cache=v2`, `journal_async_commit`)
//! is not taken for the next option's.
//!
//! Limits: an option is judged by what can be seen of it. That it changes a device's speed, or
//! nothing, only trials tell. Options are tried one at a time, with what they imply.

mod absent;
mod attempt;
mod cache;
mod error;
mod finding;
mod guard;
mod judge;
pub mod kernel;
mod kernel_words;
mod rehearsal;
mod scratch;
mod settings;
mod superblock;
mod tools;
mod trace;
mod trial;

use flashfit_device::Bytes;
use flashfit_filesystem::plan::{self, fitted_conditions};
use flashfit_filesystem::{
    Conditions, FileSystem, FsOption, Recipe, Scheduler, Setup, SetupError, Variable,
};
use flashfit_host::{ProgramError, Runner, program};

pub use absent::{AbsentOption, absent_in_plan, absent_options, versions_here};
use attempt::AttemptTools;
use cache::hash;
pub use cache::{Cache, OptionCacheKey};
pub use error::OptionProbeError;
pub use finding::{EvidenceSource, OptionEvidence, OptionFinding, OptionFindings, OptionVerdict};
pub use rehearsal::refused_in_rehearsal;
use scratch::ScratchImages;
pub use tools::OptionProbeTools;
use trial::{OptionTrial, all, tool_missing};

/// Sparse, so that it costs what mkfs writes. Less than the first would make some layouts
/// impossible; FAT32 with clusters of 32 KiB has more than 2 GiB.
const IMAGES: [Bytes; 2] = [Bytes::mib(1024), Bytes::mib(4096)];
/// A loop device's.
const SECTOR_BYTES: u64 = 512;

/// Findings and how they were come by.
#[derive(Debug, Clone)]
pub struct ProbedOptions {
    pub findings: OptionFindings,
    /// Whether it was found by an earlier run.
    pub cached: bool,
    /// Why it could not be kept for the next run, where it could not.
    pub not_kept: Option<String>,
}

/// What is found of a file system's options under `conditions`, or was found before.
///
/// # Errors
/// See [`OptionProbeError`]: the machine's, never an option's.
pub fn find_out(
    runner: &dyn Runner,
    filesystem: &FileSystem,
    conditions: &Conditions,
    means: &OptionProbeTools,
    cache: &Cache,
    refresh: bool,
) -> Result<ProbedOptions, OptionProbeError> {
    let (_, conditions) = &image(filesystem, conditions);
    let key = key(runner, filesystem, conditions, means);
    if let Some(mut findings) = cache.get(&key).filter(|_| !refresh) {
        look_at_settings(&mut findings, filesystem, conditions);
        return Ok(ProbedOptions { findings, cached: true, not_kept: None });
    }
    let findings = measure(runner, filesystem, conditions, means)?;
    let not_kept = cache.keep(key, &findings).err();
    Ok(ProbedOptions { findings, cached: false, not_kept })
}

/// What is set of the machine may have been set otherwise since the findings were kept.
fn look_at_settings(
    findings: &mut OptionFindings,
    filesystem: &FileSystem,
    conditions: &Conditions,
) {
    for finding in &mut findings.options {
        let Ok(option) = filesystem.option(&finding.option) else { continue };
        let is_made = !(option.mkfs.is_empty() && option.mkfs_if_known.is_empty());
        if is_made || !option.tune.is_empty() || !option.mount.is_empty() {
            continue;
        }
        let judged = recipe(filesystem, conditions, &[&option.name])
            .ok()
            .and_then(|recipe| settings::judge(option, &recipe));
        if let Some((verdict, evidence)) = judged {
            (finding.verdict, finding.evidence) = (verdict, evidence);
        }
    }
}

/// The size of the scratch images, and the conditions with the numbers of a plan for it: the
/// least size on which most options have their numbers.
fn image(filesystem: &FileSystem, conditions: &Conditions) -> (Bytes, Conditions) {
    let least = filesystem.min_device_size.0.saturating_mul(2);
    let of_size = |size: Bytes| {
        let size = Bytes(size.0.max(least));
        let place = plan::PlannedPlacement { start_bytes: 0, size_bytes: size.0 };
        (size, fitted_conditions(filesystem, conditions, place, SECTOR_BYTES))
    };
    let lacking = |(_, fitted): &(Bytes, Conditions)| {
        let has_value =
            |variable: &Variable| variable.value_under(filesystem.block_bytes, fitted).is_ok();
        let lacks = |option: &&FsOption| !option.quantities().iter().all(has_value);
        filesystem.options.iter().filter(lacks).count()
    };
    IMAGES.into_iter().map(of_size).min_by_key(lacking).expect("there is a size")
}

fn recipe<S: AsRef<str>>(
    filesystem: &FileSystem,
    conditions: &Conditions,
    options: &[S],
) -> Result<Recipe, SetupError> {
    let setup = Setup::new(filesystem, options, Scheduler::new("none"), conditions)?;
    Recipe::for_trial(filesystem, &setup, conditions)
}

/// The key of what is found of a file system's options under another kernel with the programs of
/// this machine, where images can be mounted; `kernel` identifies everything that its findings
/// depend on.
pub fn key_elsewhere(
    runner: &dyn Runner,
    filesystem: &FileSystem,
    conditions: &Conditions,
    rotational: Option<bool>,
    kernel: String,
) -> OptionCacheKey {
    let (_, conditions) = &image(filesystem, conditions);
    let means = OptionProbeTools::mounting().rotational(rotational);
    OptionCacheKey { kernel, ..key(runner, filesystem, conditions, &means) }
}

fn key(
    runner: &dyn Runner,
    filesystem: &FileSystem,
    conditions: &Conditions,
    means: &OptionProbeTools,
) -> OptionCacheKey {
    let build = std::fs::read_to_string("/proc/sys/kernel/version").unwrap_or_default();
    let mkfs = &filesystem.mkfs;
    let version = |name: &str, args: &[String]| {
        let said = program::version(runner, name, args).unwrap_or_default();
        format!("{name}: {said}")
    };
    OptionCacheKey {
        filesystem: filesystem.name.clone(),
        kernel: format!("{} {}", kernel::release(), build.trim()),
        programs: vec![
            version(&mkfs.tool.program, &mkfs.version_args),
            version("mount", &["--version".to_owned()]),
        ],
        catalog: hash(&format!("{filesystem:?}")),
        conditions: hash(&format!("{conditions:?} {:?}", means.rotational)),
        mounted: means.cannot_mount.is_none(),
    }
}

/// Finds out again; see [`find_out`].
///
/// # Errors
/// See [`OptionProbeError`].
pub fn measure(
    runner: &dyn Runner,
    filesystem: &FileSystem,
    conditions: &Conditions,
    means: &OptionProbeTools,
) -> Result<OptionFindings, OptionProbeError> {
    let (size, conditions) = image(filesystem, conditions);
    let conditions = &conditions;
    let mkfs = &filesystem.mkfs.tool.program;
    if program::find(mkfs).is_none() {
        let missing = ProgramError::Missing { name: mkfs.clone() };
        return Ok(all(filesystem, None, |option| tool_missing(option, &missing)));
    }
    let in_kernel = kernel::has(&filesystem.kind);
    let packing = filesystem.mkfs.from_folder;
    let no_kernel = (!in_kernel).then(|| format!("this kernel has no {}", filesystem.kind));
    let packed = packing.then(|| "it is packed from a folder, and only that is tried".to_owned());
    let not_mounted = packed.or_else(|| means.cannot_mount.clone()).or(no_kernel);
    let scratch = ScratchImages::new(&means.folder, means.rotational)?;
    let bench = AttemptTools {
        runner,
        scratch: &scratch,
        size,
        packing,
        attaching: means.cannot_mount.is_none() && !packing,
        mounting: not_mounted.is_none(),
    };
    let hint = means.hint.clone();
    let trying = OptionTrial { bench, filesystem, conditions, in_kernel, not_mounted, hint };
    trying.all_options()
}
