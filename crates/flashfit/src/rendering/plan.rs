//! Plans as text: each number with its reason, each command ready to be copied.

use std::fmt::Write;

use flashfit_device::Bytes;
use flashfit_filesystem::filesystem::BASE;
use flashfit_filesystem::plan::{
    Plan, PlanStanding, PlannedCommand, PlannedDevice, PlannedGeometry,
};
use flashfit_filesystem::{Durability, PartitionTable, Risk};
use flashfit_geometry::Sourced;
use flashfit_host::path_text::to_text;
use flashfit_host::program::{quote, quote_path};
use flashfit_report::text::{fold_command, plain, plain_command, wrap};

use super::plan_list::PlanList;

const NAME_COLUMNS: usize = 20;
/// The file of a plan in commands that are suggested.
const PLAN_FILE: &str = "plan.json";

/// The suggested plan and a line for each other one, or `all` plans, for a terminal of `width`
/// columns.
pub fn text(found: &PlanList, all: bool, width: usize) -> String {
    let mut page = Page { text: String::new(), width };
    if let Some(refusal) = &found.refusal {
        page.paragraph("", refusal);
        page.text.push('\n');
    }
    if let Some(first) = found.plans.first() {
        page.device(&found.target, &first.device, &first.geometry);
    }
    let suggested = found.standings.first().filter(|_| found.plans.len() > 1);
    if let Some(suggested) = suggested {
        page.suggestion(suggested);
    }
    let is_shown =
        |plan: &&Plan| all || suggested.is_none_or(|first| first.filesystem == plan.filesystem());
    for plan in found.plans.iter().filter(is_shown) {
        page.plan(plan, found);
    }
    if suggested.is_some() && !all {
        page.alternatives(found);
    }
    if !found.others.is_empty() && (all || suggested.is_none()) {
        page.head("Not planned:");
        for other in &found.others {
            page.fact(&other.filesystem, &other.reason);
        }
    }
    if !found.notes.is_empty() {
        page.head("Notes:");
        for note in &found.notes {
            page.paragraph("  ", note);
        }
    }
    page.text.push('\n');
    if let Some(path) = &found.written {
        page.paragraph("", &format!("Written: {}", to_text(path)));
    }
    page.how_to_apply(found);
    if found.written.is_none() {
        page.paragraph("", "Nothing was written: these are plans.");
    }
    page.text
}

struct Page {
    text: String,
    width: usize,
}

impl Page {
    fn head(&mut self, text: &str) {
        writeln!(self.text, "\n{}", plain(text)).expect("a string takes any text");
    }

    fn paragraph(&mut self, indent: &str, text: &str) {
        for line in wrap(&plain(text), self.width.saturating_sub(indent.len())) {
            writeln!(self.text, "{indent}{line}").expect("a string takes any text");
        }
    }

    /// A name and its description, wrapped in a second column.
    fn fact(&mut self, name: &str, text: &str) {
        let text = plain(text);
        let lines = wrap(&text, self.width.saturating_sub(NAME_COLUMNS + 3));
        for (index, line) in lines.iter().enumerate() {
            let name = if index == 0 { plain(name) } else { String::new() };
            writeln!(self.text, "  {name:<NAME_COLUMNS$} {line}").expect("a string takes any text");
        }
    }

    fn device(&mut self, target: &str, device: &PlannedDevice, geometry: &PlannedGeometry) {
        let size = Bytes(device.capacity_bytes);
        let line = format!(
            "{}: {}, {}, {size} ({}), sectors of {} bytes",
            target,
            device.kind,
            device.identity.summary(),
            size.si(),
            device.sector_bytes
        );
        self.paragraph("", &line);
        self.fact("erase block", &known(geometry.used.erase_block.as_ref(), "--erase-block"));
        self.fact("write unit", &known(geometry.used.write_unit.as_ref(), "--write-unit"));
    }

