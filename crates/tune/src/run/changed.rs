//! What is not as it was when a run goes on: kernel, programs, definitions of the catalog. Earlier
//! trials and later ones may differ by it, which the run then says.
//!
//! Limits: only the latest state is kept as that of the run; the earlier ones are in its warnings.
//! Programs are not compared for a lab: the run keeps those of one board, and a later board may be
//! another one. All boards of a run have one kernel.

use flashfit_testbed::{TestBedFacts, TestBedSpec};

use crate::spec::{CatalogUsed, RunHeader};

/// What the header of a run with so many trials becomes with the next one, if it continues with
/// other facts than before; `None` if nothing changed. `catalog` is set if its definitions are
/// other ones.
pub fn changed(
    header: &RunHeader,
    facts: &TestBedFacts,
    catalog: Option<CatalogUsed>,
    trials: usize,
) -> Option<RunHeader> {
    if trials == 0 {
        return None;
    }
    let mut now = header.clone();
    let mut warn = |before: &str, after: &str| {
        now.warnings.push(format!(
            "trials 1 to {trials} were made with {before}, later ones with {after}: they may differ"
        ));
    };
    let before = &header.facts;
    let kernel = |facts: &TestBedFacts| format!("Linux {} on {}", facts.kernel, facts.machine);
    if kernel(before) != kernel(facts) {
        warn(&kernel(before), &kernel(facts));
    }
    let is_lab = matches!(header.spec.on, TestBedSpec::Lab { .. });
    for (name, version) in before.programs.iter().filter(|_| !is_lab) {
        if let Some(other) = facts.programs.get(name).filter(|other| *other != version) {
            // Most programs say their name with the version.
            let full = |version: &str| match version.contains(name.as_str()) {
                true => version.to_owned(),
                false => format!("{name} {version}"),
            };
            warn(&full(version), &full(other));
        }
    }
    if catalog.is_some() {
        now.warnings.push(format!(
            "trials 1 to {trials} were made with other definitions of file systems or workloads \
             than later ones: they may differ"
        ));
        now.catalog = catalog;
    }
    if now.warnings.len() == header.warnings.len() {
        return None;
    }
    now.facts.kernel.clone_from(&facts.kernel);
    now.facts.machine.clone_from(&facts.machine);
    if !is_lab {
        now.facts.programs.extend(facts.programs.clone());
    }
    Some(now)
}
