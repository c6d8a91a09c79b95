//! A run that is continued with more workloads, file systems, options, repeats or budget.
//!
//! Earlier trials stay and count, so that only what is missing is measured. The header keeps what
//! the run was before. It is replaced before the first new trial, so a killed extension continues
//! like any run.

use flashfit_run_format::unix_seconds;
use flashfit_testbed::TestBedFacts;

use super::{BuiltSpace, RunError, RunRequest};
use crate::spec::{CatalogUsed, ChoiceNames, RunExtension, RunHeader, RunSpec};

/// Whether a run that goes on with `spec` is another one than before. Where it is made does not
/// matter, nor what is checked after its trials.
pub(super) fn extends(spec: &RunSpec, before: &RunSpec) -> bool {
    let before = RunSpec {
        on: spec.on.clone(),
        mount_dir: spec.mount_dir.clone(),
        catalog_dir: spec.catalog_dir.clone(),
        crash_states: spec.crash_states,
        ..before.clone()
    };
    before != *spec
}

/// What was found on the test bed where the run goes on.
pub(super) struct Found<'a> {
    pub facts: &'a TestBedFacts,
    /// The space that a new run would have.
    pub built: BuiltSpace,
    /// Recorded trials.
    pub trials: usize,
}

pub(super) fn extend(
    header: &mut RunHeader,
    request: RunRequest<'_>,
    found: Found<'_>,
) -> Result<(), RunError> {
    let Found { facts, built, trials } = found;
    let spec = request.spec;
    let choices = built.space.names().into_iter();
    let merged = choices.map(|new| merged(header, spec, new)).collect();
    // A file system that this machine lacks now keeps what it had.
    let kept = std::mem::replace(&mut header.choices, merged);
    let lost = kept.into_iter().filter(|old| !has(&header.choices, &old.filesystem));
    let lost: Vec<ChoiceNames> = lost.collect();
    header.choices.extend(lost);
    // The file system that was named first is the baseline.
    let place = |name: &str| spec.filesystems.iter().position(|known| known == name);
    header.choices.sort_by_key(|choices| place(&choices.filesystem));
    for note in built.notes {
        if !header.left_out.contains(&note) {
            header.left_out.push(note);
        }
    }
    for (filesystem, planned) in &facts.planned {
        header.facts.planned.entry(filesystem.clone()).or_insert_with(|| planned.clone());
    }
    let mut before = std::mem::replace(&mut header.spec, spec.clone());
    if before.memory != spec.memory && trials > 0 {
        header.warnings.push(format!(
            "trials 1 to {trials} had {} of memory, later ones have {}: workloads that go through \
             the page cache may differ between them",
            before.memory, spec.memory
        ));
    }
    // These are long, and the extended run contains them.
    before.life = None;
    before.prior = None;
    header.extensions.push(RunExtension {
        unix_s: unix_seconds(),
        tool_version: request.tool_version.to_owned(),
        kernel: facts.kernel.clone(),
        trials,
        before,
    });
    header.catalog = Some(CatalogUsed::of(spec, spec.catalog_dir.as_deref())?);
    Ok(())
}

fn has(choices: &[ChoiceNames], filesystem: &str) -> bool {
    choices.iter().any(|choices| choices.filesystem == filesystem)
}

/// What is tried of a file system: what was tried before, and the options that were added.
fn merged(header: &RunHeader, spec: &RunSpec, new: ChoiceNames) -> ChoiceNames {
    let known = header.choices.iter().find(|old| old.filesystem == new.filesystem);
    let Some(mut old) = known.cloned() else { return new };
    let included = |spec: &RunSpec, option: &String| {
        let choice = spec.options.get(&old.filesystem);
        choice.is_some_and(|choice| choice.include.contains(option))
    };
    let is_added = |option: &String| included(spec, option) && !included(&header.spec, option);
    let added: Vec<String> = new.free.into_iter().filter(is_added).collect();
    old.free.retain(|option| !added.contains(option));
    old.free.extend(added);
    old
}
