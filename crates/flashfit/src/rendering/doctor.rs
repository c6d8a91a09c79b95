//! Which test beds work, and what is missing for the others.

use flashfit_report::text::{fold_command, wrap};
use flashfit_vm::doctor::{DoctorFinding, Examination};
use flashfit_vm::modules::ModulePresence;
use schemars::JsonSchema;
use serde::Serialize;

use crate::output;

#[derive(JsonSchema, Serialize)]
pub struct DoctorDocument {
    pub here: HereDocument,
    pub vm: VmDocument,
    pub ssh: DoctorFinding,
    pub lab: DoctorFinding,
}

#[derive(JsonSchema, Serialize)]
pub struct HereDocument {
    /// Why devices cannot be mounted; nothing where they can.
    pub lacks_for_media: Option<String>,
    /// Why simulated cards cannot be attached; nothing where they can.
    pub lacks_for_simulated_cards: Option<String>,
    /// Which programs are missing so that no trial can be made; nothing where one can.
    pub lacks_programs: Option<String>,
    /// The programs for trials. Those that make file systems are each for one of them.
    pub programs: Vec<(String, DoctorFinding)>,
    /// Installs the missing ones.
    pub install: Option<String>,
}

#[derive(JsonSchema, Serialize)]
pub struct VmDocument {
    pub can_start: bool,
    pub install: Option<String>,
    #[serde(flatten)]
    pub examination: Examination,
}

pub fn text(document: &DoctorDocument) -> String {
    let mut lines = Vec::new();
    here(&document.here, &mut lines);
    machine(&document.vm, &mut lines);
    lines.push(match &document.ssh {
        DoctorFinding::Here { what } => {
            format!(
                "ssh:HOST (a board): there is {what}; the board needs fio and its mkfs programs."
            )
        }
        DoctorFinding::Missing { why, .. } => format!("ssh:HOST (a board): no, {why}."),
    });
    lines.extend(hint(&document.ssh));
    lines.push(match &document.lab {
        DoctorFinding::Here { what } => format!("lab:TAGS (boards of a lab): {what}."),
        DoctorFinding::Missing { why, .. } => {
            format!("lab:TAGS (boards of a lab): no, {}.", brief(why))
        }
    });
    lines.extend(hint(&document.lab));
    lines.join("\n")
}

fn here(here: &HereDocument, lines: &mut Vec<String>) {
    let lacks = here.lacks_for_media.as_ref().or(here.lacks_programs.as_ref());
    lines.push(match (lacks, &here.lacks_for_simulated_cards) {
        (None, None) => "here (this kernel): yes.".to_owned(),
        (Some(reason), _) => format!("here (this kernel): no, {reason}."),
        (None, Some(reason)) => {
            format!("here (this kernel): yes, but without simulated cards: {reason}.")
        }
    });
    if here.lacks_for_media.is_some() {
        lines.push("  run flashfit as root".to_owned());
    }
    missing_programs(&here.programs, lines);
    lines.extend(here.install.as_ref().map(|line| format!("  {line}")));
}

fn missing_programs(programs: &[(String, DoctorFinding)], lines: &mut Vec<String>) {
    let missing = programs.iter().filter(|(_, finding)| !finding.is_here());
    let missing: Vec<&str> = missing.map(|(name, _)| name.as_str()).collect();
    if !missing.is_empty() {
        push_fact(lines, "programs", &format!("missing: {}", missing.join(", ")));
    }
    // What helps besides installing them: they may be where root does not search.
    let hints = programs.iter().filter_map(|(_, finding)| match finding {
        DoctorFinding::Missing { hint, .. } => hint.as_deref(),
        DoctorFinding::Here { .. } => None,
    });
    let mut other = hints.filter(|hint| !hint.starts_with("apt-get "));
    // One for all: they differ only in the program.
    if let Some(text) = other.next() {
        lines.extend(
            wrap(text, output::width().saturating_sub(2)).iter().map(|line| format!("  {line}")),
        );
    }
}

fn machine(vm: &VmDocument, lines: &mut Vec<String>) {
    let found = &vm.examination;
    let answer = match vm.can_start {
        true => "yes",
        false if found.can_start_after_download() => "yes, a kernel is downloaded at the first use",
        false => "not yet",
    };
    lines.push(format!("vm (a virtual machine; needs no root): {answer}."));
    let parts = [
        ("QEMU", &found.qemu),
        ("busybox", &found.busybox),
        ("kernel", &found.kernel),
        ("KVM", &found.kvm),
    ];
    for (name, finding) in parts {
        let text = match finding {
            DoctorFinding::Here { what } => what.clone(),
            DoctorFinding::Missing { why, .. } if name == "KVM" => {
                format!("not used, guests are emulated: {}", brief(why))
            }
            DoctorFinding::Missing { why, .. } => format!("missing: {}", brief(why)),
        };
        push_fact(lines, name, &text);
    }
    let lacking: Vec<&str> = found
        .modules
        .iter()
        .filter(|(_, presence)| *presence == ModulePresence::Lacking)
        .map(|(name, _)| name.as_str())
        .collect();
    if !lacking.is_empty() {
        push_fact(lines, "lacking", &format!("in that kernel: {}", lacking.join(", ")));
    }
    missing_programs(&found.programs, lines);
    lines.extend(vm.install.as_ref().map(|line| format!("  {line}")));
}

/// A name and what was found, which is wrapped within its column.
fn push_fact(lines: &mut Vec<String>, name: &str, text: &str) {
    let mut name = name;
    for part in wrap(text, output::width().saturating_sub(11)) {
        lines.push(format!("  {name:<8} {part}"));
        name = "";
    }
}

/// What helps: a command, or a sentence.
fn hint(finding: &DoctorFinding) -> Vec<String> {
    let DoctorFinding::Missing { hint: Some(hint), .. } = finding else { return Vec::new() };
    if hint.contains(" && ") {
        let words: Vec<String> = hint.split(' ').map(str::to_owned).collect();
        return fold_command(&words, "  ", output::width());
    }
    let lines = wrap(hint, output::width().saturating_sub(2));
    lines.into_iter().map(|line| format!("  {line}")).collect()
}

/// The first line of a reason.
fn brief(why: &str) -> &str {
    why.lines().next().unwrap_or_default()
}
