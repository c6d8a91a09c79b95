//! One read command to an SD card or eMMC chip through the kernel: `MMC_IOC_CMD`.
//!
//! Source: `include/uapi/linux/mmc/ioctl.h` and `include/linux/mmc/core.h` of Linux. The kernel
//! wants the node of the whole device and CAP_SYS_RAWIO. Only commands in which the card sends one
//! block can be sent.

use std::ffi::c_void;
use std::fs::File;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};

const RESPONSE_PRESENT: u32 = 1 << 0;
const RESPONSE_CRC: u32 = 1 << 2;
const RESPONSE_OPCODE: u32 = 1 << 4;
const ADDRESSED_DATA_TRANSFER: u32 = 1 << 5;
const SPI_STATUS: u32 = 1 << 7;
const MMC_BLOCK_MAJOR: u8 = 179;

/// `struct mmc_ioc_cmd`.
#[repr(C)]
#[derive(Debug, Default)]
struct MmcCommand {
    write_flag: i32,
    is_acmd: i32,
    opcode: u32,
    argument: u32,
    response: [u32; 4],
    flags: u32,
    block_bytes: u32,
    blocks: u32,
    postsleep_min_us: u32,
    postsleep_max_us: u32,
    data_timeout_ns: u32,
    cmd_timeout_ms: u32,
    padding: u32,
    data: u64,
}

struct SendCommand<'a>(&'a mut MmcCommand);

// SAFETY: the opcode is that of MMC_IOC_CMD, whose argument is a `struct mmc_ioc_cmd` that the
// kernel reads and writes; it lives as long as the call.
#[expect(unsafe_code, reason = "Ioctl is an unsafe trait")]
unsafe impl Ioctl for SendCommand<'_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<MmcCommand>(MMC_BLOCK_MAJOR, 0)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Sends a command to which the card answers with one block.
///
/// # Errors
/// The kernel's: `ETIMEDOUT` where the card does not know the command, `EPERM` without root.
#[expect(unsafe_code, reason = "ioctl is unsafe")]
pub(crate) fn read_block(
    device: &File,
    opcode: u32,
    argument: u32,
    block: &mut [u8],
) -> Result<(), Errno> {
    let bytes = u32::try_from(block.len()).map_err(|_| Errno::INVAL)?;
    let mut command = MmcCommand {
        opcode,
        argument,
        flags: SPI_STATUS
            | RESPONSE_PRESENT
            | RESPONSE_CRC
            | RESPONSE_OPCODE
            | ADDRESSED_DATA_TRANSFER,
        block_bytes: bytes,
        blocks: 1,
        data: block.as_mut_ptr().expose_provenance() as u64,
        ..MmcCommand::default()
    };
    // SAFETY: the kernel writes at most `blocks * block_bytes` bytes to `data`, which is the whole
    // slice, borrowed until the call ends.
    unsafe { rustix::ioctl::ioctl(device, SendCommand(&mut command)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_laid_out_as_in_the_kernel() {
        assert_eq!(size_of::<MmcCommand>(), 72);
        assert_eq!(std::mem::offset_of!(MmcCommand, data), 64);
        let mut command = MmcCommand::default();
        // Architectures with other ioctl numbers (mips, powerpc) have another one.
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")) {
            assert_eq!(SendCommand(&mut command).opcode(), 0xc048_b300);
        }
    }

    #[test]
    fn another_device_refuses_the_command() {
        let file = File::open("/dev/null").unwrap();
        let mut block = [0; 512];
        assert_eq!(read_block(&file, 56, 1, &mut block), Err(Errno::NOTTY));
    }
}
