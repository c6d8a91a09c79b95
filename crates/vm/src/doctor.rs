//! Checks whether this machine has what virtual machines need.

use flashfit_host::private_folder::PrivateFolder;
use flashfit_host::{ProgramError, Runner, program};
use flashfit_user_error::UserError;
use schemars::JsonSchema;
use serde::Serialize;

use crate::architecture;
use crate::kernel::Kernel;
use crate::kvm;
use crate::modules::{ModulePresence, Modules};
use crate::vm;

#[derive(Debug, Clone, Default)]
pub struct DoctorNeeds {
    /// A kernel chosen by the user.
    pub kernel: Option<Kernel>,
    pub modules: Vec<String>,
    /// Programs to copy into the guest.
    pub programs: Vec<String>,
}

#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Examination {
    pub qemu: DoctorFinding,
    /// Provides the shell of the guest's init script.
    pub busybox: DoctorFinding,
    /// The kernel that would be booted.
    pub kernel: DoctorFinding,
    /// Whether a kernel that is missing is downloaded when it is needed.
    pub kernel_is_downloaded: bool,
    /// Optional: without KVM, guests are emulated.
    pub kvm: DoctorFinding,
    /// Where the kernel has each module; empty without a kernel.
    pub modules: Vec<(String, ModulePresence)>,
    pub programs: Vec<(String, DoctorFinding)>,
}

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoctorFinding {
    Here {
        /// Path and version.
        what: String,
    },
    Missing {
        why: String,
        /// A command that installs it.
        hint: Option<String>,
    },
}

impl DoctorFinding {
    pub fn is_here(&self) -> bool {
        matches!(self, Self::Here { .. })
    }

    fn missing(error: &dyn UserError) -> Self {
        Self::Missing {
            why: error.to_string(),
            hint: error.hint().and_then(|hint| hint.text().map(str::to_owned)),
        }
    }
}

impl Examination {
    /// Whether a machine can be started, maybe without some modules and programs.
    pub fn can_start(&self) -> bool {
        [&self.qemu, &self.busybox, &self.kernel].into_iter().all(DoctorFinding::is_here)
    }

    /// Whether the first machine starts after a kernel was downloaded.
    pub fn can_start_after_download(&self) -> bool {
        let programs = self.qemu.is_here() && self.busybox.is_here();
        programs && !self.kernel.is_here() && self.kernel_is_downloaded
    }

    /// One `apt-get` command for everything that is missing and has a package.
    pub fn install_command(&self) -> Option<String> {
        let programs = self.programs.iter().map(|(_, finding)| finding);
        install_command([&self.qemu, &self.busybox, &self.kernel].into_iter().chain(programs))
    }
}

/// One `apt-get` command for everything that is missing and has a package.
pub fn install_command<'a>(
    findings: impl IntoIterator<Item = &'a DoctorFinding>,
) -> Option<String> {
    let hints = findings.into_iter().filter_map(|finding| match finding {
        DoctorFinding::Missing { hint, .. } => hint.as_deref()?.strip_prefix("apt-get install "),
        DoctorFinding::Here { .. } => None,
    });
    let mut packages: Vec<&str> =
        hints.map(|names| names.split(',').next().unwrap_or(names)).collect();
    packages.sort_unstable();
    packages.dedup();
    (!packages.is_empty()).then(|| format!("apt-get install {}", packages.join(" ")))
}

/// Where each of these programs is.
pub fn programs<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<(String, DoctorFinding)> {
    names.into_iter().map(|name| (name.clone(), found(name))).collect()
}

