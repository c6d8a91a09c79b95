//! Options of lines in fstab(5): found by what a line names, and changed without touching anything
//! else in the text. The mount point counts only where the first field says nothing: another device
//! may have the same one.

use std::path::Path;

use flashfit_filesystem::improvement::{ImprovedVolume, merged};
use flashfit_filesystem::recipe::escape;

/// A text with changed lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FstabChange {
    pub text: String,
    /// How many lines name the file system.
    pub found: usize,
}

/// Adds options to the lines of a file system. `points` are its mount points as the system of this
/// fstab names them; `nodes` says whether the names of nodes are those of this machine.
pub fn with_options(
    text: &str,
    volume: &ImprovedVolume,
    points: &[String],
    nodes: bool,
    options: &[String],
) -> FstabChange {
    let mut found = 0;
    let mut changed = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match fields(line) {
            Some(line_fields) if names(line, &line_fields, volume, points, nodes) => {
                found += 1;
                // Without a fourth field, the options are the defaults.
                let (from, to) = line_fields[3];
                let (gap, before) = match &line[from..to] {
                    "" => (" ", "defaults"),
                    before => ("", before),
                };
                changed.push_str(&line[..from]);
                changed.push_str(gap);
                changed.push_str(&merged(before, options));
                changed.push_str(&line[to..]);
            }
            _ => changed.push_str(line),
        }
    }
    FstabChange { text: changed, found }
}

/// A line for a file system that has none. It does not stop the start where the device is absent.
pub fn new_line(name: &str, point: &str, kind: &str, options: &[String]) -> String {
    let nofail = if point == "/" { "" } else { ",nofail" };
    let pass = match (point, kind) {
        ("/", _) => 1,
        (_, "ext2" | "ext3" | "ext4") => 2,
        _ => 0,
    };
    let point = escape(point);
    format!("{name} {point} {kind} {}{nofail} 0 {pass}", options.join(","))
}

/// Where the first four fields of a line are; the fourth one is empty, at the end of the third,
/// where there is none. `None` for comments and lines with fewer.
fn fields(line: &str) -> Option<[(usize, usize); 4]> {
    if line.trim_start().starts_with('#') {
        return None;
    }
    let mut found = [(0, 0); 4];
    let mut at = 0;
    for index in 0..found.len() {
        let Some(gap) = line[at..].find(|c: char| !c.is_whitespace()) else {
            found[index] = (at, at);
            return (index == 3).then_some(found);
        };
        let from = at + gap;
        let length = line[from..].find(char::is_whitespace).unwrap_or(line.len() - from);
        found[index] = (from, from + length);
        at = from + length;
    }
    Some(found)
}

fn names(
    line: &str,
    fields: &[(usize, usize); 4],
    volume: &ImprovedVolume,
    points: &[String],
    nodes: bool,
) -> bool {
    let field = |index: usize| &line[fields[index].0..fields[index].1];
    if field(2) == "swap" || !is_of_kind(field(2), &volume.kind) {
        return false;
    }
    let is_mounted_there = || points.contains(&folder(&unescaped(field(1))));
    is_named(&unescaped(field(0)), volume, nodes).unwrap_or_else(is_mounted_there)
}

/// Whether the first field of a line names the file system; `None` where that cannot be said.
fn is_named(source: &str, volume: &ImprovedVolume, nodes: bool) -> Option<bool> {
    // Once its UUID was read, a label that is not known is one that it does not have.
    let is_read = volume.uuid.is_some();
    let compared = |value: &Option<String>, is_same: &dyn Fn(&str) -> bool| match value {
        Some(value) => Some(is_same(value)),
        None => is_read.then_some(false),
    };
    let by_path = source.strip_prefix("/dev/disk/by-").and_then(|rest| rest.split_once('/'));
    let (tag, value) = match (by_path, source.split_once('=')) {
        (Some((tag, value)), _) => (tag.to_uppercase(), value_of_link(value)),
        (None, Some((tag, value))) => (tag.to_owned(), value.trim_matches('"').to_owned()),
        (None, None) => (String::new(), String::new()),
    };
    let ignoring_case = |known: &str| known.eq_ignore_ascii_case(&value);
    match tag.as_str() {
        "UUID" => compared(&volume.uuid, &ignoring_case),
        "PARTUUID" => compared(&volume.partition_uuid, &ignoring_case),
        "LABEL" => compared(&volume.label, &|known| known == value),
        _ if source.starts_with("/dev/") => {
            let is_node = nodes && source != "/dev/root";
            is_node.then(|| source == volume.name || leads_to(source, &volume.name))
        }
        // A folder that is mounted a second time, or an image.
        _ if source.starts_with('/') => Some(false),
        _ => None,
    }
}

