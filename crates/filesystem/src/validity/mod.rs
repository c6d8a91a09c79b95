//! Which options of the catalogue this kernel and the installed programs take, refuse, or take and
//! ignore: found out on scratch images.
//!
//! For each option the file system is made and mounted with it and without it, as trials make it,
//! and compared: the superblock, the mount table, the file system's own list of its options, the
//! kernel's log. Every attempt has an image of its own (an empty file system is made in some
//! milliseconds), so that what a mount changes for good (`space_cache=v2`, `journal_async_commit`)
//! is not taken for the next option's.
//!
//! Limits: an option is judged by what can be seen of it. That it changes a medium's speed, or
//! nothing, only trials tell. Options are tried one at a time, with what they imply.

mod attempt;
mod cache;
mod finding;
mod guard;
mod judge;
pub mod kernel;
mod kernel_words;
mod scratch;
mod settings;
mod superblock;
mod trace;

use std::path::{Path, PathBuf};

use flashfit_host::loop_device::LoopError;
use flashfit_host::mount::{MountError, enter_private_namespace};
use flashfit_host::{ExitClass, Explain, ProgramError, Runner, capability, program};
use flashfit_medium::Bytes;

use crate::conditions::Conditions;
use crate::filesystem::{FileSystem, FsOption};
use crate::recipe::Recipe;
use crate::scheduler::Scheduler;
use crate::setup::{Setup, SetupError};
use attempt::{Attempt, Workbench};
pub use cache::Cache;
use cache::{Key, hash};
pub use finding::{Evidence, Finding, Findings, Place, Verdict};
use judge::{Parts, Seen};
use scratch::Scratch;

/// Sparse, so that it costs what mkfs writes; less would make some layouts impossible.
const IMAGE: Bytes = Bytes::mib(1024);
const AS_ROOT: &str = "run it as root";

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
pub enum ValidityError {
    /// No scratch folder or image.
    #[error("cannot make a scratch image: {}: {source}", path.display())]
    Scratch {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No room for it.
    #[error("no space left for a scratch image in {}", path.display())]
    Full {
        /// The folder or file.
        path: PathBuf,
    },
    /// The image failed as a medium does.
    #[error("the scratch image returned an error: {line}")]
    Image {
        /// The kernel's line.
        line: String,
    },
    /// No loop device.
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// A mount failed in a way that no option explains.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A program cannot be run, or the user interrupts.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The file system without options is not possible.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl Explain for ValidityError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Scratch { .. } | Self::Full { .. } => ExitClass::Environment,
            Self::Image { .. } => ExitClass::Io,
            Self::Loop(error) => error.class(),
            Self::Mount(error) => error.class(),
            Self::Program(error) => error.class(),
            Self::Setup(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Scratch { .. } | Self::Full { .. } | Self::Image { .. } => {
                Some("name a folder with 128 MiB free: TMPDIR=/var/tmp flashfit options".to_owned())
            }
            Self::Loop(error) => error.hint(),
            Self::Mount(error) => error.hint(),
            Self::Program(error) => error.hint(),
            Self::Setup(error) => error.hint(),
        }
    }
}

/// What options are tried with.
#[derive(Debug, Clone)]
pub struct Means {
    /// Why images cannot be mounted here; `None` where they can.
    cannot_mount: Option<String>,
    /// Where scratch images are made.
    folder: PathBuf,
    /// What the kernel is told of scratch images; `None` for what their disk is.
    rotational: Option<bool>,
}

impl Means {
    /// Gives this process its own mounts where it may. To be called before any thread is started.
    pub fn take() -> Self {
        let cannot_mount = capability::missing_for_block_devices()
            .or_else(|| enter_private_namespace().err().map(|error| error.to_string()));
        Self { cannot_mount, ..Self::without_mounting("") }
    }

    /// Only what can be seen without mounting.
    pub fn without_mounting(reason: &str) -> Self {
        let cannot_mount = Some(reason.to_owned());
        Self { cannot_mount, folder: std::env::temp_dir(), rotational: Some(false) }
    }

    /// With scratch images in this folder.
    #[must_use]
    pub fn in_folder(self, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..self }
    }

    /// With scratch images of which the kernel believes this, as it does of flash unless told;
    /// `None` for what it believes of the disk that they are on.
    #[must_use]
    pub fn rotational(self, rotational: Option<bool>) -> Self {
        Self { rotational, ..self }
    }

    /// Why images cannot be mounted here; `None` where they can.
    pub fn cannot_mount(&self) -> Option<&str> {
        self.cannot_mount.as_deref()
    }
}

/// The size of the scratch images of a file system.
pub fn image_size(filesystem: &FileSystem) -> Bytes {
    Bytes(IMAGE.0.max(filesystem.least_medium.0.saturating_mul(2)))
}

/// Findings and how they were come by.
#[derive(Debug, Clone)]
pub struct Found {
    /// What was found.
    pub findings: Findings,
    /// Whether it was found by an earlier run.
    pub cached: bool,
    /// Why it could not be kept for the next run, where it could not.
    pub not_kept: Option<String>,
}