    fn suggestion(&mut self, suggested: &PlanStanding) {
        self.head(&format!("Suggested: {}", suggested.filesystem));
        if !suggested.in_kernel {
            self.paragraph("  ", "None of these file systems is in the kernel of this machine.");
        }
        if !suggested.why.is_empty() {
            self.paragraph("  ", &format!("Why: {}. Its speed was not measured.", suggested.why));
        }
    }

    /// How the first plan is carried out.
    fn how_to_apply(&mut self, found: &PlanList) {
        let is_device = found.refusal.is_none() && !found.target.starts_with("sim:");
        let Some(first) = found.standings.first().filter(|_| is_device) else {
            return;
        };
        let (target, filesystem) = (quote(&found.target), &first.filesystem);
        self.text.push_str("To set it up (ERASES it):\n");
        let file = found.written.as_deref().map(quote_path);
        if file.is_none() {
            self.plan_again(found, filesystem, &["--output", PLAN_FILE]);
        }
        let file = file.as_deref().unwrap_or(PLAN_FILE);
        self.line(&format!("flashfit apply {file} {target}"));
    }

    /// The command for one of the plans, with what else was asked for.
    fn plan_again(&mut self, found: &PlanList, filesystem: &str, more: &[&str]) {
        let target = quote(&found.target);
        let mut words: Vec<String> =
            ["flashfit", "plan", &target, "--fs", filesystem].map(str::to_owned).into();
        words.extend_from_slice(&found.arguments);
        words.extend(more.iter().map(|&word| word.to_owned()));
        self.words(&words);
    }

    fn alternatives(&mut self, found: &PlanList) {
        self.head("Other plans:");
        for other in &found.standings[1..] {
            let lacking = if other.in_kernel { "" } else { "not in this kernel; " };
            self.fact(&other.filesystem, &format!("{lacking}{}", other.why));
        }
        let names: Vec<&str> = found.others.iter().map(|other| other.filesystem.as_str()).collect();
        if !names.is_empty() {
            let names = names.join(", ");
            self.paragraph("  ", &format!("{names}: only if named with --fs; --all says why"));
        }
        let target = quote(&found.target);
        self.plan_again(found, &found.standings[1].filesystem, &[]);
        self.line(&format!("flashfit tune {target} --dry-run   # measures which is fastest"));
    }

    fn plan(&mut self, plan: &Plan, found: &PlanList) {
        match &plan.choices.image {
            None => self.head(&format!("=== {} ===", plan.setup)),
            Some(image) => self.head(&format!(
                "=== {} {} on {} ===",
                image.filesystem,
                image.options_label(),
                plan.setup
            )),
        }
        let table = if plan.table == PartitionTable::None { "no table" } else { plan.table.name() };
        self.fact("table", &format!("{table}: {}", plan.table_reason));
        for partition in &plan.partitions {
            let sector = plan.device.sector_bytes;
            let place = format!(
                "start {} (sector {}), size {} ({} sectors), type {}: {}",
                Bytes(partition.start_bytes),
                partition.start_bytes / sector,
                Bytes(partition.size_bytes),
                partition.size_bytes / sector,
                partition.kind,
                partition.reason
            );
            self.fact(&format!("partition {}", partition.number), &place);
        }
        if let Some(label) = &plan.choices.label {
            self.fact("label", label);
        }
        for number in &plan.numbers {
            self.fact(&number.name, &format!("{}: {}", number.value, number.reason));
        }
        let lost = Bytes(plan.lost_bytes);
        self.fact("lost space", &format!("{lost}: {}", plan.lost_reason));
        self.fact("freed space", &plan.trim.reason);
        if let Some(layers) = &plan.layers {
            self.fact("image", &layers.image_reason);
            for setting in &layers.settings {
                self.fact(&setting.name, &format!("{}: {}", setting.value, setting.reason));
            }
        }
        let has_exceptions = found.with_exceptions.contains(plan.filesystem());
        self.fact("at a power cut", &power_cut(plan, has_exceptions));
        if let Some(life) = found.lives.text(plan) {
            self.fact("life of the device", &life);
        }
        for warning in &plan.warnings {
            self.fact("warning", warning);
        }
        self.head("  Commands:");
        for command in plan.all_commands() {
            self.command(command);
        }
        if let Some(layers) = &plan.layers {
            self.steps(&layers.commands);
        }
        self.aside(plan);
        if let Some(layers) = &plan.layers {
            self.head("  To include later changes in the image, and empty the writable layer:");
            self.paragraph("  ", &layers.renewal_note);
            self.steps(&layers.renewal);
        }
    }

