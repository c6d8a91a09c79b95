//! A guest for tests: its program executes commands line by line; each answers with one line.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use flashfit_host::{SystemRunner, program};
use flashfit_test_support::{TestNeed, skip};
use flashfit_vm::{ClockSpeed, Kernel, Vm, VmOptions};

const PROGRAM: &str = "#!/bin/sh\nwhile read -r line; do eval \"$line\"; done\n";
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// A kernel to boot; otherwise records a skip and returns `None`.
pub fn kernel_or_skip() -> Option<Kernel> {
    static FOUND: OnceLock<Result<Kernel, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        for name in [
            if cfg!(target_arch = "aarch64") {
                "qemu-system-aarch64"
            } else {
                "qemu-system-x86_64"
            },
            "busybox",
        ] {
            program::find(name).ok_or_else(|| format!("{name} is not installed"))?;
        }
        let wanted = ["ext4", "virtio_blk", "nvme", "mmc_block", "usb_storage"].map(str::to_owned);
        Kernel::find(&wanted, &SystemRunner::default()).map_err(|error| error.to_string())
    });
    match found {
        Ok(kernel) => Some(kernel.clone()),
        Err(reason) => {
            assert!(skip(Some(TestNeed::Qemu.missing(reason))));
            None
        }
    }
}

/// The directory of one guest, removed on drop.
pub struct Guest {
    folder: tempfile::TempDir,
}

impl Guest {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, PROGRAM).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

pub fn options(kernel: Kernel, guest: &Guest) -> VmOptions {
    VmOptions {
        kernel,
        agent: guest.folder().join("program"),
        agent_args: Vec::new(),
        programs: Vec::new(),
        modules: Vec::new(),
        files: Vec::new(),
        disks: Vec::new(),
        ports: Vec::new(),
        memory_mib: 256,
        speed: ClockSpeed::RealTime,
        seed: 1,
        ready_wait: Duration::from_secs(120),
    }
}

/// The host's end of the guest's shell.
pub struct GuestShell(BufReader<UnixStream>);

impl GuestShell {
    pub fn new(vm: &Vm) -> Self {
        let channel = vm.channel().unwrap();
        channel.set_read_timeout(Some(ANSWER_WAIT)).unwrap();
        Self(BufReader::new(channel))
    }

    fn send(&mut self, command: &str) {
        self.0.get_mut().write_all(format!("{command}\n").as_bytes()).unwrap();
    }

    /// Runs a command and returns its one line of output.
    pub fn run(&mut self, command: &str) -> String {
        self.send(command);
        let mut line = String::new();
        let read = self.0.read_line(&mut line);
        assert!(read.is_ok(), "{command}: {read:?} after {line:?}");
        line.trim_end().to_owned()
    }
}
