//! Starts and ends virtual machines.
//!
//! The guest's init script reports on the channel that it is ready, or why it failed; after that,
//! the channel belongs to the program in the guest. The machine powers off when that program ends.
//! Dropping [`Vm`] kills QEMU and removes its directory; QEMU also dies with this process.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;
use flashfit_host::private_folder::PrivateFolder;
use flashfit_host::{ProgramError, Runner, SystemRunner, program};
use serde_json::json;

use crate::VmError;
use crate::architecture;
use crate::cache_folder::cache_folder;
use crate::command_line::{self, CHANNEL, CONSOLE, MONITOR, MachineDecisions};
use crate::facts::{Accelerator, VmFacts};
use crate::options::{ClockSpeed, VmOptions};
use crate::qemu::{self, Qemu};
use crate::qmp::Monitor;
use crate::{initramfs, kernel, kvm, saved};

const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// QEMU's own output.
const LOG: &str = "qemu";
/// How much of the console's end is read, and how many of its lines messages contain.
const CONSOLE_BYTES: u64 = 16 << 10;
const CONSOLE_LINES: usize = 8;
const LONGEST_WORD: usize = 1024;
const PANIC: &str = "Kernel panic";
/// Messages of QEMU and of the guest's kernel when memory is short.
const NO_MEMORY: &str = "cannot set up guest memory";
const OUT_OF_MEMORY: &str = "Out of memory: ";
const READY: &str = "flashfit-vm ready ";
const FAILED: &str = "flashfit-vm failed ";

/// A running virtual machine, killed on drop.
#[derive(Debug)]
pub struct Vm {
    // Dropped first: QEMU must end before its directory is removed.
    qemu: Qemu,
    channel: UnixStream,
    folder: PrivateFolder,
    facts: VmFacts,
}

impl Vm {
    /// Starts a machine and waits until its program runs.
    ///
    /// # Errors
    /// [`VmError`]; the machine is then cleaned up.
    pub fn start(options: &VmOptions, interrupt: &Interrupt) -> Result<Self, VmError> {
        Self::begin(options, None, interrupt)
    }

    pub(crate) fn from_state(
        options: &VmOptions,
        state: &Path,
        interrupt: &Interrupt,
    ) -> Result<Self, VmError> {
        Self::begin(options, Some(state), interrupt)
    }

