//! Parses `/proc/PID/mountinfo`, the list of mounts (proc(5)). Names in it are bytes: one that is
//! not UTF-8 must not hide the other mounts.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// The kernel's number of the mount.
    pub id: u32,
    /// `major:minor` of the device; anonymous (major 0) for btrfs.
    pub device: (u32, u32),
    pub point: PathBuf,
    /// Per-mount options.
    pub options: String,
    /// The file system type.
    pub kind: String,
    /// The source as given to mount(2), usually a device node.
    pub source: PathBuf,
    /// Options of the file system.
    pub super_options: String,
}

/// All mounts in this thread's namespace.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn read() -> std::io::Result<Vec<MountEntry>> {
    // Per thread, because only one thread may have entered a private namespace.
    Ok(parse(&std::fs::read("/proc/thread-self/mountinfo")?))
}

/// The mount at exactly `point`; the topmost one if several are stacked.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn at(point: &Path) -> std::io::Result<Option<MountEntry>> {
    Ok(read()?.into_iter().rev().find(|entry| entry.point == point))
}

/// The mount through which an open file is seen, whatever else is mounted at its path.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn of_open(file: impl AsFd) -> std::io::Result<Option<MountEntry>> {
    let descriptor = file.as_fd().as_raw_fd();
    let text = std::fs::read_to_string(format!("/proc/thread-self/fdinfo/{descriptor}"))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    Ok(read()?.into_iter().find(|entry| Some(entry.id) == id))
}

/// Parses the text of a mountinfo file and skips malformed lines.
pub fn parse(text: &[u8]) -> Vec<MountEntry> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    // Optional fields end with a hyphen (proc_pid_mountinfo(5)).
    let end = 6 + words.get(6..)?.iter().position(|word| *word == b"-")?;
    let right = &words[end + 1..];
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let device = text(words[2]);
    let (major, minor) = device.split_once(':')?;
    Some(MountEntry {
        id: text(words[0]).parse().ok()?,
        device: (major.parse().ok()?, minor.parse().ok()?),
        point: unescape(words[4]).into(),
        options: text(words[5]),
        kind: text(right.first()?),
        source: unescape(right.get(1)?).into(),
        super_options: right.get(2).map_or_else(String::new, |word| text(word)),
    })
}

/// Decodes the octal escapes of space, tab, newline and backslash; `/proc/swaps` uses them too.
pub fn unescape(word: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let octal = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if first == b'\\' => {
                plain.push(byte);
                rest = &tail[3..];
            }
            _ => {
                plain.push(first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_optional_fields_are_parsed() {
        let text = b"36 35 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 - ext4 /dev/sda1 rw,errors=x\n\
                    37 35 0:40 / /m rw - btrfs /dev/loop0 rw,ssd\nnonsense\n - \n1 2 3:4 / /m rw -\n";
        let entries = parse(text);
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].point, PathBuf::from("/mnt/a b"));
        assert_eq!((entries[0].id, entries[0].device), (36, (98, 0)));
        assert_eq!(entries[1].source, Path::new("/dev/loop0"));
        assert_eq!(entries[1].super_options, "rw,ssd");
    }

    #[test]
    fn a_name_that_is_not_utf8_hides_no_mount() {
        use std::os::unix::ffi::OsStrExt;
        let entries =
            parse(b"1 2 7:0 / /m\xff rw - ext4 /dev/\xfe rw\n2 2 7:1 / /n rw - xfs /d rw\n");
        assert_eq!(entries[0].point.as_os_str().as_bytes(), b"/m\xff");
        assert_eq!(entries[0].source.as_os_str().as_bytes(), b"/dev/\xfe");
        assert_eq!(entries[1].point, Path::new("/n"));
    }

    #[test]
    fn this_machine_has_a_root_mount() {
        assert!(read().unwrap().iter().any(|entry| entry.point == Path::new("/")));
        let proc = std::fs::File::open("/proc").unwrap();
        assert_eq!(of_open(&proc).unwrap().unwrap().kind, "proc");
    }
}
