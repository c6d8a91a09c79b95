//! Decompresses kernel images on the host, because decompression takes most of the boot time on an
//! emulated processor.
//!
//! QEMU can boot such an image if it has a PVH entry (a Xen ELF note). Source: the kernel's
//! `Documentation/arch/x86/boot.rst` (`setup_sects`, `payload_offset`, `payload_length`) and
//! `include/xen/interface/elfnote.h`. Limits: x86-64 only, and the host must have the decompression
//! program; otherwise the compressed image is booted.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::input_file;
use flashfit_host::{Program, Runner};
use tempfile::Builder;

use super::Kernel;
use crate::{elf, unfinished};

const DECOMPRESS_WAIT: Duration = Duration::from_secs(120);
/// Magic numbers and their decompression programs.
const COMPRESSIONS: [(&[u8], &str); 5] = [
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x1f\x8b", "gzip"),
    (b"\x02\x21\x4c\x18", "lz4"),
    (b"BZh", "bzip2"),
];
/// Larger files are not kernels.
const KERNEL_BYTES: u64 = 256 << 20;
const MAX_KEPT: usize = 3;

/// The decompressed image in `folder`, created if needed; `None` if that is not possible.
pub(crate) fn image(kernel: &Kernel, folder: &Path, runner: &dyn Runner) -> Option<PathBuf> {
    let facts = kernel.image.metadata().ok()?;
    let mut hasher = DefaultHasher::new();
    (&kernel.image, facts.len(), facts.ctime(), facts.ctime_nsec()).hash(&mut hasher);
    let plain = folder.join(format!("{}-{:016x}", kernel.release, hasher.finish()));
    if plain.is_file() {
        return Some(plain);
    }
    std::fs::create_dir_all(folder).ok()?;
    let unfinished = || Builder::new().prefix(unfinished::PREFIX).tempfile_in(folder).ok();
    let (packed, new) = (unfinished()?, unfinished()?);
    unpack(&kernel.image, packed.path(), new.path(), runner)?;
    new.persist(&plain).ok()?;
    tidy(folder, &plain);
    Some(plain)
}

fn unpack(image: &Path, packed: &Path, new: &Path, runner: &dyn Runner) -> Option<()> {
    let bytes = input_file::read_capped(image, KERNEL_BYTES).ok()?;
    let payload = payload(&bytes)?;
    let (_, program) = COMPRESSIONS.iter().find(|(magic, _)| payload.starts_with(magic))?;
    std::fs::write(packed, payload).ok()?;
    // The compressed data is followed by the kernel's length, which makes some programs fail at the
    // end. The size of the result shows whether it is complete.
    let script = "\"$1\" -dc < \"$2\" > \"$3\" 2> /dev/null || true";
    let run = Program::new("sh")
        .args(["-c", script, "sh", program])
        .args([packed, new])
        .timeout(DECOMPRESS_WAIT);
    runner.run_checked(&run).ok()?;
    let length = u32::from_le_bytes(*payload.last_chunk::<4>()?);
    let is_whole = new.metadata().is_ok_and(|facts| facts.len() == u64::from(length));
    (is_whole && elf::has_pvh_entry(new)).then_some(())
}

/// The compressed kernel in a bzImage, followed by its uncompressed length.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| Some(u32::from_le_bytes(*image.get(at..)?.first_chunk::<4>()?));
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let sectors = match image.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(*sectors),
    };
    let begin = (sectors + 1) * 512 + usize::try_from(number(0x248)?).ok()?;
    image.get(begin..begin.checked_add(usize::try_from(number(0x24c)?).ok()?)?)
}

/// Removes all but the newest images, and leftovers of killed processes.
fn tidy(folder: &Path, current: &Path) {
    unfinished::remove_abandoned(folder);
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut images = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path != current && !unfinished::is_unfinished(&path) {
            images.push((path.metadata().and_then(|facts| facts.modified()).ok(), path));
        }
    }
    images.sort_by(|one, other| other.cmp(one));
    for (_, path) in images.into_iter().skip(MAX_KEPT - 1) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use flashfit_host::SystemRunner;

    use super::*;

    fn image_with(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x1f1] = 1;
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x248..0x24c].copy_from_slice(&8_u32.to_le_bytes());
        let length = u32::try_from(payload.len()).unwrap();
        bytes[0x24c..0x250].copy_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn the_payload_is_found() {
        assert_eq!(payload(&image_with(b"compressed")), Some(&b"compressed"[..]));
        assert_eq!(payload(&image_with(b"compressed")[..0x40c]), None);
        assert_eq!(payload(b"short"), None);
    }

    #[test]
    fn an_unknown_image_is_not_decompressed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vmlinuz");
        let kernel = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            Kernel { image: file.clone(), modules: "/".into(), release: "6".to_owned() }
        };
        let kept = folder.path().join("plain");
        let runner = SystemRunner::default();
        for payload in [&b"\x1f\x8bbroken"[..], b"unknown"] {
            assert_eq!(image(&kernel(&image_with(payload)), &kept, &runner), None);
        }
        assert_eq!(image(&kernel(b"no kernel"), &kept, &runner), None);
        assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0);
    }
}
