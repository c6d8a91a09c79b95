//! Writes initramfs archives in cpio's "new ASCII" format.
//!
//! Source: the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`. Limits: no
//! hard links; the format limits names to 4095 bytes and files to 4 GiB.

use std::io::{self, Read, Write};

const KIND_FOLDER: u32 = 0o040_000;
const KIND_FILE: u32 = 0o100_000;
const KIND_LINK: u32 = 0o120_000;
const KIND_CHARACTER: u32 = 0o020_000;

/// Writes an archive entry by entry; directories must precede their content.
pub(crate) struct CpioWriter<W> {
    to: W,
    entries: u32,
}

impl<W: Write> CpioWriter<W> {
    pub(crate) fn new(to: W) -> Self {
        Self { to, entries: 0 }
    }

    pub(crate) fn folder(&mut self, path: &str, mode: u32) -> io::Result<()> {
        self.header(path, KIND_FOLDER | mode, 0, (0, 0))
    }

    pub(crate) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.file(path, KIND_LINK | 0o777, target.as_bytes())
    }

    pub(crate) fn character(&mut self, path: &str, mode: u32, at: (u32, u32)) -> io::Result<()> {
        self.header(path, KIND_CHARACTER | mode, 0, at)
    }

    pub(crate) fn bytes(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.file(path, KIND_FILE | mode, bytes)
    }

    /// Adds a file with the first `length` bytes of `from`; fewer are an error.
    pub(crate) fn copy(
        &mut self,
        path: &str,
        mode: u32,
        from: impl Read,
        length: u64,
    ) -> io::Result<()> {
        let length = u32::try_from(length).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, "larger than a cpio archive takes")
        })?;
        self.header(path, KIND_FILE | mode, length, (0, 0))?;
        let copied = io::copy(&mut from.take(u64::from(length)), &mut self.to)?;
        if copied != u64::from(length) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
        }
        self.pad(u64::from(length))
    }

    pub(crate) fn end(mut self) -> io::Result<W> {
        self.header("TRAILER!!!", 0, 0, (0, 0))?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, "larger than a cpio archive takes")
        })?;
        self.header(path, mode, length, (0, 0))?;
        self.to.write_all(bytes)?;
        self.pad(u64::from(length))
    }

    fn header(&mut self, path: &str, mode: u32, length: u32, at: (u32, u32)) -> io::Result<()> {
        self.entries += 1;
        let name_bytes = path.len() + 1;
        // inode, mode, user, group, links, time, size, device (2), special file's device (2), name,
        // checksum
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            length,
            0,
            0,
            at.0,
            at.1,
            u32::try_from(name_bytes).unwrap_or(u32::MAX),
            0,
        ];
        self.to.write_all(b"070701")?;
        for field in fields {
            write!(self.to, "{field:08x}")?;
        }
        self.to.write_all(path.as_bytes())?;
        self.to.write_all(&[0])?;
        self.pad(110 + name_bytes as u64)
    }

    fn pad(&mut self, length: u64) -> io::Result<()> {
        let missing = (4 - length % 4) % 4;
        self.to.write_all(&[0; 3][..usize::try_from(missing).expect("at most 3")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_contents_are_aligned_to_four_bytes() {
        let mut archive = CpioWriter::new(Vec::new());
        archive.folder("a", 0o755).unwrap();
        archive.bytes("a/b", 0o644, b"hello").unwrap();
        archive.link("a/c", "b").unwrap();
        archive.character("dev", 0o600, (5, 1)).unwrap();
        let bytes = archive.end().unwrap();
        let starts: Vec<usize> = bytes
            .windows(6)
            .enumerate()
            .filter(|(_, w)| *w == b"070701")
            .map(|(at, _)| at)
            .collect();
        assert_eq!(starts.len(), 5);
        assert!(starts.iter().all(|at| at % 4 == 0) && bytes.len() % 4 == 0);
        assert!(bytes.windows(8).any(|w| w == b"hello\0\0\0"));
    }

    #[test]
    fn other_programs_can_read_the_archive() {
        if flashfit_test_support::skip(flashfit_test_support::program("busybox")) {
            return;
        }
        let busybox = flashfit_host::program::find("busybox").unwrap();
        let mut archive = CpioWriter::new(Vec::new());
        archive.folder("a", 0o755).unwrap();
        archive.copy("a/b", 0o644, &b"hello and more"[..], 5).unwrap();
        archive.link("a/c", "b").unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.cpio"), archive.end().unwrap()).unwrap();
        let unpacked = std::process::Command::new(busybox)
            .args(["cpio", "-idm", "-F", "x.cpio"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(unpacked.status.success(), "{unpacked:?}");
        assert_eq!(std::fs::read(folder.path().join("a/c")).unwrap(), b"hello");
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let mut archive = CpioWriter::new(Vec::new());
        assert!(archive.copy("a", 0o644, &b"abc"[..], 5).is_err());
    }
}