    fn steps(&mut self, steps: &[PlannedCommand]) {
        for step in steps {
            self.paragraph("  # ", &step.purpose);
            self.words(&step.words());
        }
    }

    fn command(&mut self, command: &PlannedCommand) {
        let writes = if command.writes { " (erases what is there)" } else { "" };
        self.paragraph("  # ", &format!("{}{writes}", command.purpose));
        self.words(&command.words());
    }

    /// What goes into the system's configuration.
    fn aside(&mut self, plan: &Plan) {
        let more = plan.layers.as_ref().map_or(&[][..], |layers| &layers.fstab_lines);
        let second = plan.second.as_ref().map(|second| &second.fstab_line);
        let lines = if more.is_empty() && second.is_none() { "a line" } else { "lines" };
        self.paragraph("  # ", &format!("{lines} for /etc/fstab"));
        self.line(&plan.fstab_line);
        for line in more.iter().chain(second) {
            self.line(line);
        }
        self.paragraph("  # ", "a rule for /etc/udev/rules.d/60-flashfit.rules");
        self.words(&plan.udev_rule.split(' ').map(str::to_owned).collect::<Vec<_>>());
        if let Some(parameter) = &plan.kernel_parameter {
            self.paragraph(
                "  # ",
                "instead of the rule, on the command line of kernels before 5.0",
            );
            self.line(parameter);
        }
        if let Some(command) = &plan.trim.command {
            self.paragraph("  # ", "discard free space once a week");
            self.line(command);
        }
    }

    fn line(&mut self, line: &str) {
        writeln!(self.text, "    {}", plain_command(line)).expect("a string takes any text");
    }

    /// Words that may be broken between; a backslash joins the lines for a shell and for udev.
    fn words(&mut self, words: &[String]) {
        for line in fold_command(words, "    ", self.width) {
            writeln!(self.text, "{line}").expect("a string takes any text");
        }
    }
}

fn known(known: Option<&Sourced>, flag: &str) -> String {
    known.map_or_else(
        || format!("not known; {flag} sets it"),
        |known| format!("{}, {}", known.bytes, known.source),
    )
}

/// What follows the rating `safe` of a file system that has a risk all the same.
pub fn exception_of_safe(is_tested: bool) -> &'static str {
    match is_tested {
        true => "but for an exception that crash tests found",
        // All that a file of the user's own may say.
        false => "with an exception",
    }
}

/// What a power cut can do to the setup; `None` where it is safe.
pub fn power_cut_risk(plan: &Plan) -> Option<String> {
    (plan.durability.durability != Durability::Safe).then(|| power_cut(plan, false))
}

fn power_cut(plan: &Plan, has_exceptions: bool) -> String {
    let verdict = &plan.durability;
    let sentence = |risk: &Risk| {
        let of = if risk.option == BASE { &plan.choices.setup.filesystem } else { &risk.option };
        format!("{of}: {}", risk.risk)
    };
    let risks: Vec<String> = verdict.risks.iter().map(sentence).collect();
    let text = match (verdict.durability, risks.is_empty()) {
        (Durability::Safe, true) => "safe: synced data is kept".to_owned(),
        (Durability::Safe, false) => {
            format!("safe, {}. {}", exception_of_safe(has_exceptions), risks.join(" "))
        }
        (durability, _) => format!("{durability}. {}", risks.join(" ")),
    };
    match &plan.layers {
        None => text,
        Some(layers) => format!("{}. {}", text.trim_end_matches('.'), layers.power_cut),
    }
}
