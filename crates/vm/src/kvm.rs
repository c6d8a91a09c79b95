//! Tests whether KVM works, because `/dev/kvm` may exist and still be unusable.
//!
//! First QEMU runs a firmware that writes to the port that ends QEMU with a certain exit code
//! (QEMU's `isa-debug-exit` device, started from the x86 reset vector). Then it boots the kernel,
//! which restarts within a second because it has no file system. On some virtual machines with bad
//! nested virtualization the first test passes and the second hangs.
//! Limit: implemented for x86-64 only; elsewhere KVM counts as unavailable.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::{Program, ProgramError, ProgramOutcome, Runner, durable, program};

use crate::cache_folder::cache_folder;

const FIRMWARE_BYTES: usize = 64 << 10;
/// `mov al, 0x10; out 0xf4, al; hlt; jmp $-1`
const CODE: [u8; 7] = [0xb0, 0x10, 0xe6, 0xf4, 0xf4, 0xeb, 0xfd];
/// The exit code for the value 0x10: 2 * 0x10 + 1.
const EXIT_CODE: i32 = 0x21;
const WAIT: Duration = Duration::from_secs(5);
const KERNEL_WAIT: Duration = Duration::from_secs(10);
/// The processor model of the tests and of all guests under KVM.
pub(crate) const PROCESSOR: &str = "host";

/// Runs both tests, or only the first one without a kernel. `scratch` is for the firmware file.
///
/// # Errors
/// The reason as text.
pub(crate) fn works(
    qemu: &str,
    kernel: Option<&Path>,
    scratch: &Path,
    runner: &dyn Runner,
) -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("it is tried on x86-64 alone".to_owned());
    }
    if !Path::new("/dev/kvm").exists() {
        return Err("there is no /dev/kvm".to_owned());
    }
    if let Err(error) = std::fs::File::options().read(true).write(true).open("/dev/kvm") {
        return Err(format!("/dev/kvm cannot be opened: {error}"));
    }
    let refusals = cache_folder().map(|folder| Refusals::in_folder(&folder, qemu, kernel));
    if let Some(why) = refusals.as_ref().and_then(Refusals::known) {
        return Err(why);
    }
    let tried = runs_firmware("kvm", PROCESSOR, qemu, scratch, runner).and_then(|()| {
        kernel.map_or(Ok(()), |kernel| runs_kernel("kvm", PROCESSOR, qemu, kernel, runner))
    });
    match (&refusals, tried) {
        (_, Ok(())) => Ok(()),
        (Some(refusals), Err(NoKvm::Shown(why))) => {
            refusals.keep(&why);
            Err(why)
        }
        (_, Err(NoKvm::Shown(why) | NoKvm::Untested(why))) => Err(why),
    }
}

/// Why KVM is not used.
#[derive(Debug)]
enum NoKvm {
    /// A guest does not run with it.
    Shown(String),
    /// The test could not be made or was interrupted, so the next one may show something else.
    Untested(String),
}

/// Remembers a failed test until the next boot, because detecting a hanging guest takes ten
/// seconds. Stored in the user's cache directory.
struct Refusals {
    file: PathBuf,
    /// What was tested, and the boot time of this machine.
    case: String,
}

impl Refusals {
    fn in_folder(folder: &Path, qemu: &str, kernel: Option<&Path>) -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let changed = |path: &Path| path.metadata().and_then(|facts| facts.modified()).ok();
        let program = program::find(qemu);
        let changes = [program.as_deref(), kernel].map(|path| path.and_then(changed));
        let case = format!("{} {qemu} {kernel:?} {changes:?}", boot.trim());
        Self { file: folder.join("no-kvm"), case }
    }

    fn known(&self) -> Option<String> {
        let text = std::fs::read_to_string(&self.file).ok()?;
        let (case, why) = text.split_once('\n')?;
        (case == self.case && !why.is_empty()).then(|| why.to_owned())
    }

    fn keep(&self, why: &str) {
        // If this fails, the test is repeated next time.
        let folder = self.file.parent().expect("it is in the cache folder");
        let _ = std::fs::create_dir_all(folder)
            .and_then(|()| durable::write(&self.file, format!("{}\n{why}", self.case).as_bytes()));
    }
}

fn machine(qemu: &str, accelerator: &str, processor: &str) -> Program {
    Program::new(qemu)
        .args(["-accel", accelerator, "-cpu", processor, "-machine", "pc", "-nodefaults"])
        .args(["-no-user-config", "-display", "none", "-no-reboot"])
}

