//! The flags and commands that hints of other crates refer to.

use std::path::Path;

use flashfit_host::program::quote;
use flashfit_user_error::{Hint, HintPart, Setting, Task};

/// A hint as the user can type it.
pub fn text(hint: &Hint) -> String {
    hint.parts().iter().map(part).collect()
}

fn part(part: &HintPart) -> String {
    match part {
        HintPart::Text(text) => text.clone(),
        HintPart::Setting(setting) => flag(*setting).to_owned(),
        HintPart::Task(task) => command(task),
    }
}

fn flag(setting: Setting) -> &'static str {
    match setting {
        Setting::Backup => "--backup",
        Setting::Confirm => "--confirm",
        Setting::DataSize => "--data-size",
        Setting::EraseBlock => "--erase-block",
        Setting::Fill => "--fill",
        Setting::Memory => "--memory",
        Setting::Scheduler => "--scheduler",
        Setting::Start => "--start",
        Setting::State => "--state",
        Setting::TestBed => "--on",
        Setting::VmDisk => "--vm-disk",
        Setting::VmKernel => "--vm-kernel",
        Setting::VmSpeed => "--vm-speed-mips",
    }
}

fn command(task: &Task) -> String {
    let path = |path: &Path| quote(&path.display().to_string());
    match task {
        Task::Any => "flashfit ...".to_owned(),
        Task::ListDevices => "flashfit list".to_owned(),
        Task::ListCards => "flashfit card list".to_owned(),
        Task::Inspect(None) => "flashfit inspect DEVICE".to_owned(),
        Task::Inspect(Some(device)) => format!("flashfit inspect {}", path(device)),
        Task::Plan => "flashfit plan".to_owned(),
        Task::WritePlan => "flashfit plan TARGET --fs NAME --output FILE".to_owned(),
        Task::ProbeOptions => "flashfit options".to_owned(),
        Task::Resume => "flashfit tune --resume DIR".to_owned(),
        Task::PowerOn => "flashfit card power-on".to_owned(),
        Task::EndAgent(folder) => format!("flashfit agent --folder {} --end", path(folder)),
    }
}
