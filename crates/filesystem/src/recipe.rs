//! The commands that create a setup, as [`Program`]s for both printing and running.

use std::path::Path;

use flashfit_host::Program;

use crate::conditions::Conditions;
use crate::filesystem::{FileSystem, FilledOption, Tool, TrialOptions};
use crate::setup::{Setup, SetupError};

/// A setup's commands, for any node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    kind: String,
    mkfs: Tool,
    /// Whether the program of `mkfs` takes a folder and the image before its flags.
    from_folder: bool,
    tune: Vec<Tool>,
    mount_options: Vec<String>,
    sysctl: Vec<(String, String)>,
    sysfs: Vec<(String, String)>,
    timers: Vec<String>,
    fsck: Tool,
    repair: Option<Tool>,
    fsck_pass: u8,
}

impl Recipe {
    /// The commands for `setup` on a device with these conditions.
    ///
    /// # Errors
    /// When the setup is not possible there, see [`SetupError`].
    pub fn new(
        filesystem: &FileSystem,
        setup: &Setup,
        conditions: &Conditions,
    ) -> Result<Self, SetupError> {
        Self::with(filesystem, setup, conditions, &TrialOptions::default())
    }

    /// The same commands with the additional settings of trials.
    ///
    /// # Errors
    /// As [`Recipe::new`].
    pub fn for_trial(
        filesystem: &FileSystem,
        setup: &Setup,
        conditions: &Conditions,
    ) -> Result<Self, SetupError> {
        Self::with(filesystem, setup, conditions, &filesystem.trial)
    }

    /// The same commands with the additional settings of tests of power cuts.
    ///
    /// # Errors
    /// As [`Recipe::new`].
    pub fn for_crash(
        filesystem: &FileSystem,
        setup: &Setup,
        conditions: &Conditions,
    ) -> Result<Self, SetupError> {
        Self::with(filesystem, setup, conditions, &filesystem.crash)
    }

    /// The same commands with these additional settings.
    ///
    /// # Errors
    /// As [`Recipe::new`].
    pub fn with(
        filesystem: &FileSystem,
        setup: &Setup,
        conditions: &Conditions,
        trial: &TrialOptions,
    ) -> Result<Self, SetupError> {
        let mut filled = Vec::new();
        let options = setup.checked_options(filesystem, conditions)?;
        for option in &options {
            let fill = option.filled(filesystem.block_bytes, conditions);
            filled.push(fill.map_err(|unfit| SetupError::Unusable {
                filesystem: filesystem.name.clone(),
                option: option.name.clone(),
                reason: unfit.to_string(),
            })?);
        }
        Ok(Self {
            kind: filesystem.kind.clone(),
            mkfs: mkfs(filesystem, trial, &filled),
            from_folder: filesystem.mkfs.from_folder,
            tune: tune(filesystem, &filled),
            sysctl: filled.iter().flat_map(|option| option.sysctl.clone()).collect(),
            sysfs: filled.iter().flat_map(|option| option.sysfs.clone()).collect(),
            timers: options.iter().filter_map(|option| option.timer.clone()).collect(),
            mount_options: trial
                .mount
                .iter()
                .cloned()
                .chain(filled.into_iter().flat_map(|option| option.mount))
                .collect(),
            fsck: filesystem.fsck.tool.clone(),
            repair: filesystem.fsck.repair.clone(),
            fsck_pass: filesystem.fsck.pass,
        })
    }

    /// The same with a label, by the flag of the file system's mkfs.
    #[must_use]
    pub fn labeled(mut self, flag: &str, label: &str) -> Self {
        self.mkfs.args.extend([flag.to_owned(), label.to_owned()]);
        self
    }

    /// The same for a whole device, without a partition table.
    #[must_use]
    pub fn on_whole_device(mut self, filesystem: &FileSystem) -> Self {
        self.mkfs.args.extend(filesystem.mkfs.whole_device_args.iter().cloned());
        self
    }

    /// What mount(8) calls the file system.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The arguments of mkfs before the node.
    pub(crate) fn mkfs_args(&self) -> &[String] {
        &self.mkfs.args
    }

    /// Makes the file system; everything on `node` is lost. Where it packs a folder, that is one
    /// called `FOLDER`, for the user to replace; see [`Recipe::pack`].
    pub fn mkfs(&self, node: &Path) -> Program {
        if self.from_folder { self.pack(Path::new("FOLDER"), node) } else { on(&self.mkfs, node) }
    }

    /// Packs `folder` into the image `image`, for a file system that is made so.
    pub fn pack(&self, folder: &Path, image: &Path) -> Program {
        let places = [folder, image].map(|path| path.display().to_string());
        Program::new(&self.mkfs.program).args(places).args(&self.mkfs.args)
    }

