//! What a run would do, and on what.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_bench::{Workload, estimate_ns};
use flashfit_check::rated_or_assumed_erases;
use flashfit_device::{Bytes, Target};
use flashfit_filesystem::{FileSystemCatalog, Layers, PartitionLayout, Recipe, Setup};
use flashfit_host::Program;
use flashfit_host::path_text::to_text;
use flashfit_report::text::{fold_command, wrap};
use flashfit_target::TargetSource;
use flashfit_testbed::TestBedSpec;
use flashfit_tune::driver::SearchDriver;
use flashfit_tune::forecast::{Forecast, Shortfall};
use flashfit_tune::run::{RunPreview, RunRequest, TrialTarget};
use flashfit_tune::starts;
use flashfit_tune::{
    DriverRules, FileSystemChoices, Percent, Problem, RunSpec, Space, StrategyKind,
};
use flashfit_wear::device_life::ASSUMED_AMPLIFICATION;

use crate::consent::{what_is_lost, would_be_refused};
use crate::rendering::price::rated_text;
use crate::rendering::setup_commands::partitioning;
use crate::rendering::{duration, prior, two_digits};
use crate::test_beds;
use crate::test_beds::args::lacking_here;

/// A placeholder for the loop device that an image or a card will get, and for its partition.
const LOOP: &str = "/dev/loopN";
pub const LOOP_PARTITION: &str = "/dev/loopNp1";
pub const LOOP_SECOND: &str = "/dev/loopNp2";

/// The geometry of the device, or that it is unknown.
pub fn geometry_text(subject: &TrialTarget) -> String {
    let geometry = &subject.geometry;
    if geometry.is_unknown() {
        return format!(
            "no geometry found: {} declares no erase block and none was given, so no option is \
             adapted to it (--erase-block SIZE sets it)",
            subject.inspected.target
        );
    }
    let named = [("erase block", &geometry.erase_block), ("write unit", &geometry.write_unit)];
    let known = named.iter().filter_map(|(name, known)| {
        let known = known.as_ref()?;
        Some(format!("{name} {} ({})", known.bytes, known.source))
    });
    format!("geometry: {}", known.collect::<Vec<_>>().join(", "))
}

/// `expected: 1 to 30 min of trials (20 to 900 trials), 0.5 to 20 GiB written, 0.1 to 2 % of the
/// life of the device (...)`.
pub fn forecast_text(request: RunRequest<'_>, subject: &TrialTarget) -> String {
    let RunRequest { spec, catalogs, .. } = request;
    let capacity = subject.inspected.capacity();
    let rated = rated_or_assumed_erases(&subject.inspected);
    let Some(found) = Forecast::of(spec, &catalogs.workloads, capacity.0, rated.0) else {
        return "expected: nothing limits this run; --budget 30min does".to_owned();
    };
    let time = |ns: &u64| duration(Duration::from_nanos(*ns));
    let life = |thousandths: &u64| two_digits(*thousandths as f64 / 1000.0);
    let trials = match (found.trials.start(), found.trials.end()) {
        (fewest, most) if fewest == most => most.to_string(),
        (fewest, most) => format!("{fewest} to {most}"),
    };
    // Other strategies make full-length trials only.
    let short = match spec.strategy {
        StrategyKind::Adaptive => ", a short one counts as a fraction",
        _ => "",
    };
    let expected = format!(
        "expected: {} to {} of trials ({trials} of them{short}), {} to {} written, {} to {} % of the \
         device's life ({} erase block, and {ASSUMED_AMPLIFICATION} bytes programmed for 1 written)",
        time(found.time_ns.start()),
        time(found.time_ns.end()),
        Bytes(*found.written_bytes.start()),
        Bytes(*found.written_bytes.end()),
        life(found.life.start()),
        life(found.life.end()),
        rated_text(rated),
    );
    match &found.shortfall {
        Some(shortfall) => format!("{expected}\n{}", shortfall_text(shortfall)),
        None => expected,
    }
}