    /// Boots, or restores a saved state.
    fn begin(
        options: &VmOptions,
        state: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<Self, VmError> {
        let runner = SystemRunner::new(interrupt.clone());
        let host = architecture::host();
        let program = program::find(host.qemu)
            .ok_or_else(|| ProgramError::Missing { name: host.qemu.to_owned() })?;
        let folder = PrivateFolder::new()
            .map_err(VmError::file("make a folder in", std::env::temp_dir()))?;
        let initramfs = initramfs::make(options, folder.path(), &runner)?;
        let accelerator = accelerator(options, host.qemu, folder.path(), &runner);
        let kept = cache_folder().map_or_else(|| folder.join("kernel"), |it| it.join("vmlinux"));
        let plain = kernel::plain::image(&options.kernel, &kept, &runner);
        let decided = MachineDecisions {
            image: plain.as_ref().unwrap_or(&options.kernel.image),
            initramfs: &initramfs,
            boot_modules: &initramfs::boot_modules(options),
            accelerator,
            architecture: host,
            folder: folder.path(),
        };
        let mut args = command_line::arguments(options, &decided)?;
        if let Some(state) = state {
            args.extend(["-incoming".to_owned(), saved::incoming(state)]);
        }
        let qemu_version = version(host.qemu, &runner);
        let started = Instant::now();
        let qemu = Qemu::start(&program, &args, &folder.join(LOG))
            .map_err(VmError::file("start", &program))?;
        let start = Start {
            qemu: &qemu,
            folder: &folder,
            interrupt,
            memory_mib: command_line::memory_mib(options, initramfs.bytes),
            wait: options.ready_wait,
            until: started + options.ready_wait,
        };
        let channel = start.connect()?;
        let kernel_release = match state {
            None => start.ready(&channel)?,
            Some(_) => {
                saved::wait_until_running(&folder.join(MONITOR), || start.check_running())?;
                options.kernel.release.clone()
            }
        };
        let facts = VmFacts {
            qemu: qemu_version,
            accelerator,
            kernel_release,
            boot_ns: nanoseconds(started.elapsed()),
            speed: options.speed,
            lacking_programs: initramfs.lacking_programs,
            lacking_modules: initramfs.lacking_modules,
        };
        Ok(Self { qemu, channel, folder, facts })
    }

    /// A file or socket in the machine's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The program's standard input and output. All returned streams share one connection.
    ///
    /// # Errors
    /// If too many files are open.
    pub fn channel(&self) -> io::Result<UnixStream> {
        self.channel.try_clone()
    }

    /// The end of the guest's console output: kernel messages and the program's standard error.
    pub fn console(&self) -> String {
        tail(&self.folder.join(CONSOLE))
    }

    /// The console line that best explains why the guest ended: out of memory, else the last one.
    pub fn last_error_line(&self) -> Option<String> {
        most_relevant_line(&self.console())
    }

    pub fn id(&self) -> u32 {
        self.qemu.id()
    }

    pub fn is_running(&self) -> bool {
        self.qemu.exit_status().is_none()
    }

    pub fn facts(&self) -> &VmFacts {
        &self.facts
    }

    /// Stops the guest's processor and clock. Needed while a guest that skips idle time
    /// ([`crate::ClockSpeed::Counted`] without disks and ports) waits for the host: otherwise hours
    /// pass in the guest within seconds.
    ///
    /// # Errors
    /// [`VmError::Monitor`] or [`VmError::File`] if QEMU does not answer.
    pub fn pause(&self) -> Result<(), VmError> {
        Monitor::connect(&self.path(MONITOR))?.execute("stop", json!({})).map(drop)
    }

    /// Continues a paused machine.
    ///
    /// # Errors
    /// See [`Vm::pause`].
    pub fn resume(&self) -> Result<(), VmError> {
        Monitor::connect(&self.path(MONITOR))?.execute("cont", json!({})).map(drop)
    }

    /// Ends the machine like a power cut; writes that QEMU has accepted are completed. Succeeds if
    /// the machine has already powered off.
    ///
    /// # Errors
    /// [`VmError::Ended`] if QEMU had failed before. The machine is cleaned up in any case.
    pub fn stop(self) -> Result<(), VmError> {
        if let Some(status) = self.qemu.exit_status() {
            if status.code() != Some(0) {
                let how = how_it_ended(status, &self.folder);
                return Err(VmError::Ended { when: "before it was stopped", how });
            }
        }
        self.qemu.end();
        Ok(())
    }
}

/// A machine that is still starting.
struct Start<'a> {
    qemu: &'a Qemu,
    folder: &'a PrivateFolder,
    interrupt: &'a Interrupt,
    memory_mib: u64,
    wait: Duration,
    until: Instant,
}

impl Start<'_> {
    fn connect(&self) -> Result<UnixStream, VmError> {
        let socket = self.folder.join(CHANNEL);
        loop {
            if let Ok(stream) = UnixStream::connect(&socket) {
                return Ok(stream);
            }
            self.check_running()?;
            self.interrupt.sleep(POLL_INTERVAL);
        }
    }

    /// Reads the init script's message, and no byte more; returns the kernel's release.
    fn ready(&self, channel: &UnixStream) -> Result<String, VmError> {
        let error = VmError::file("read from", self.folder.join(CHANNEL));
        channel.set_read_timeout(Some(Duration::from_millis(50))).map_err(&error)?;
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            match (&*channel).read(&mut byte) {
                Ok(0) => {
                    // QEMU closes the channel before it ends.
                    std::thread::sleep(POLL_INTERVAL);
                    self.check_running()?;
                }
                Ok(_) if byte[0] == b'\n' || line.len() > LONGEST_WORD => {
                    let text = String::from_utf8_lossy(&line).trim().to_owned();
                    if let Some(release) = text.strip_prefix(READY) {
                        channel.set_read_timeout(None).map_err(&error)?;
                        return Ok(release.to_owned());
                    }
                    let what = text.strip_prefix(FAILED).unwrap_or(&text).to_owned();
                    return Err(VmError::Guest { what });
                }
                Ok(_) => line.push(byte[0]),
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
                {
                    self.check_running()?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // As above: QEMU is about to end.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
                    std::thread::sleep(POLL_INTERVAL);
                    self.check_running()?;
                }
                Err(e) => return Err(error(e)),
            }
        }
    }

    fn check_running(&self) -> Result<(), VmError> {
        if self.interrupt.is_raised() {
            return Err(VmError::Interrupted);
        }
        if let Some(status) = self.qemu.exit_status() {
            let how = how_it_ended(status, self.folder);
            if how.contains(NO_MEMORY) {
                return Err(VmError::Memory { mib: self.memory_mib, how });
            }
            return Err(VmError::Ended { when: "while it was starting", how });
        }
        if Instant::now() > self.until {
            let console = last_lines(&tail(&self.folder.join(CONSOLE)));
            return Err(VmError::NotReady { wait: self.wait, console });
        }
        Ok(())
    }
}

