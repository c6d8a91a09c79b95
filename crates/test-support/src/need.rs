//! Names the needs of tests and checks for common ones.

use std::path::Path;

use flashfit_host::{capability, program as host_program};

/// A precondition of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestNeed {
    Root,
    Loop,
    Fuse,
    /// QEMU, busybox and a kernel to boot.
    Qemu,
    /// An SSH client and server.
    Ssh,
    /// labgrid, which needs Python and an SSH server.
    Labgrid,
    /// fio with the I/O engine that the test uses.
    Fio,
    /// Another program that creates, checks or serves devices and file systems.
    Tool,
    /// A file system, scheduler or other feature of the running kernel.
    Kernel,
    /// Permission to start a program as another user.
    User,
    /// Features that some containers lack: namespaces, control groups, the system disk.
    Isolation,
    /// Any of qemu, ssh and labgrid.
    TestBed,
}

impl TestNeed {
    pub const ALL: [Self; 12] = [
        Self::Root,
        Self::Loop,
        Self::Fuse,
        Self::Qemu,
        Self::Ssh,
        Self::Labgrid,
        Self::Fio,
        Self::Tool,
        Self::Kernel,
        Self::User,
        Self::Isolation,
        Self::TestBed,
    ];

    /// The name in `FLASHFIT_REQUIRE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Loop => "loop",
            Self::Fuse => "fuse",
            Self::Qemu => "qemu",
            Self::Ssh => "ssh",
            Self::Labgrid => "labgrid",
            Self::Fio => "fio",
            Self::Tool => "tool",
            Self::Kernel => "kernel",
            Self::User => "user",
            Self::Isolation => "isolation",
            Self::TestBed => "test-bed",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|need| need.name() == name)
    }

    /// Whether requiring `other` also requires this need.
    pub(crate) fn is_required_by(self, other: Self) -> bool {
        let beds = [Self::Qemu, Self::Ssh, Self::Labgrid];
        self == other || (self == Self::TestBed && beds.contains(&other))
    }

    pub fn missing(self, reason: impl Into<String>) -> MissingNeed {
        MissingNeed { need: self, reason: reason.into() }
    }
}

/// A need that is not met here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingNeed {
    pub need: TestNeed,
    /// Shown in the list of skipped tests.
    pub reason: String,
}

/// What is missing for loop devices, mounts and exclusive opens.
pub fn block_devices() -> Option<MissingNeed> {
    let need = if is_root() { TestNeed::Loop } else { TestNeed::Root };
    capability::missing_for_block_devices().map(|reason| need.missing(reason))
}

/// What is missing to attach simulated cards.
pub fn simulated_cards() -> Option<MissingNeed> {
    let fuse = || capability::missing_for_simulated_cards().map(|why| TestNeed::Fuse.missing(why));
    block_devices().or_else(fuse)
}

/// `/proc/self/status` belongs to the effective user.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self/status").metadata().is_ok_and(|status| status.uid() == 0)
}

/// The need for a program that is not installed.
pub fn program(name: &str) -> Option<MissingNeed> {
    let need = match name {
        "fio" => TestNeed::Fio,
        "ssh" | "sshd" | "ssh-keygen" => TestNeed::Ssh,
        "busybox" => TestNeed::Qemu,
        name if name.starts_with("qemu-system") => TestNeed::Qemu,
        _ => TestNeed::Tool,
    };
    host_program::find(name).is_none().then(|| need.missing(format!("{name} is not installed")))
}

/// The need for the first program that is not installed.
pub fn programs(names: &[&str]) -> Option<MissingNeed> {
    names.iter().find_map(|name| program(name))
}
