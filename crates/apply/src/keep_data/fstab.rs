//! Options of lines in fstab(5): found by what a line names, and changed without touching anything
//! else in the text.

use flashfit_filesystem::improvement::{ImprovedVolume, merged};

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
                let (from, to) = line_fields[3];
                changed.push_str(&line[..from]);
                changed.push_str(&merged(&line[from..to], options));
                changed.push_str(&line[to..]);
            }
            _ => changed.push_str(line),
        }
    }
    FstabChange { text: changed, found }
}

/// Where the first four fields of a line are; `None` for comments and lines with fewer.
fn fields(line: &str) -> Option<[(usize, usize); 4]> {
    if line.trim_start().starts_with('#') {
        return None;
    }
    let mut found = [(0, 0); 4];
    let mut at = 0;
    for field in &mut found {
        let rest = &line[at..];
        let from = at + rest.find(|c: char| !c.is_whitespace())?;
        let length = line[from..].find(char::is_whitespace).unwrap_or(line.len() - from);
        *field = (from, from + length);
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
    if field(2) == "swap" {
        return false;
    }
    let by_tag = |tag: &str, folder: &str, value: &Option<String>| {
        let Some(value) = value else { return false };
        let spec = field(0);
        let given = spec.strip_prefix(tag).and_then(|rest| rest.strip_prefix('='));
        let given = given.map(|given| given.trim_matches('"'));
        let linked = spec.strip_prefix("/dev/disk/").and_then(|rest| rest.strip_prefix(folder));
        let linked = linked.and_then(|rest| rest.strip_prefix('/'));
        given.or(linked).is_some_and(|given| given.eq_ignore_ascii_case(value))
    };
    by_tag("UUID", "by-uuid", &volume.uuid)
        || by_tag("LABEL", "by-label", &volume.label)
        || by_tag("PARTUUID", "by-partuuid", &volume.partition_uuid)
        || (nodes && field(0) == volume.name)
        || points.iter().any(|point| *point == unescaped(field(1)))
}

/// fstab(5) writes a space as `\040`.
fn unescaped(field: &str) -> String {
    let plain = field.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
    match plain.trim_end_matches('/') {
        "" if !plain.is_empty() => "/".to_owned(),
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
        let boot =
            ImprovedVolume { uuid: Some("ab-cd".to_owned()), partition_uuid: None, ..volume() };
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
    fn swap_and_comments_stay() {
        let swap = ImprovedVolume { name: "/dev/mmcblk0p3".to_owned(), ..volume() };
        let none = ImprovedVolume { uuid: None, partition_uuid: None, ..swap };
        assert_eq!(changed(&none, &[], true), FstabChange { text: TEXT.to_owned(), found: 0 });
    }
}
