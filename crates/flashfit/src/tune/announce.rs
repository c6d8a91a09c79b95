//! What the user is told before the trials begin.

use std::path::Path;
use std::time::Duration;

use flashfit_filesystem::{Catalogue, Layout, Recipe, Scheduler};
use flashfit_host::Program;
use flashfit_tune::strategy::strategy;
use flashfit_tune::{RunSpec, Space};

use crate::consent::what_is_lost;
use crate::failure::Failure;
use crate::output::{self, note};
use crate::rendering::setup_commands::partitioning_line;
use crate::tune::progress::human;
use crate::tune::space;
use crate::tune::subject::{Subject, What};

/// What is known of how the medium is built, or that nothing is.
pub fn geometry(subject: &Subject) {
    note(&geometry_text(subject));
    note(&format!("layout: {}", subject.layout.reason));
}

fn geometry_text(subject: &Subject) -> String {
    let geometry = &subject.geometry;
    if geometry.is_unknown() {
        return format!(
            "no geometry found: {} declares no erase unit and none was given, so nothing is tuned \
             to it (--erase-unit SIZE gives it)",
            subject.target
        );
    }
    let named = [("erase unit", &geometry.erase_unit), ("write unit", &geometry.write_unit)];
    let known = named.iter().filter_map(|(name, known)| {
        let known = known.as_ref()?;
        Some(format!("{name} {} ({})", known.bytes, known.source))
    });
    format!("geometry: {}", known.collect::<Vec<_>>().join(", "))
}

/// How much is going to be done.
pub fn run(spec: &RunSpec, space: &Space, made: usize, each: Duration, dir: &Path) {
    let (setups, trials) = extent(spec, space);
    let left = trials.saturating_sub(made);
    let most = each * u32::try_from(left).unwrap_or(u32::MAX);
    note(&format!(
        "at most {setups} setups under {}: {trials} trials, no more than {} in all; kept in {}",
        spec.workloads.join(", "),
        human(most),
        dir.display()
    ));
}

/// Setups and trials, at the most.
fn extent(spec: &RunSpec, space: &Space) -> (usize, usize) {
    let setups = strategy(spec.strategy).most_setups(space);
    let count = |number: u32| usize::try_from(number).expect("at least 32 bits");
    let workloads = spec.workloads.len();
    (setups, workloads * (setups * count(spec.repeats) + 3 * count(spec.confirm)))
}

/// Everything that a run would do, with nothing done.
pub fn dry_run(
    spec: &RunSpec,
    subject: &Subject,
    catalogue: &Catalogue,
    dir: &Path,
) -> Result<(), Failure> {
    let default = Scheduler::new("none");
    let built = space::build(
        spec,
        catalogue,
        &subject.conditions,
        &subject.schedulers,
        subject.schedulers.first().unwrap_or(&default),
        subject.filesystem_size(),
    )?;
    let mut lines = Vec::new();
    match &subject.what {
        What::Medium(medium) => lines.push(what_is_lost(medium)),
        What::Card(model) => lines.push(format!("A simulated card: {}.", model.title)),
    }
    lines.push(geometry_text(subject));
    lines.push(format!("layout: {}", subject.layout.reason));
    lines.extend(built.notes);
    let (setups, trials) = extent(spec, &built.space);
    lines.push(format!(
        "at most {setups} setups under {} ({trials} trials), kept in {}",
        spec.workloads.join(", "),
        dir.display()
    ));
    lines.push("Every trial does this, here for each file system's first setup:".to_owned());
    lines.extend(commands(subject, &built.space));
    lines.push("Nothing was changed.".to_owned());
    output::print(&(lines.join("\n") + "\n"))
}

fn commands(subject: &Subject, space: &Space) -> Vec<String> {
    let node = subject.target.path().unwrap_or(Path::new("/dev/loopN")).to_owned();
    let mut lines = Vec::new();
    lines.extend(partitioning_line(&subject.layout.layout, &node).map(|line| format!("  {line}")));
    let place = match subject.layout.layout {
        Layout::WholeMedium => node,
        Layout::Partition { .. } => subject.layout.layout.node(&node),
    };
    for choices in &space.choices {
        let first = choices.over_schedulers(&[]).into_iter().next();
        let recipe = first
            .and_then(|setup| Recipe::new(&choices.filesystem, &setup, &choices.conditions).ok());
        let Some(recipe) = recipe else { continue };
        if choices.conditions.discard {
            let discard =
                Program::new("blkdiscard").arg("--force").arg(place.display().to_string());
            lines.push(format!("  {}", discard.command_line()));
        }
        lines.push(format!("  {}", recipe.mkfs(&place).command_line()));
        lines.push(format!("  {}", recipe.mount(&place, Path::new("MOUNT_DIR")).command_line()));
        lines.push("  fio, umount".to_owned());
    }
    lines
}
