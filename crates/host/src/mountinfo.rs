//! Parses `/proc/PID/mountinfo`, the list of mounts (proc(5)).

use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// `major:minor` of the device; anonymous (major 0) for btrfs.
    pub device: (u32, u32),
    /// The mount point.
    pub point: PathBuf,
    /// Per-mount options.
    pub options: String,
    /// The file system type.
    pub kind: String,
    /// The source as given to mount(2), usually a device node.
    pub source: String,
    /// Options of the file system.
    pub super_options: String,
}

/// All mounts in this thread's namespace.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn read() -> std::io::Result<Vec<MountEntry>> {
    // Per thread, because only one thread may have entered a private namespace.
    Ok(parse(&std::fs::read_to_string("/proc/thread-self/mountinfo")?))
}

/// The mount at exactly `point`; the topmost one if several are stacked.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn at(point: &Path) -> std::io::Result<Option<MountEntry>> {
    Ok(read()?.into_iter().rev().find(|entry| entry.point == point))
}

/// Parses the text of a mountinfo file and skips malformed lines.
pub fn parse(text: &str) -> Vec<MountEntry> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<MountEntry> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let mut right = right.split(' ');
    let (major, minor) = left.get(2)?.split_once(':')?;
    Some(MountEntry {
        device: (major.parse().ok()?, minor.parse().ok()?),
        point: PathBuf::from(unescape(left.get(4)?)),
        options: (*left.get(5)?).to_owned(),
        kind: right.next()?.to_owned(),
        source: unescape(right.next()?),
        super_options: right.next().unwrap_or_default().to_owned(),
    })
}

/// Decodes the octal escapes of space, tab, newline and backslash; `/proc/swaps` uses them too.
pub fn unescape(word: &str) -> String {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
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
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_optional_fields_are_parsed() {
        let text = "36 35 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 - ext4 /dev/sda1 rw,errors=x\n\
                    37 35 0:40 / /m rw - btrfs /dev/loop0 rw,ssd\nnonsense\n";
        let entries = parse(text);
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].point, PathBuf::from("/mnt/a b"));
        assert_eq!(entries[0].device, (98, 0));
        assert_eq!(entries[1].source, "/dev/loop0");
        assert_eq!(entries[1].super_options, "rw,ssd");
    }

    #[test]
    fn this_machine_has_a_root_mount() {
        assert!(read().unwrap().iter().any(|entry| entry.point == Path::new("/")));
    }
}