/// That the limits are too small to confirm an answer, and which ones would do.
fn shortfall_text(found: &Shortfall) -> String {
    const MINUTE_NS: u64 = 60_000_000_000;
    let limits = [
        found.budget_ns.map(|ns| format!("--budget {}min", ns.div_ceil(MINUTE_NS))),
        found.max_write_bytes.map(|bytes| format!("--max-write {}MiB", bytes.div_ceil(1 << 20))),
        found.max_trials.map(|trials| format!("--trials {trials}")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    let how = if found.is_certain { "are too small" } else { "may be too small on a slow device" };
    format!(
        "note: the limits {how} to confirm an answer, which takes at least {} trials; enough for \
         that: {}",
        found.trials,
        limits.join(" ")
    )
}

/// How much there is to try, and how far the search will go.
pub fn extent(spec: &RunSpec, problem: &Problem) -> String {
    let rules = DriverRules::of(spec);
    let most = SearchDriver::new(problem, &rules).max_trials(&[], &[]);
    let setups = problem.setups.len();
    let end = match spec.strategy {
        StrategyKind::Adaptive => format!(
            "until one is within {} of the best with 90 % chance",
            Percent(spec.limits.within_hundredths)
        ),
        _ => format!("at most {:.0} trials", most.ceil()),
    };
    format!("{setups} setups, {end}; limits: {}", spec.limits.describe())
}

/// The commands of the user's workloads, which trials run.
pub fn workload_commands(workloads: &[Workload]) -> Vec<String> {
    let of = |workload: &Workload| {
        let commands: Vec<String> =
            workload.commands().map(|text| format!("`{}`", text.trim())).collect();
        let (name, origin) = (&workload.name, &workload.origin);
        let text = format!("{name} runs, from {origin}: {}", commands.join(", "));
        text.replace('\n', "; ")
    };
    workloads.iter().filter(|found| found.commands().next().is_some()).map(of).collect()
}

/// Where the trials are made. A dry run needs no rights: this machine may be unable to make them.
fn whereabouts(spec: &RunSpec) -> String {
    match lacking_here(&spec.target).filter(|_| spec.on == TestBedSpec::Here) {
        Some(reason) => format!(
            "Trials cannot be made here: {reason}. Without --on here, they are made in a virtual \
             machine. What follows is for the kernel of this machine; add --on vm to see it for \
             that of the virtual one."
        ),
        None => format!("Trials are made {}.", test_beds::description(&spec.on)),
    }
}

/// Everything that a run would do, with nothing done.
pub fn text(request: RunRequest<'_>, preview: &RunPreview, width: usize) -> String {
    let RunRequest { spec, dir, catalogs, .. } = request;
    let RunPreview { target: subject, space: built } = preview;
    let mut lines = Vec::new();
    match &subject.inspected.source {
        TargetSource::Device(device) => {
            lines.extend(would_be_refused(device));
            lines.push(what_is_lost(device));
        }
        TargetSource::Card(model) => lines.push(format!("A simulated card: {}.", model.title)),
    }
    lines.push(whereabouts(spec));
    lines.push(geometry_text(subject));
    lines.extend(subject.disagreements.iter().cloned());
    lines.push(format!("layout: {}", subject.layout.reason));
    lines.extend(built.notes.iter().cloned());
    lines.extend(spec.prior.as_ref().map(prior::prior_text));
    lines.push(format!(
        "{}; under {}; kept in {}",
        extent(spec, &built.problem),
        spec.workloads.join(", "),
        to_text(dir)
    ));
    lines.push(format!(
        "a trial may take {} on a device of 1 MiB/s, less on a faster one",
        duration(longest_trial(spec, &catalogs.workloads, subject.inspected.capacity()))
    ));
    lines.push(forecast_text(request, subject));
    lines.extend(workload_commands(&catalogs.workloads));
    lines.push("Every trial does this, here for each file system's first setup:".to_owned());
    lines.extend(commands(subject, (&built.space, &catalogs.filesystems), width));
    lines.push("Nothing was changed.".to_owned());
    wrapped(&lines.join("\n"), width)
}

/// Breaks prose to the width of the terminal; commands are folded before.
pub fn wrapped(lines: &str, width: usize) -> String {
    let mut text = String::new();
    for line in lines.lines() {
        let parts = if line.starts_with("  ") { vec![line.to_owned()] } else { wrap(line, width) };
        text.push_str(&(parts.join("\n") + "\n"));
    }
    text
}

/// What the longest of the workloads may take on a slow device.
fn longest_trial(spec: &RunSpec, workloads: &[Workload], capacity: Bytes) -> Duration {
    let plan = spec.run_plan();
    let estimates = workloads.iter().filter_map(|workload| estimate_ns(workload, &plan).ok());
    let kinds = starts::kinds(spec);
    let start_ns = kinds.iter().map(|kind| kind.most_ns(spec.runtime_ns())).max().unwrap_or(0);
    let state_ns = spec.state.slow_ns(capacity.0).saturating_add(start_ns);
    Duration::from_nanos(estimates.max().unwrap_or_default().saturating_add(state_ns))
}

fn commands(
    subject: &TrialTarget,
    (space, catalog): (&Space, &FileSystemCatalog),
    width: usize,
) -> Vec<String> {
    let fold = |words: &[String]| fold_command(words, "  ", width);
    let mut lines = Vec::new();
    let (node, place) = match &subject.inspected.target {
        Target::Node(node) => (node.clone(), subject.layout.layout.node(node)),
        // An image or a card is attached to a free loop device, whose number is not known yet.
        Target::Image(_) | Target::Simulated(_) => {
            let part = matches!(subject.layout.layout, PartitionLayout::Partition { .. });
            (PathBuf::from(LOOP), PathBuf::from(if part { LOOP_PARTITION } else { LOOP }))
        }
    };
    let sector_bytes = subject.inspected.sector_bytes();
    lines.extend(
        partitioning(&subject.layout, &node, sector_bytes, None).iter().flat_map(|it| fold(it)),
    );
    let discards = |choices: &&FileSystemChoices| choices.conditions.discard;
    if space.choices.iter().any(|choices| discards(&choices)) {
        let discard = Program::new("blkdiscard").arg("--force").arg(&place);
        lines.push(format!("  {} (in the first trial)", discard.command_line()));
    }
    for choices in &space.choices {
        let first = choices.over_schedulers(&[]).into_iter().next();
        let recipe = first.and_then(|setup| {
            Recipe::for_trial(&choices.filesystem, &setup, &choices.conditions).ok()
        });
        let Some(recipe) = recipe else { continue };
        if let Some(layered) = layered_commands(choices, &recipe, catalog, &place) {
            lines.extend(layered.iter().flat_map(|program| fold(&program.shell_words())));
            lines.push("  the workload, umount of all three".to_owned());
            continue;
        }
        lines.extend(fold(&recipe.mkfs(&place).shell_words()));
        lines.extend(fold(&recipe.mount(&place, Path::new("MOUNT_DIR")).shell_words()));
        lines.push("  the workload, umount".to_owned());
    }
    lines
}

/// What a trial of an image on a host file system does.
fn layered_commands(
    choices: &FileSystemChoices,
    recipe: &Recipe,
    catalog: &FileSystemCatalog,
    place: &Path,
) -> Option<Vec<Program>> {
    let host = choices.filesystem.layered.as_ref()?.hosts.first()?;
    let host = catalog.filesystem(host).ok()?;
    let scheduler = choices.schedulers.first()?.clone();
    let setup = Setup::new::<&str>(host, [], scheduler, &choices.conditions).ok()?;
    let base = Recipe::for_trial(host, &setup, &choices.conditions).ok()?;
    let mount_dir = Path::new("MOUNT_DIR");
    let layers = Layers::new(&choices.filesystem, mount_dir)?;
    let mut programs = vec![base.mkfs(place), base.mount(place, mount_dir)];
    programs.extend(layers.commands(recipe, Path::new("FOLDER"), &mount_dir.join("whole")));
    Some(programs)
}
