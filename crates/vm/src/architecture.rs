//! What differs between processors: QEMU's name, its machine, the console, Debian's kernel package.
//!
//! The guest has the host's architecture, since it runs the host's programs. Limits: the row for
//! 64-bit ARM is from QEMU's documentation of `virt` and was not tried.

/// A processor architecture on which guests can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Architecture {
    /// QEMU's program.
    pub qemu: &'static str,
    /// QEMU's machine without devices.
    pub machine: &'static str,
    /// The kernel's name of the first serial port.
    pub console: &'static str,
    /// The Debian package that depends on the newest kernel.
    pub kernel_package: &'static str,
}

const X86_64: Architecture = Architecture {
    qemu: "qemu-system-x86_64",
    machine: "pc,usb=off,vmport=off,hpet=off",
    console: "ttyS0",
    kernel_package: "linux-image-amd64",
};

const AARCH64: Architecture = Architecture {
    qemu: "qemu-system-aarch64",
    machine: "virt",
    console: "ttyAMA0",
    kernel_package: "linux-image-arm64",
};

/// The host's; x86-64 for all that are not 64-bit ARM, whose QEMU will then be missing.
pub(crate) fn host() -> Architecture {
    if cfg!(target_arch = "aarch64") { AARCH64 } else { X86_64 }
}
