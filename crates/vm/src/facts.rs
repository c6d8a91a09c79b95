//! What is known of a machine that runs.

use crate::options::ClockSpeed;

/// What runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor itself, through the kernel.
    Kvm,
    /// QEMU's emulation.
    Tcg,
}

impl Accelerator {
    /// QEMU's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// What is known of a machine that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmFacts {
    /// QEMU's version, e.g. `7.2.22`.
    pub qemu: String,
    /// What runs the guest's instructions.
    pub accelerator: Accelerator,
    /// The guest kernel's release, as it says itself.
    pub kernel_release: String,
    /// From the start of QEMU to the guest's word that it is ready, in nanoseconds.
    pub boot_ns: u64,
    /// What it took to build the initramfs, or to find it built, in nanoseconds.
    pub initramfs_ns: u64,
    /// How large the initramfs is, in bytes.
    pub initramfs_bytes: u64,
    /// How the guest's clock goes.
    pub speed: ClockSpeed,
    /// Programs that were asked for and are not on the host.
    pub lacking_programs: Vec<String>,
    /// Modules that were asked for and that this kernel neither has nor has built in.
    pub lacking_modules: Vec<String>,
}