/// What is found of a file system's options under `conditions`, or was found before.
///
/// # Errors
/// As [`ValidityError`] tells: the machine's, never an option's.
pub fn find_out(
    runner: &dyn Runner,
    filesystem: &FileSystem,
    conditions: &Conditions,
    means: &Means,
    cache: &Cache,
    refresh: bool,
) -> Result<Found, ValidityError> {
    let key = key(runner, filesystem, conditions, means);
    if let Some(findings) = cache.get(&key).filter(|_| !refresh) {
        return Ok(Found { findings, cached: true, not_kept: None });
    }
    let findings = measure(runner, filesystem, conditions, means)?;
    // Installing a program is quicker seen than an old record.
    let lasting = findings.options.iter().all(|found| found.verdict != Verdict::ToolMissing);
    let not_kept = if lasting { cache.put(key, &findings).err() } else { None };
    Ok(Found { findings, cached: false, not_kept })
}

fn key(
    runner: &dyn Runner,
    filesystem: &FileSystem,
    conditions: &Conditions,
    means: &Means,
) -> Key {
    let build = std::fs::read_to_string("/proc/sys/kernel/version").unwrap_or_default();
    let mkfs = &filesystem.mkfs;
    let version = |name: &str, args: &[String]| {
        let said = program::version(runner, name, args).unwrap_or_default();
        format!("{name}: {said}")
    };
    Key {
        filesystem: filesystem.name.clone(),
        kernel: format!("{} {}", kernel::release(), build.trim()),
        programs: vec![
            version(&mkfs.tool.program, &mkfs.version_args),
            version("mount", &["--version".to_owned()]),
        ],
        catalogue: hash(&format!("{filesystem:?}")),
        conditions: hash(&format!("{conditions:?} {:?}", means.rotational)),
        mounted: means.cannot_mount.is_none(),
    }
}

/// Finds out anew; see [`find_out`].
///
/// # Errors
/// As [`ValidityError`] tells.
pub fn measure(
    runner: &dyn Runner,
    filesystem: &FileSystem,
    conditions: &Conditions,
    means: &Means,
) -> Result<Findings, ValidityError> {
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
    let scratch = Scratch::new(&means.folder, means.rotational)?;
    let bench = Workbench {
        runner,
        scratch: &scratch,
        size: image_size(filesystem),
        packing,
        attaching: means.cannot_mount.is_none() && !packing,
        mounting: not_mounted.is_none(),
    };
    let trying = Trying { bench, filesystem, conditions, in_kernel, not_mounted };
    trying.all_options()
}

fn all(
    filesystem: &FileSystem,
    not_mounted: Option<String>,
    finding: impl Fn(&FsOption) -> Finding,
) -> Findings {
    Findings {
        filesystem: filesystem.name.clone(),
        not_mounted,
        options: filesystem.options.iter().map(finding).collect(),
    }
}

fn tool_missing(option: &FsOption, missing: &ProgramError) -> Finding {
    Finding {
        option: option.name.clone(),
        verdict: Verdict::ToolMissing,
        evidence: vec![Evidence::new(Place::Flashfit, missing.to_string())],
        hint: missing.hint(),
    }
}

fn finding(option: &FsOption, verdict: Verdict, evidence: Vec<Evidence>) -> Finding {
    Finding { option: option.name.clone(), verdict, evidence, hint: None }
}

fn not_tried(option: &FsOption, reason: String) -> Finding {
    finding(option, Verdict::NotMeasured, vec![Evidence::new(Place::Flashfit, reason)])
}

/// What an option is compared with.
struct Without {
    recipe: Recipe,
    seen: Seen,
}

/// Options of one file system under trial.
struct Trying<'a> {
    bench: Workbench<'a>,
    filesystem: &'a FileSystem,
    conditions: &'a Conditions,
    in_kernel: bool,
    not_mounted: Option<String>,
}

