//! A virtual machine as a board: Debian's kernel, a disk as its device, and an sshd on a forwarded
//! port. Switching it off kills it.
//!
//! It contains fio and the tools of ext4, but not flashfit, which is copied over ssh.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashfit_card::{Card, CardModel};
use flashfit_card_server::live::LiveCard;
use flashfit_card_server::nbd::NbdServer;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::{SystemRunner, program::find};
use flashfit_vm::{ClockSpeed, Disk, DiskInterface, Kernel, Port, Vm, VmError, VmOptions};

use crate::fixture::{FLASHFIT, once_for_this_build};

use super::rack::board::{Board, free_port, make_key};

/// The name of the device on the board.
pub const MEDIUM: &str = "/dev/vda";
/// The name that confirms it.
pub const MEDIUM_NAME: &str = "vda";

const MODULES: [&str; 5] = ["ext4", "crc32c_generic", "loop", "virtio_blk", "virtio_net"];
/// Programs of trials on ext4, and sshd with its helpers.
const PROGRAMS: [&str; 16] = [
    "sshd",
    "/usr/lib/openssh/sshd-session",
    "/usr/lib/openssh/sshd-auth",
    "fio",
    "mkfs.ext4",
    "tune2fs",
    "fsck.ext4",
    "sfdisk",
    "blkdiscard",
    "mount",
    "umount",
    "losetup",
    "blkid",
    "partx",
    "wipefs",
    "sync",
];
/// For a workload and for flashfit, which is stored in memory there.
const MEMORY_MIB: u32 = 640;
/// Enough for emulation on a busy machine.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The directory of the board's files in the guest.
const THERE: &str = "/etc/board";
const SSHD: &str = "HostKey /etc/board/host\nAuthorizedKeysFile /etc/board/user.pub\nPidFile none\n\
    StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n";
/// sshd needs its privilege separation user; it sets its own PATH for logins.
const START: &str = "#!/bin/sh\n\
    echo 'sshd:x:74:74::/run/sshd:/bin/false' >>/etc/passwd\n\
    mkdir -p /run/sshd\n\
    echo \"SetEnv PATH=$PATH\" >>/etc/board/sshd_config\n\
    exec \"$(command -v sshd)\" -D -e -f /etc/board/sshd_config\n";

/// A board, initially off.
pub struct VmBoard {
    card: Option<PoweredCard>,
    options: VmOptions,
    port: u16,
    powered: Mutex<Option<Powered>>,
}

impl VmBoard {
    /// What this machine lacks for a board.
    pub fn lacking() -> Option<String> {
        let by_name = PROGRAMS.into_iter().filter(|name| !name.starts_with('/'));
        let missing = by_name.chain(["ssh", "ssh-keygen"]).find(|name| find(name).is_none());
        missing.map(|name| format!("there is no {name}")).or_else(|| super::vm::lacking(&MODULES))
    }

    /// Creates the files shared by all boards.
    pub fn prepare() {
        LazyLock::force(&FILES);
    }

    /// A board with this image as its device: what it has written survives a power cut.
    pub fn new(image: &Path) -> Self {
        Self::with(Disk::file(image, false, DiskInterface::Virtio), None)
    }

    /// A board with a simulated card, which loses its power, and what is in its cache, with it.
    pub fn with_card(model: &CardModel, socket: &Path) -> Self {
        let live = LiveCard::new(Card::new(model));
        let server = NbdServer::open(&live, socket).unwrap();
        let card = PoweredCard { live, cuts: AtomicU64::new(0), _server: server };
        Self::with(Disk::nbd(socket, DiskInterface::Virtio), Some(card))
    }

    fn with(disk: Disk, card: Option<PoweredCard>) -> Self {
        let port = free_port();
        let modules = MODULES.map(str::to_owned).to_vec();
        let kernel = Kernel::find(&modules, &SystemRunner::default()).unwrap();
        let own = |name: &str| (FILES.join(name), Path::new(THERE).join(name));
        let options = VmOptions {
            kernel,
            agent: FILES.join("start"),
            agent_args: Vec::new(),
            programs: PROGRAMS.map(str::to_owned).to_vec(),
            modules,
            files: ["host", "user.pub", "sshd_config"].map(own).to_vec(),
            disks: vec![disk],
            ports: vec![Port { here: port, guest: 22 }],
            memory_mib: MEMORY_MIB,
            speed: ClockSpeed::RealTime,
            seed: u64::from(port),
            ready_wait: BOOT_LIMIT,
        };
        Self { card, options, port, powered: Mutex::new(None) }
    }

