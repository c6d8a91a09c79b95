//! Recognizes images of kernels, and finds the release in them.
//!
//! Sources: the kernel's `Documentation/arch/x86/boot.rst` (fields `header` and `kernel_version`),
//! `Documentation/arch/arm64/booting.rst` (`magic`), `drivers/firmware/efi/libstub/zboot-header.S`;
//! `linux_banner` in `init/version-timestamp.c`. Limit: in a compressed image for 64-bit ARM, the
//! release is not found; then the name of the file has to end with it. Old versions of QEMU do not
//! boot `zboot` images.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use flashfit_host::input_file::{self, InputFileError};

use crate::elf;

/// The largest header of those that are recognized.
const HEADER_BYTES: usize = 0x250;
/// What comes before the release in a kernel that is not compressed.
const BANNER: &[u8] = b"Linux version ";
const LONGEST_RELEASE: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImageFormat {
    /// The usual `vmlinuz` of x86.
    BzImage,
    /// A `vmlinux`.
    Elf,
    /// The `Image` of 64-bit ARM.
    Arm64,
    Gzip,
    /// The usual `vmlinuz` of 64-bit ARM since Linux 6.1, if it is compressed.
    EfiZboot,
    Unknown,
}

impl ImageFormat {
    fn of(header: &[u8]) -> Self {
        let has = |at: usize, magic: &[u8]| header.get(at..at + magic.len()) == Some(magic);
        if has(0x202, b"HdrS") {
            Self::BzImage
        } else if has(0, b"\x7fELF") {
            Self::Elf
        } else if has(56, b"ARM\x64") {
            Self::Arm64
        } else if has(0, b"\x1f\x8b") {
            Self::Gzip
        } else if has(0, b"MZ") && has(4, b"zimg") {
            Self::EfiZboot
        } else {
            Self::Unknown
        }
    }

    /// Why QEMU does not boot it on this machine, if so.
    fn refusal(self, image: &Path, is_arm: bool) -> Option<&'static str> {
        match (self, is_arm) {
            (Self::BzImage, false) | (Self::Arm64 | Self::Gzip | Self::EfiZboot, true) => None,
            (Self::Elf, false) if elf::has_pvh_entry(image) => None,
            (Self::Elf, false) => Some(
                "it is a vmlinux that QEMU cannot boot, without CONFIG_PVH; give the bzImage (vmlinuz)",
            ),
            (Self::Elf, true) => Some("it is a vmlinux, which QEMU cannot boot; give the Image"),
            (Self::BzImage, true) => Some("it is a kernel for x86, and this machine is 64-bit ARM"),
            (Self::Arm64, false) => Some("it is a kernel for 64-bit ARM, and this machine is x86"),
            (Self::Gzip, false) => {
                Some("it is compressed with gzip; decompress it, or give the bzImage (vmlinuz)")
            }
            (Self::EfiZboot, false) => {
                Some("it is a compressed EFI program (zboot) for 64-bit ARM")
            }
            (Self::Unknown, false) => {
                Some("it is neither a bzImage (vmlinuz) nor a vmlinux with a PVH entry")
            }
            (Self::Unknown, true) => Some("it is not an Image of 64-bit ARM, also not with gzip"),
        }
    }
}

/// The release of a kernel that QEMU can boot on this machine; `None` if it is not in the file.
///
/// # Errors
/// If the file cannot be read, or QEMU does not boot it.
pub(super) fn release(image: &Path, is_arm: bool) -> io::Result<Option<String>> {
    let mut file = input_file::open(image).map_err(InputFileError::into_io)?;
    let mut header = Vec::new();
    file.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    if header.len() < HEADER_BYTES {
        return Err(invalid("the file is too short for a kernel"));
    }
    let format = ImageFormat::of(&header);
    if let Some(why) = format.refusal(image, is_arm) {
        return Err(invalid(why));
    }
    match format {
        ImageFormat::BzImage => of_bzimage(&mut file, &header),
        _ => Ok(in_banner(&mut file)?.or_else(|| in_name(image))),
    }
}

fn of_bzimage(file: &mut File, header: &[u8]) -> io::Result<Option<String>> {
    let at = u64::from(u16::from_le_bytes([header[0x20e], header[0x20f]])) + 0x200;
    file.seek(SeekFrom::Start(at))?;
    let mut text = Vec::new();
    file.take(256).read_to_end(&mut text)?;
    Ok(first_word(&text))
}