impl Trying<'_> {
    fn all_options(mut self) -> Result<Findings, ValidityError> {
        let recipe = self.recipe::<&str>(&[])?;
        let base = match self.bench.attempt(&recipe, &[])? {
            Attempt::Done(seen) => seen,
            Attempt::NotMounted(seen, evidence) => {
                self.not_mounted = Some(format!(
                    "even without options it is not mounted ({})",
                    evidence.first().map_or("no reason told", |first| &first.text)
                ));
                self.bench.mounting = false;
                seen
            }
            Attempt::Missing(missing) => {
                return Ok(all(self.filesystem, None, |option| tool_missing(option, &missing)));
            }
            Attempt::NotMade(evidence) => return Ok(self.none_tried(&evidence)),
            Attempt::Unclear(what) => {
                return Ok(self.none_tried(&[Evidence::new(Place::Program, what)]));
            }
        };
        let base = Without { recipe, seen: base };
        let found = self.filesystem.options.iter().map(|option| self.one(option, &base));
        let options = found.collect::<Result<_, _>>()?;
        let not_mounted = self.not_mounted.clone();
        Ok(Findings { filesystem: self.filesystem.name.clone(), not_mounted, options })
    }

    /// Where the file system cannot be made even without options.
    fn none_tried(&self, evidence: &[Evidence]) -> Findings {
        let not_made = Evidence::new(Place::Flashfit, "even without options it is not made");
        let evidence: Vec<Evidence> = evidence.iter().cloned().chain([not_made]).collect();
        all(self.filesystem, self.not_mounted.clone(), |option| {
            finding(option, Verdict::NotMeasured, evidence.clone())
        })
    }

    fn recipe<S: AsRef<str>>(&self, options: &[S]) -> Result<Recipe, SetupError> {
        let scheduler = Scheduler::new("none");
        let setup = Setup::new(self.filesystem, options, scheduler, self.conditions)?;
        Recipe::for_trial(self.filesystem, &setup, self.conditions)
    }

    fn one(&self, option: &FsOption, base: &Without) -> Result<Finding, ValidityError> {
        let recipe = match self.recipe(&[option.name.as_str()]) {
            Ok(recipe) => recipe,
            Err(SetupError::Unusable { reason, .. }) => return Ok(not_tried(option, reason)),
            Err(error) => return Err(error.into()),
        };
        if let Some(reason) = forbidden(&recipe, &base.recipe) {
            let evidence = vec![Evidence::new(Place::Flashfit, reason)];
            return Ok(finding(option, Verdict::Refused, evidence));
        }
        if option.implies.is_empty() {
            return self.beside(option, &recipe, base);
        }
        // Else what is implied would be taken for the option's own effect.
        let without = self.recipe(&option.implies)?;
        match self.bench.attempt(&without, &[])? {
            Attempt::Done(seen) => self.beside(option, &recipe, &Without { recipe: without, seen }),
            _ => {
                let names = option.implies.join(", ");
                Ok(not_tried(option, format!("it implies {names}, which does not work here")))
            }
        }
    }

    /// An option, against what is seen without it.
    fn beside(
        &self,
        option: &FsOption,
        recipe: &Recipe,
        without: &Without,
    ) -> Result<Finding, ValidityError> {
        let parts = parts(recipe, &without.recipe);
        if parts == Parts::default() {
            if let Some((verdict, evidence)) = settings::judge(option, recipe) {
                return Ok(finding(option, verdict, evidence));
            }
        }
        if parts == Parts::default() || (!parts.making && !self.bench.mounting) {
            let (verdict, evidence) = judge::judge(&parts, &without.seen, &without.seen);
            return Ok(self.told(option, &parts, verdict, evidence));
        }
        Ok(match self.bench.attempt(recipe, &parts.words)? {
            Attempt::Done(seen) => {
                let (verdict, evidence) = judge::judge(&parts, &without.seen, &seen);
                self.told(option, &parts, verdict, evidence)
            }
            Attempt::NotMade(evidence) | Attempt::NotMounted(_, evidence) => {
                finding(option, Verdict::Refused, evidence)
            }
            Attempt::Missing(missing) => tool_missing(option, &missing),
            Attempt::Unclear(what) => not_tried(option, what),
        })
    }

    /// A finding that also tells what was not mounted, and why.
    fn told(
        &self,
        option: &FsOption,
        parts: &Parts,
        verdict: Verdict,
        mut evidence: Vec<Evidence>,
    ) -> Finding {
        let Some(reason) = self.not_mounted.as_ref().filter(|_| *parts != Parts::default()) else {
            return finding(option, verdict, evidence);
        };
        let unmounted = verdict == Verdict::NotMeasured;
        let verdict = if unmounted && !self.in_kernel { Verdict::NotInKernel } else { verdict };
        evidence.push(Evidence::new(Place::Flashfit, format!("not mounted: {reason}")));
        let hint = (unmounted && self.in_kernel).then(|| AS_ROOT.to_owned());
        Finding { hint, ..finding(option, verdict, evidence) }
    }
}

/// What an option adds to the commands.
fn parts(recipe: &Recipe, base: &Recipe) -> Parts {
    let split = |recipe: &Recipe| -> Vec<String> {
        let options = recipe.mount_options().iter().flat_map(|option| option.split(','));
        options.map(str::to_owned).collect()
    };
    let before = split(base);
    Parts {
        making: attempt::making(recipe) != attempt::making(base),
        words: split(recipe).into_iter().filter(|word| !before.contains(word)).collect(),
    }
}

/// Why an option is not tried at all.
fn forbidden(recipe: &Recipe, base: &Recipe) -> Option<String> {
    guard::forbidden_mount(&parts(recipe, base).words).or_else(|| {
        let before = attempt::making(base);
        let node = "/dev/node";
        let new = attempt::making(recipe).into_iter().filter(|line| !before.contains(line));
        let words: Vec<String> = new
            .flat_map(|line| line.split(' ').skip(1).map(str::to_owned).collect::<Vec<_>>())
            .filter(|word| word != node && !before.iter().any(|line| is_word_of(line, word)))
            .collect();
        guard::forbidden_argument(&words)
    })
}

fn is_word_of(line: &str, word: &str) -> bool {
    line.split(' ').any(|found| found == word)
}
