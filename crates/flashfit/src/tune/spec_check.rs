//! Names that are tried by default, and whether a specification can be run.

use flashfit_bench::{Workload, Workloads};
use flashfit_filesystem::plan::label_flag;
use flashfit_filesystem::{FileSystemCatalog, PartitionEnd};
use flashfit_tune::RunSpec;
use flashfit_user_error::ExitClass;

use crate::cli::{check_end, check_placement, layout_start};
use crate::command_error::CommandError;

/// What a short look at a device measures: of all pairs, the one that predicts the ranking under
/// all workloads best (docs/tuning.md).
const QUICK_WORKLOADS: [&str; 2] = ["sync-files", "create-read-delete"];
/// The name that means every workload.
const ALL: &str = "all";
/// What distributions put on a card when nobody chooses.
const USUAL_FILESYSTEM: &str = "ext4";
/// One day: longer is a unit mistaken.
const MOST_RUNTIME_MS: u64 = 86_400_000;

/// All those tried without being asked for, the usual one first: it is what the others are
/// compared with.
pub fn default_filesystems(filesystems: &FileSystemCatalog) -> Vec<String> {
    let tried = filesystems.filesystems().iter().filter(|found| found.tried);
    let mut names: Vec<String> = tried.map(|found| found.name.clone()).collect();
    names.sort_by_key(|name| name != USUAL_FILESYSTEM);
    names
}

pub fn default_workloads(quick: bool, workloads: &Workloads) -> Vec<String> {
    if quick {
        QUICK_WORKLOADS.map(str::to_owned).to_vec()
    } else {
        names_of(workloads, |workload| !workload.extra)
    }
}

/// Those without commands, which run only if the user names their workload.
fn names_of(workloads: &Workloads, is_meant: fn(&Workload) -> bool) -> Vec<String> {
    let safe = workloads.all().iter().filter(|workload| workload.commands().next().is_none());
    safe.filter(|workload| is_meant(workload)).map(|workload| workload.name.clone()).collect()
}

/// The workloads that these names mean: `all` is each of the catalog that runs no commands.
pub fn named_workloads(names: Vec<String>, workloads: &Workloads) -> Vec<String> {
    let meant = |name: String| match name.as_str() {
        ALL => names_of(workloads, |_| true),
        _ => vec![name],
    };
    names.into_iter().flat_map(meant).collect()
}

/// Whether every name is one of the catalog, and every number makes sense.
pub fn check(
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
            Some("a stage of some seconds is enough; more --repeats give more precise results"),
        ));
    }
    let plan = spec.run_plan();
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
    if let Some(label) = &spec.label {
        check_label(label, &spec.filesystems, filesystems)?;
    }
    if let Some(second) = &spec.second {
        second.check(filesystems)?;
    }
    check_placement(Some(layout_start(&spec.start)?), spec.table)?;
    check_end(Some(layout_start(&spec.start)?), spec.table, spec.end == Some(PartitionEnd::Grid))
}

/// Any of the file systems may be recommended, and an image gets the label of its host.
fn check_label(
    label: &str,
    names: &[String],
    filesystems: &FileSystemCatalog,
) -> Result<(), CommandError> {
    for name in names {
        let filesystem = filesystems.filesystem(name)?;
        let host = filesystem.layered.as_ref().and_then(|layered| layered.hosts.first());
        let labeled = host.map_or(Ok(filesystem), |host| filesystems.filesystem(host))?;
        label_flag(labeled, label)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_means_every_workload_of_the_catalog() {
        let workloads = Workloads::load(None).unwrap();
        let named = |names: &[&str]| {
            named_workloads(names.iter().map(|&name| name.to_owned()).collect(), &workloads)
        };
        let all = named(&["all"]);
        assert_eq!(all.len(), workloads.all().len());
        assert!(all.iter().all(|name| workloads.find(name).is_ok()));
        assert_eq!(named(&["grep", "untar"]), ["grep", "untar"]);
        assert_eq!(named(&["grep", "all"]).len(), all.len() + 1, "the first stays first");
        let standard = default_workloads(false, &workloads);
        assert_eq!(standard.len(), 11, "the methodology's and two more: {standard:?}");
        assert!(all.contains(&"bonnie".to_owned()) && !standard.contains(&"bonnie".to_owned()));
    }
}