/// The release in the banner of a kernel that is not compressed. A `vmlinux` can have a gigabyte of
/// debug information, so it is read in pieces.
fn in_banner(file: &mut File) -> io::Result<Option<String>> {
    file.rewind()?;
    let overlap = BANNER.len() + LONGEST_RELEASE;
    let mut piece = Vec::new();
    loop {
        let kept = piece.len().saturating_sub(overlap);
        piece.drain(..kept);
        let read = file.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut piece)?;
        let is_end = read == 0;
        for at in 0..piece.len().saturating_sub(BANNER.len()) {
            let behind = at + BANNER.len();
            // One that begins at the end of the piece is found in the next.
            let is_whole = is_end || behind + LONGEST_RELEASE <= piece.len();
            if is_whole && piece[at..behind] == *BANNER && piece[behind].is_ascii_digit() {
                return Ok(first_word(&piece[behind..]));
            }
        }
        if is_end {
            return Ok(None);
        }
    }
}

fn first_word(text: &[u8]) -> Option<String> {
    let text = text.split(|byte| *byte == 0).next()?;
    String::from_utf8_lossy(text).split_whitespace().next().map(str::to_owned)
}

/// `6.1.0-9` in `vmlinuz-6.1.0-9`.
fn in_name(image: &Path) -> Option<String> {
    let (_, release) = image.file_name()?.to_str()?.split_once('-')?;
    release.starts_with(|first: char| first.is_ascii_digit()).then(|| release.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where it is, and its bytes.
    type Magic<'a> = (usize, &'a [u8]);

    fn file(folder: &Path, magic: Magic<'_>, more: &[u8]) -> std::path::PathBuf {
        let mut bytes = vec![0; 0x400];
        bytes[magic.0..magic.0 + magic.1.len()].copy_from_slice(magic.1);
        bytes.extend_from_slice(more);
        let path = folder.join("vmlinux-5.0.0-name");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn formats_that_qemu_does_not_boot_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let cases: [(Magic<'_>, [&str; 2]); 6] = [
            ((0x202, b"HdrS"), ["", "for x86"]),
            ((0, b"\x7fELF"), ["CONFIG_PVH", "give the Image"]),
            ((56, b"ARM\x64"), ["for 64-bit ARM", ""]),
            ((0, b"\x1f\x8b\x08"), ["gzip", ""]),
            ((0, b"MZ\0\0zimg"), ["zboot", ""]),
            ((0, b"hello"), ["neither a bzImage", "not an Image"]),
        ];
        for (magic, expected) in cases {
            let path = file(folder.path(), magic, b"");
            for (expected, is_arm) in expected.into_iter().zip([false, true]) {
                match release(&path, is_arm) {
                    Ok(_) => assert_eq!(expected, "", "{magic:?} on ARM: {is_arm}"),
                    Err(error) => {
                        let text = error.to_string();
                        assert!(!expected.is_empty() && text.contains(expected), "{text}");
                    }
                }
            }
        }
        let short = folder.path().join("short");
        std::fs::write(&short, "MZ").unwrap();
        assert!(release(&short, false).unwrap_err().to_string().contains("too short"));
    }

    #[test]
    fn the_release_is_in_the_banner_or_in_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let banner = b"Linux version %s Linux version 6.12.9-test (a@b) #1";
        for padding in [0, CHUNK_BYTES - 0x400 - 30, CHUNK_BYTES - 0x400, 3 * CHUNK_BYTES] {
            let more = [&vec![0; padding][..], banner].concat();
            let path = file(folder.path(), (56, b"ARM\x64"), &more);
            assert_eq!(release(&path, true).unwrap().as_deref(), Some("6.12.9-test"), "{padding}");
        }
        let packed = file(folder.path(), (0, b"\x1f\x8b"), b"");
        assert_eq!(release(&packed, true).unwrap().as_deref(), Some("5.0.0-name"));
        let unnamed = folder.path().join("Image.gz");
        std::fs::rename(packed, &unnamed).unwrap();
        assert_eq!(release(&unnamed, true).unwrap(), None);
    }
}