/// Checks all of `needs`. Downloads nothing: a kernel that would be downloaded counts as missing.
pub fn examine(needs: &DoctorNeeds, runner: &dyn Runner) -> Examination {
    let qemu = architecture::host().qemu;
    let kernel = needs.kernel.clone().or_else(|| best_here(&needs.modules));
    let presences = |kernel: &Kernel| {
        let modules = Modules::read(&kernel.modules).unwrap_or_default();
        needs.modules.iter().map(|name| (name.clone(), modules.presence(name))).collect()
    };
    let can_download = program::version(runner, "apt-get", &["--version".to_owned()]).is_some();
    Examination {
        kernel_is_downloaded: kernel.is_none() && can_download,
        qemu: match found(qemu) {
            DoctorFinding::Here { what } => {
                DoctorFinding::Here { what: format!("{what} {}", vm::version(qemu, runner)) }
            }
            missing => missing,
        },
        busybox: found("busybox"),
        modules: kernel.as_ref().map(presences).unwrap_or_default(),
        kernel: kernel_finding(kernel.as_ref(), can_download),
        kvm: kvm_finding(qemu, kernel.as_ref(), runner),
        programs: programs(&needs.programs),
    }
}

fn best_here(wanted: &[String]) -> Option<Kernel> {
    let here = Kernel::running().into_iter().chain(Kernel::cached());
    here.min_by_key(|kernel| kernel.lacking(wanted).len())
}

fn kernel_finding(kernel: Option<&Kernel>, can_download: bool) -> DoctorFinding {
    if let Some(kernel) = kernel {
        return DoctorFinding::Here {
            what: format!("{} {}", kernel.image.display(), kernel.release),
        };
    }
    let package = architecture::host().kernel_package;
    let why = if can_download {
        format!("not installed; downloaded when needed ({package})")
    } else {
        "not installed, and there is no apt to download one".to_owned()
    };
    DoctorFinding::Missing { why, hint: Some(format!("apt-get install {package}")) }
}

fn kvm_finding(qemu: &str, kernel: Option<&Kernel>, runner: &dyn Runner) -> DoctorFinding {
    let image = kernel.map(|kernel| kernel.image.as_path());
    let tried = PrivateFolder::new()
        .map_err(|error| error.to_string())
        .and_then(|folder| kvm::works(qemu, image, folder.path(), runner));
    match tried {
        Ok(()) => DoctorFinding::Here { what: "/dev/kvm runs a guest".to_owned() },
        Err(why) => DoctorFinding::Missing { why, hint: None },
    }
}

fn found(name: &str) -> DoctorFinding {
    match program::find(name) {
        Some(path) => DoctorFinding::Here { what: path.display().to_string() },
        None => DoctorFinding::missing(&ProgramError::Missing { name: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use flashfit_host::program::ScriptedRunner;

    use super::*;

    fn missing(hint: &str) -> DoctorFinding {
        DoctorFinding::Missing { why: "it is not here".to_owned(), hint: Some(hint.to_owned()) }
    }

    #[test]
    fn one_command_installs_all_that_is_missing() {
        let here = DoctorFinding::Here { what: "/usr/bin/x".to_owned() };
        let mut examined = Examination {
            qemu: missing("apt-get install qemu-system-x86"),
            busybox: missing("apt-get install busybox-static"),
            kernel: here.clone(),
            kernel_is_downloaded: true,
            kvm: DoctorFinding::Missing { why: "no".to_owned(), hint: None },
            modules: Vec::new(),
            programs: vec![
                ("mkfs.ext4".to_owned(), missing("apt-get install e2fsprogs")),
                ("dumpe2fs".to_owned(), missing("apt-get install e2fsprogs")),
            ],
        };
        let expected = "apt-get install busybox-static e2fsprogs qemu-system-x86";
        assert_eq!(examined.install_command().as_deref(), Some(expected));
        assert!(!examined.can_start());
        examined.qemu = here.clone();
        examined.busybox = here;
        assert!(examined.can_start() && !examined.can_start_after_download());
        examined.kernel = missing("apt-get install linux-image-amd64");
        assert!(!examined.can_start() && examined.can_start_after_download());
    }

    #[test]
    fn missing_programs_are_reported_with_a_hint() {
        let needs = DoctorNeeds {
            programs: vec!["flashfit-no-such-program".to_owned()],
            ..DoctorNeeds::default()
        };
        let examined = examine(&needs, &ScriptedRunner::new());
        assert!(!examined.programs[0].1.is_here());
        assert!(!examined.kvm.is_here());
        assert!(serde_json::to_string(&examined).unwrap().contains("\"missing\""));
    }
}