    /// The process id of QEMU, after the boot.
    pub fn process(&self) -> u32 {
        self.powered().as_mut().expect("it has power").booted().id()
    }

    /// Runs a shell command there over ssh; returns success and output.
    pub fn run(&self, command: &str) -> (bool, String) {
        let mut ssh = Command::new("ssh");
        ssh.args(["-F", "none", "-oBatchMode=yes", "-oConnectTimeout=10", "-oLogLevel=ERROR"]);
        ssh.args(["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-i"]);
        ssh.arg(self.key()).args(["-p", &self.port.to_string(), "root@127.0.0.1", command]);
        let output = ssh.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Switches it on and waits until ssh can log in.
    #[track_caller]
    pub fn boot(&self) {
        self.switch(true);
        let began = Instant::now();
        loop {
            let (is_reached, said) = self.run("true");
            if is_reached {
                return;
            }
            assert!(began.elapsed() < BOOT_LIMIT, "ssh does not get in: {said}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// What flashfit left there: directories, processes and mounts, one per line.
    pub fn traces(&self) -> String {
        let look = "ls -d /tmp/flashfit-* 2>/dev/null; pidof flashfit; grep vda /proc/mounts; :";
        let (is_reached, said) = self.run(look);
        assert!(is_reached, "{said}");
        said
    }

    /// A stripped command, because copying it to an emulated machine takes long.
    pub fn flashfit() -> PathBuf {
        FILES.join("flashfit")
    }

    fn powered(&self) -> MutexGuard<'_, Option<Powered>> {
        self.powered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Board for VmBoard {
    fn port(&self) -> u16 {
        self.port
    }

    fn user(&self) -> String {
        "root".to_owned()
    }

    fn key(&self) -> PathBuf {
        FILES.join("user")
    }

    /// Returns at once, like a real switch, while the board boots.
    fn switch(&self, on: bool) {
        let mut powered = self.powered();
        if !on {
            if let Some(card) = self.card.as_ref().filter(|_| powered.is_some()) {
                card.live.cut(card.cuts.fetch_add(1, Ordering::Relaxed), Vec::new());
            }
            *powered = None;
        } else if powered.is_none() {
            if let Some(card) = &self.card {
                // A new one has power.
                let _ = card.live.lock().card.power_on();
            }
            *powered = Some(Powered::start(self.options.clone()));
        }
    }

    fn has_power(&self) -> bool {
        self.powered().is_some()
    }
}

/// A simulated card and how often its power was cut.
struct PoweredCard {
    live: LiveCard,
    cuts: AtomicU64,
    _server: NbdServer,
}

/// A machine that is booting or running; killed on drop.
struct Powered {
    interrupt: Interrupt,
    starting: Option<JoinHandle<Result<Vm, VmError>>>,
    vm: Option<Vm>,
}

impl Powered {
    fn start(options: VmOptions) -> Self {
        let interrupt = Interrupt::new();
        let ends = interrupt.clone();
        let starting = std::thread::spawn(move || Vm::start(&options, &ends));
        Self { interrupt, starting: Some(starting), vm: None }
    }

    fn booted(&mut self) -> &Vm {
        if let Some(starting) = self.starting.take() {
            self.vm = Some(starting.join().unwrap().unwrap());
        }
        self.vm.as_ref().unwrap()
    }
}

impl Drop for Powered {
    fn drop(&mut self) {
        self.interrupt.raise();
        // If the machine has booted in the meantime, dropping the thread's result ends it.
        let _ = self.starting.take().map(JoinHandle::join);
    }
}

/// Files shared by all boards, created once, so that there is one initramfs.
static FILES: LazyLock<PathBuf> = LazyLock::new(|| {
    once_for_this_build("vm-board", |folder| {
        ["host", "user"].iter().for_each(|key| make_key(&folder.join(key)));
        std::fs::write(folder.join("sshd_config"), SSHD).unwrap();
        std::fs::write(folder.join("start"), START).unwrap();
        let small = folder.join("flashfit");
        let mut strip = Command::new("strip");
        let strip = strip.args([Path::new("-o"), &small, Path::new(FLASHFIT)]).status();
        if !strip.is_ok_and(|status| status.success()) {
            std::fs::copy(FLASHFIT, &small).unwrap();
        }
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.join("start"), executable).unwrap();
    })
});
