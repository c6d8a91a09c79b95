//! The flags and commands that hints of other crates refer to.

use flashfit_host::program::{quote, quote_path};
use flashfit_user_error::{Hint, HintPart, Task, UserSetting};

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

fn flag(setting: UserSetting) -> &'static str {
    match setting {
        UserSetting::Backup => "--backup",
        UserSetting::Confirm => "--confirm",
        UserSetting::DataSize => "--data-size",
        UserSetting::EraseBlock => "--erase-block",
        UserSetting::Fill => "--fill",
        UserSetting::Memory => "--memory",
        UserSetting::Scheduler => "--scheduler",
        UserSetting::Start => "--start",
        UserSetting::State => "--state",
        UserSetting::TestBed => "--on",
        UserSetting::VmDisk => "--vm-disk",
        UserSetting::VmKernel => "--vm-kernel",
        UserSetting::VmSpeed => "--vm-speed-mips",
    }
}

fn command(task: &Task) -> String {
    let path = quote_path;
    match task {
        Task::Any => "flashfit ...".to_owned(),
        Task::ListDevices => "flashfit list".to_owned(),
        Task::ListDevicesOf(host) => {
            format!("flashfit doctor --on {}", quote(&format!("ssh:{host}")))
        }
        Task::ListCards => "flashfit card list".to_owned(),
        Task::Inspect(None) => "flashfit inspect DEVICE".to_owned(),
        Task::Inspect(Some(device)) => format!("flashfit inspect {}", path(device)),
        Task::Plan => "flashfit plan".to_owned(),
        Task::WritePlan => "flashfit plan TARGET --fs NAME --output FILE".to_owned(),
        Task::ProbeOptions => "flashfit options".to_owned(),
        Task::Resume => "flashfit tune --resume DIR".to_owned(),
        Task::PowerOn(card) => format!("flashfit card power-on {}", path(card)),
        Task::EndAgent(folder) => format!("flashfit agent --folder {} --end", path(folder)),
    }
}