/// Counted instructions need emulation; otherwise KVM is used if it works, which is tested once.
fn accelerator(
    options: &VmOptions,
    qemu: &str,
    scratch: &Path,
    runner: &dyn Runner,
) -> Accelerator {
    static WORKS: OnceLock<bool> = OnceLock::new();
    let kernel = Some(options.kernel.image.as_path());
    let works = || *WORKS.get_or_init(|| kvm::works(qemu, kernel, scratch, runner).is_ok());
    if options.speed == ClockSpeed::RealTime && works() {
        Accelerator::Kvm
    } else {
        Accelerator::Tcg
    }
}

/// `7.2.22` in `QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`.
pub(crate) fn version(qemu: &str, runner: &dyn Runner) -> String {
    let said = program::version(runner, qemu, &["--version".to_owned()]).unwrap_or_default();
    let mut words = said.split_whitespace().skip_while(|word| *word != "version");
    words.nth(1).unwrap_or("unknown").to_owned()
}

fn how_it_ended(status: std::process::ExitStatus, folder: &PrivateFolder) -> String {
    let said = [LOG, CONSOLE].map(|name| last_lines(&tail(&folder.join(name))));
    let parts = [qemu::describe_exit(status)].into_iter().chain(said);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// The end of a growing file.
fn tail(path: &PathBuf) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(CONSOLE_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(CONSOLE_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

fn most_relevant_line(console: &str) -> Option<String> {
    let lines = || console.lines().map(str::trim).filter(|line| !line.is_empty());
    let out_of_memory = lines().rfind(|line| line.contains(OUT_OF_MEMORY));
    out_of_memory.or_else(|| lines().next_back()).map(str::to_owned)
}

/// The last nonempty lines, joined; for a kernel panic, those that precede it.
fn last_lines(text: &str) -> String {
    let end = text.find(PANIC).and_then(|at| Some(at + text[at..].find('\n')?));
    let text = &text[..end.unwrap_or(text.len())];
    let is_plain = |c: &char| !c.is_control();
    let lines = text.lines().map(|line| line.chars().filter(is_plain).collect::<String>());
    let lines: Vec<String> = lines.filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join(" / ")
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use flashfit_host::ProgramOutcome;
    use flashfit_host::program::ScriptedRunner;

    use super::*;

    #[test]
    fn the_version_is_read_from_qemus_output() {
        let stdout = "QEMU emulator version 7.2.22 (Debian 1:7.2)\nCopyright\n".to_owned();
        let outcome = ProgramOutcome { code: Some(0), stdout, ..ProgramOutcome::default() };
        let runner = ScriptedRunner::new().answer("qemu", outcome);
        assert_eq!(version("qemu", &runner), "7.2.22");
        assert_eq!(version("qemu", &ScriptedRunner::new()), "unknown");
    }

    #[test]
    fn out_of_memory_is_preferred_to_the_last_line() {
        let console = "[ 9.1] Out of memory: Killed process 80 (mkfs.xfs)\r\n\nended with 137\n\n";
        assert!(most_relevant_line(console).unwrap().ends_with("80 (mkfs.xfs)"));
        assert_eq!(most_relevant_line("a\nended with 3\n").as_deref(), Some("ended with 3"));
        assert_eq!(most_relevant_line("\n"), None);
    }

    #[test]
    fn the_last_lines_are_kept_without_control_characters() {
        assert_eq!(last_lines("a\r\n\n\u{1b}[0mb\n"), "a / [0mb");
        assert_eq!(last_lines("a\nKernel panic: b\n registers\n"), "a / Kernel panic: b");
        let many: String = (0..20).map(|number| format!("{number}\n")).collect();
        assert_eq!(last_lines(&many).matches(" / ").count(), CONSOLE_LINES - 1);
    }
}