fn leads_to(link: &str, node: &str) -> bool {
    match (Path::new(link).canonicalize(), Path::new(node).canonicalize()) {
        (Ok(found), Ok(node)) => found == node,
        _ => false,
    }
}

/// Whether a type in fstab is that of a file system: one driver may have several names for it.
fn is_of_kind(kinds: &str, kind: &str) -> bool {
    let family = |kind: &str| match kind {
        "ext2" | "ext3" => "ext4".to_owned(),
        "msdos" => "vfat".to_owned(),
        "ntfs3" | "ntfs-3g" | "fuseblk" => "ntfs".to_owned(),
        other => other.to_owned(),
    };
    kinds == "auto" || kinds.split(',').any(|named| family(named) == family(kind))
}

/// fstab(5) writes a space as `\040`.
fn unescaped(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

/// udev(7) writes a space in the name of a link as `\x20`.
fn value_of_link(name: &str) -> String {
    let mut parts = name.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => bytes.extend(format!("\\x{part}").bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn folder(point: &str) -> String {
    match point.trim_end_matches('/') {
        "" if !point.is_empty() => "/".to_owned(),
        bare => bare.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# /etc/fstab\nproc /proc proc defaults 0 0\n\
        PARTUUID=6c586e13-02\t/  ext4   defaults,relatime\t0 1\n\
        UUID=\"AB-CD\" /boot vfat defaults 0 2 # ours\n/dev/mmcblk0p3 none swap sw 0 0\n\
        /dev/mmcblk0p4 /a\\040b ext4 noauto";

    fn volume() -> ImprovedVolume {
        ImprovedVolume {
            name: "/dev/mmcblk0p2".to_owned(),
            start_bytes: 0,
            kind: "ext4".to_owned(),
            uuid: Some("1-2".to_owned()),
            label: None,
            partition_uuid: Some("6c586e13-02".to_owned()),
            mount_points: Vec::new(),
        }
    }

    fn changed(volume: &ImprovedVolume, points: &[&str], nodes: bool) -> FstabChange {
        let points: Vec<String> = points.iter().map(|point| (*point).to_owned()).collect();
        with_options(TEXT, volume, &points, nodes, &["noatime".to_owned()])
    }

    #[test]
    fn only_the_options_of_the_line_change() {
        let by_tag = changed(&volume(), &[], false);
        assert_eq!(by_tag.found, 1);
        assert_eq!(by_tag.text, TEXT.replace("defaults,relatime\t", "defaults,noatime\t"));
        let boot = ImprovedVolume {
            kind: "vfat".to_owned(),
            uuid: Some("ab-cd".to_owned()),
            partition_uuid: None,
            ..volume()
        };
        let boot = changed(&boot, &[], false);
        assert_eq!(boot.text, TEXT.replace("vfat defaults 0", "vfat defaults,noatime 0"));
    }

    #[test]
    fn a_line_is_found_by_mount_point_and_by_node_of_this_machine() {
        let other = ImprovedVolume {
            name: "/dev/mmcblk0p4".to_owned(),
            uuid: None,
            partition_uuid: None,
            ..volume()
        };
        assert_eq!(changed(&other, &[], false).found, 0);
        assert_eq!(changed(&other, &[], true).text, format!("{TEXT},noatime"));
        assert_eq!(changed(&other, &["/a b"], false).text, format!("{TEXT},noatime"));
        assert_eq!(changed(&other, &["/"], false).found, 1);
    }

    #[test]
    fn a_line_without_options_gets_them() {
        let with = |line: &str| {
            let changed = with_options(line, &volume(), &[], false, &["noatime".to_owned()]);
            assert_eq!(changed.found, 1, "{line}");
            changed.text
        };
        assert_eq!(with("UUID=1-2 /d5 ext4\nx"), "UUID=1-2 /d5 ext4 defaults,noatime\nx");
        assert_eq!(with("UUID=1-2\t/d5 ext4 \r\n"), "UUID=1-2\t/d5 ext4 defaults,noatime \r\n");
        assert_eq!(with("UUID=1-2 /d5 ext4"), "UUID=1-2 /d5 ext4 defaults,noatime");
        let two = with_options("UUID=1-2 /d5\n", &volume(), &[], false, &["ro".to_owned()]);
        assert_eq!(two.found, 0);
    }

    #[test]
    fn a_new_line_has_the_form_of_fstab() {
        let options = ["noatime".to_owned(), "commit=60".to_owned()];
        assert_eq!(
            new_line("UUID=1-2", "/a b", "ext4", &options),
            "UUID=1-2 /a\\040b ext4 noatime,commit=60,nofail 0 2"
        );
        assert_eq!(
            new_line("UUID=1-2", "/", "btrfs", &options[..1]),
            "UUID=1-2 / btrfs noatime 0 1"
        );
    }

    #[test]
    fn swap_and_comments_stay() {
        let swap = ImprovedVolume { name: "/dev/mmcblk0p3".to_owned(), ..volume() };
        let none = ImprovedVolume { uuid: None, partition_uuid: None, ..swap };
        assert_eq!(changed(&none, &[], true), FstabChange { text: TEXT.to_owned(), found: 0 });
    }

    /// Whether a line is that of a labelled ext4 on this machine that is mounted on `/data`.
    fn is_own(line: &str) -> bool {
        let card = ImprovedVolume { label: Some("DATA 1".to_owned()), ..volume() };
        let options = &["noatime".to_owned()];
        with_options(line, &card, &["/data".to_owned()], true, options).found == 1
    }

    #[test]
    fn a_line_of_another_device_is_not_found_by_its_mount_point() {
        for own in [
            "UUID=1-2 /data ext4 noauto",
            "UUID=1-2 /elsewhere auto noauto",
            "LABEL=DATA\\0401 /elsewhere ext3 defaults",
            "/dev/disk/by-label/DATA\\x201 /elsewhere vfat,ext4 defaults",
            "PARTUUID=6C586E13-02 /data ext4 defaults",
            "/dev/mmcblk0p2 /elsewhere ext4 defaults",
            "/dev/root /data ext4 defaults",
            "PARTLABEL=data /data ext4 defaults",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "UUID=1111 /data xfs noauto,user",
            "UUID=1111 /data ext4 noauto,user",
            "UUID=1-2 /data xfs noauto",
            "LABEL=data\\0401 /data ext4 defaults",
            "LABEL=DATA /data ext4 defaults",
            "/dev/disk/by-uuid/1111 /data ext4 defaults",
            "PARTUUID=6c586e13-03 /data ext4 defaults",
            "/dev/mmcblk7p9 /data ext4 defaults",
            "/dev/disk/by-id/mmc-other /data ext4 defaults",
            "/srv/files /data none bind",
            "/srv/files /data auto bind",
            "tmpfs /data tmpfs defaults",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn a_label_that_the_file_system_lacks_is_that_of_another() {
        let points = ["/data".to_owned()];
        let found = |line, volume: &ImprovedVolume| {
            with_options(line, volume, &points, false, &["noatime".to_owned()]).found
        };
        assert_eq!(found("LABEL=data /data ext4 defaults", &volume()), 0);
        let unread = ImprovedVolume { uuid: None, ..volume() };
        assert_eq!(found("LABEL=data /data ext4 defaults", &unread), 1);
        assert_eq!(found("/dev/mmcblk7p9 /data ext4 defaults", &volume()), 1, "another machine's");
    }
}
