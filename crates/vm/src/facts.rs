//! Describes a running machine.

use crate::options::ClockSpeed;

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    Kvm,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmFacts {
    /// QEMU's version, e.g. `7.2.22`.
    pub qemu: String,
    pub accelerator: Accelerator,
    /// As reported by the guest's kernel.
    pub kernel_release: String,
    /// From the start of QEMU until the guest is ready.
    pub boot_ns: u64,
    pub speed: ClockSpeed,
    /// Requested programs that the host lacks.
    pub lacking_programs: Vec<String>,
    /// Requested modules that the kernel lacks.
    pub lacking_modules: Vec<String>,
}