fn runs_kernel(
    accelerator: &str,
    processor: &str,
    qemu: &str,
    kernel: &Path,
    runner: &dyn Runner,
) -> Result<(), NoKvm> {
    let run = machine(qemu, accelerator, processor)
        .args(["-m", "256M", "-append", "quiet panic=-1 no_timer_check", "-kernel"])
        .arg(kernel.to_string_lossy().replace(',', ",,"))
        .timeout(KERNEL_WAIT);
    judge(runner.run(&run), 0)
}

fn runs_firmware(
    accelerator: &str,
    processor: &str,
    qemu: &str,
    scratch: &Path,
    runner: &dyn Runner,
) -> Result<(), NoKvm> {
    let file = scratch.join("kvm-firmware");
    write_firmware(&file)
        .map_err(|error| NoKvm::Untested(format!("{}: {error}", file.display())))?;
    let run = machine(qemu, accelerator, processor)
        .args(["-m", "16M", "-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-bios"])
        .arg(file.to_string_lossy().replace(',', ",,"))
        .timeout(WAIT);
    let outcome = runner.run(&run);
    let _ = std::fs::remove_file(&file);
    judge(outcome, EXIT_CODE)
}

fn judge(outcome: Result<ProgramOutcome, ProgramError>, expected: i32) -> Result<(), NoKvm> {
    match outcome {
        Ok(outcome) if outcome.code == Some(expected) => Ok(()),
        Ok(outcome) => {
            let said = outcome.stderr.lines().next().unwrap_or("no output").trim();
            Err(NoKvm::Shown(format!("a guest does not run with it: {said}")))
        }
        Err(ProgramError::TimedOut { limit, .. }) => Err(NoKvm::Shown(format!(
            "a guest hangs with it: no result after {} s",
            limit.as_secs()
        ))),
        Err(error) => Err(NoKvm::Untested(format!("it cannot be tested: {error}"))),
    }
}

fn write_firmware(file: &Path) -> io::Result<()> {
    let mut bytes = vec![0xf4; FIRMWARE_BYTES];
    bytes[FIRMWARE_BYTES - 16..][..CODE.len()].copy_from_slice(&CODE);
    std::fs::write(file, bytes)
}

#[cfg(test)]
mod tests {
    use flashfit_host::SystemRunner;

    use flashfit_test_support::{TestNeed, program, skip};

    use super::*;

    #[test]
    fn a_failure_is_remembered_until_the_kernel_changes() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("vmlinuz");
        std::fs::write(&kernel, "a kernel").unwrap();
        let cache = folder.path().join("cache");
        let refusals = || Refusals::in_folder(&cache, "qemu-system-none", Some(&kernel));
        assert_eq!(refusals().known(), None);
        refusals().keep("a guest hangs with it");
        assert_eq!(refusals().known().as_deref(), Some("a guest hangs with it"));
        assert_eq!(Refusals::in_folder(&cache, "qemu-system-none", None).known(), None);
        let later = std::time::SystemTime::now() + Duration::from_secs(60);
        std::fs::File::options().append(true).open(&kernel).unwrap().set_modified(later).unwrap();
        assert_eq!(refusals().known(), None);
    }

    #[test]
    fn the_test_firmware_runs_under_emulation() {
        let folder = tempfile::tempdir().unwrap();
        let qemu = crate::architecture::host().qemu;
        let foreign = cfg!(not(target_arch = "x86_64"));
        let missing = foreign.then(|| TestNeed::Qemu.missing("this is not x86-64"));
        if skip(missing.or_else(|| program(qemu))) {
            return;
        }
        let runner = SystemRunner::default();
        runs_firmware("tcg", "max", qemu, folder.path(), &runner).unwrap();
        let error = runs_firmware("none-such", "max", qemu, folder.path(), &runner);
        let NoKvm::Shown(why) = error.unwrap_err() else { panic!("QEMU ran") };
        assert!(why.contains("none-such"), "{why}");
    }

    #[test]
    fn an_interrupted_test_says_nothing_of_kvm() {
        let interrupted = ProgramError::Interrupted { during: "`qemu`".to_owned() };
        assert!(matches!(judge(Err(interrupted), 0), Err(NoKvm::Untested(_))));
        let limit = WAIT;
        let hanging = ProgramError::TimedOut { command_line: "qemu".to_owned(), limit };
        assert!(matches!(judge(Err(hanging), 0), Err(NoKvm::Shown(_))));
    }
}