    /// Changes it afterwards, in this order; often nothing.
    pub fn tune(&self, node: &Path) -> Vec<Program> {
        self.tune.iter().map(|tool| on(tool, node)).collect()
    }

    /// The options to mount it with; may be empty.
    pub fn mount_options(&self) -> &[String] {
        &self.mount_options
    }

    /// What is set by sysctl(8), key and value: of the whole machine.
    pub fn sysctl(&self) -> &[(String, String)] {
        &self.sysctl
    }

    /// What is written below `/sys/block/DISK/`, path and value.
    pub fn sysfs(&self) -> &[(String, String)] {
        &self.sysfs
    }

    /// Timers of systemd that are enabled.
    pub fn timers(&self) -> &[String] {
        &self.timers
    }

    /// Mounts it, as a user would type it; trials mount through [`flashfit_host::mount`].
    pub fn mount(&self, node: &Path, mount_point: &Path) -> Program {
        let mut program = Program::new("mount").args(["-t", &self.kind]);
        if !self.mount_options.is_empty() {
            program = program.arg("-o").arg(self.mount_options.join(","));
        }
        program.arg(node).arg(mount_point)
    }

    /// Checks it without changing it; an exit code of 0 means sound. It must not be mounted, and
    /// after a cut it must have been mounted once, so that its journal is replayed.
    pub fn fsck(&self, node: &Path) -> Program {
        on(&self.fsck, node)
    }

    /// Repairs it without asking; `None` where no program does. It must not be mounted.
    pub fn repair(&self, node: &Path) -> Option<Program> {
        self.repair.as_ref().map(|tool| on(tool, node))
    }

    /// The line for fstab(5); `device_spec` is a node or `UUID=…`.
    pub fn fstab_line(&self, device_spec: &str, mount_point: &Path) -> String {
        let options = if self.mount_options.is_empty() {
            "defaults".to_owned()
        } else {
            self.mount_options.join(",")
        };
        let point = escape(&mount_point.display().to_string());
        format!("{} {point} {} {options} 0 {}", escape(device_spec), self.kind, self.fsck_pass)
    }

    /// The line as it is installed: a card that is not in does not stop the start. The root file
    /// system is needed to start, and is checked first.
    pub fn installed_line(&self, device_spec: &str, mount_point: &Path) -> String {
        let line = self.fstab_line(device_spec, mount_point);
        let mut fields: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match (mount_point == Path::new("/"), fields.as_mut_slice()) {
            (false, [_, _, _, options, ..]) => options.push_str(",nofail"),
            (true, [.., pass]) if pass != "0" => "1".clone_into(pass),
            _ => {}
        }
        fields.join(" ")
    }
}

fn on(tool: &Tool, node: &Path) -> Program {
    Program::new(&tool.program).args(&tool.args).arg(node)
}

/// fstab(5) has its fields divided by blanks and writes those inside a field as octal escapes.
pub fn escape(field: &str) -> String {
    let mut escaped = String::with_capacity(field.len());
    for c in field.chars() {
        match c {
            ' ' | '\t' | '\n' | '\\' => escaped.push_str(&format!("\\{:03o}", u32::from(c))),
            _ => escaped.push(c),
        }
    }
    escaped
}

fn mkfs(filesystem: &FileSystem, trial: &TrialOptions, options: &[FilledOption]) -> Tool {
    let mut flags = filesystem.mkfs.flags.clone();
    // A program that is given one flag several times obeys the last only, so the values are joined.
    for (flag, values) in trial.flags.iter().chain(options.iter().flat_map(|option| &option.mkfs)) {
        match flags.iter_mut().find(|(known, _)| known == flag) {
            Some((_, joined)) => joined.extend(values.iter().cloned()),
            None => flags.push((flag.clone(), values.clone())),
        }
    }
    let mut args = filesystem.mkfs.tool.args.clone();
    for (flag, values) in flags {
        args.push(flag);
        if !values.is_empty() {
            args.push(values.join(","));
        }
    }
    Tool { program: filesystem.mkfs.tool.program.clone(), args }
}

fn tune(filesystem: &FileSystem, options: &[FilledOption]) -> Vec<Tool> {
    let Some(tool) = &filesystem.tune else { return Vec::new() };
    let with = |option: &FilledOption| Tool {
        program: tool.program.clone(),
        args: tool.args.iter().chain(&option.tune).cloned().collect(),
    };
    options.iter().filter(|option| !option.tune.is_empty()).map(with).collect()
}
