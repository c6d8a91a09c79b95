//! Options that this machine does not have or refuses: by the versions in the catalog, by the
//! settings that the kernel has, and by what `flashfit options` found earlier. Nothing is tried.
//!
//! Limits: a feature that a distribution carried back to an older version counts as absent. The
//! kernel's version counts only where the kernel has the file system: otherwise nothing is mounted
//! here.

use flashfit_filesystem::{
    Conditions, FileSystem, FileSystemCatalog, FsOption, Plan, SetupError, Version, Versions,
};
use flashfit_host::{Runner, program};

use crate::cache::{Cache, hash};
use crate::finding::EvidenceSource;
use crate::{kernel, key, settings, tools::OptionProbeTools};

/// An option that this kernel or this program does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbsentOption {
    /// The file system's name in the catalog.
    pub filesystem: String,
    pub option: String,
    /// Why, as a sentence without a capital.
    pub reason: String,
}

/// The versions of this kernel and of the program that makes the file system; one that is not
/// known is left out.
pub fn versions_here(runner: &dyn Runner, filesystem: &FileSystem) -> Versions {
    let mkfs = &filesystem.mkfs;
    let told = program::version(runner, &mkfs.tool.program, &mkfs.version_args);
    let kernel = kernel::has(&filesystem.kind).then(kernel::release);
    Versions {
        kernel: kernel.and_then(|release| Version::find_in(&release)),
        tool: told.and_then(|told| Version::find_in(&told)),
    }
}

/// Those of `options` that do not exist in the versions `here`.
///
/// # Errors
/// When the file system does not have one of them at all.
pub fn absent_options(
    filesystem: &FileSystem,
    options: &[String],
    here: &Versions,
) -> Result<Vec<AbsentOption>, SetupError> {
    let mut found = Vec::new();
    for name in options {
        let reason = filesystem.option(name)?.why_absent(here);
        found.extend(reason.map(|reason| AbsentOption {
            filesystem: filesystem.name.clone(),
            option: name.clone(),
            reason,
        }));
    }
    Ok(found)
}

/// The options of a plan, also of its image and its second partition, that do not exist here or
/// that are in `cache` as refused.
///
/// # Errors
/// When the catalog does not have one of them at all.
pub fn absent_in_plan(
    runner: &dyn Runner,
    catalog: &FileSystemCatalog,
    plan: &Plan,
    cache: &Cache,
) -> Result<Vec<AbsentOption>, SetupError> {
    let setups = std::iter::once(&plan.choices.setup).chain(&plan.choices.image);
    let chosen = setups.map(|setup| (&setup.filesystem, &setup.options));
    let second = plan.choices.second.iter().zip(&plan.second);
    let second = second.map(|(choice, planned)| (&choice.content, &planned.options));
    let mut found = Vec::new();
    // Swap space is not a file system, and has no options.
    for (name, options) in chosen.chain(second).filter(|(_, options)| !options.is_empty()) {
        let filesystem = catalog.filesystem(name)?;
        let dated = |option: &FsOption| !(option.since.is_empty() && option.until.is_empty());
        // Programs are asked for their versions only where an option depends on one.
        if filesystem.options.iter().any(|one| dated(one) && options.contains(&one.name)) {
            found.extend(absent_options(filesystem, options, &versions_here(runner, filesystem))?);
        }
        for option in options {
            if found.iter().any(|one| one.filesystem == *name && one.option == *option) {
                continue;
            }
            let reason = settings::missing(filesystem.option(option)?);
            let reason = reason.or_else(|| refused_before(runner, filesystem, option, cache));
            found.extend(reason.map(|reason| AbsentOption {
                filesystem: name.clone(),
                option: option.clone(),
                reason,
            }));
        }
    }
    Ok(found)
}

/// Why an earlier trial with this kernel, these programs and this catalog was refused. Options
/// with numbers of the geometry are left out: another number may be accepted.
fn refused_before(
    runner: &dyn Runner,
    filesystem: &FileSystem,
    option: &str,
    cache: &Cache,
) -> Option<String> {
    if !filesystem.option(option).ok()?.quantities().is_empty() {
        return None;
    }
    let refusals = cache.refusals(&filesystem.name, &hash(&format!("{filesystem:?}")), option);
    if refusals.is_empty() {
        return None;
    }
    // Programs are asked for their versions only now.
    let here =
        key(runner, filesystem, &Conditions::default(), &OptionProbeTools::without_mounting(""));
    let (_, finding) = refusals.into_iter().find(|(key, _)| key.is_same_machine(&here))?;
    // A setting is looked at again each time, and may be there by now.
    let is_lasting = finding.evidence.first()?.place != EvidenceSource::Flashfit;
    finding.why_no_choice().filter(|_| is_lasting)
}

#[cfg(test)]
mod tests {
    use flashfit_filesystem::FileSystemCatalog;

    use super::*;

    #[test]
    fn only_what_the_versions_lack_is_absent() {
        let catalog = FileSystemCatalog::load(None).unwrap();
        let btrfs = catalog.filesystem("btrfs").unwrap();
        let options = ["leafsize".to_owned(), "noatime".to_owned()];
        let of = |tool: &str| {
            let here = Versions { kernel: None, tool: Version::find_in(tool) };
            absent_options(btrfs, &options, &here).unwrap()
        };
        let [absent] = &of("btrfs-progs v6.2")[..] else { panic!("one is absent") };
        assert_eq!(absent.option, "leafsize");
        assert_eq!(absent.reason, "it was removed in version 6.0, and this is 6.2");
        assert_eq!(of("btrfs-progs v5.16"), []);
        assert_eq!(of("no version"), [], "what is not known is not absent");
        assert!(absent_options(btrfs, &["nonsense".to_owned()], &Versions::default()).is_err());
    }
}
