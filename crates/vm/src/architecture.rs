//! What differs between processor architectures: QEMU's program, machine, console and Debian's
//! kernel package.
//!
//! The guest has the host's architecture because it runs the host's programs. Limits: 64-bit ARM
//! follows QEMU's documentation of `virt` and is untested.

/// A processor architecture on which guests can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Architecture {
    pub qemu: &'static str,
    /// Value of `-machine`.
    pub machine: &'static str,
    /// Value of `-cpu` for an emulated processor.
    pub emulated: &'static str,
    /// The kernel's name for the first serial port.
    pub console: &'static str,
    /// The Debian package that depends on the newest kernel.
    pub kernel_package: &'static str,
}

const X86_64: Architecture = Architecture {
    qemu: "qemu-system-x86_64",
    machine: "pc,usb=off,vmport=off,hpet=off",
    // With these two features, kernel and C library copy and clear memory by instructions that QEMU
    // emulates byte by byte: a fifth of the time of a trial.
    emulated: "max,erms=off,fsrm=off",
    console: "ttyS0",
    kernel_package: "linux-image-amd64",
};

const AARCH64: Architecture = Architecture {
    qemu: "qemu-system-aarch64",
    machine: "virt",
    emulated: "max",
    console: "ttyAMA0",
    kernel_package: "linux-image-arm64",
};

impl Architecture {
    pub(crate) fn is_arm(self) -> bool {
        self == AARCH64
    }
}

/// The host's architecture; x86-64 for all except 64-bit ARM, where its QEMU is then missing.
pub(crate) fn host() -> Architecture {
    if cfg!(target_arch = "aarch64") { AARCH64 } else { X86_64 }
}
