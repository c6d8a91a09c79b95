//! Writing a plan into the system's files: a line of fstab(5) and a rule of udev(7), each in a
//! marked block, with a copy of what was there before.

pub mod block;
mod files;
mod rules;

use std::fs::File;
use std::path::{Path, PathBuf};

use flashfit_host::program::find;
use flashfit_host::{Program, Runner};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ApplyError;
use crate::job::ApplyJob;
use crate::verify::Verified;

pub use files::is_own_system;
pub(crate) use files::{check_writable, path_below, read, unwritable, write};
pub(crate) use rules::put as put_rule;

pub(crate) const FSTAB: &str = "etc/fstab";
pub(crate) const RULES: &str = "etc/udev/rules.d/60-flashfit.rules";
/// Why a system below another root gets no rule.
pub(crate) const NO_RULE_ELSEWHERE: &str =
    "no udev rule: that system may have another kernel name for the device";
/// There when udev runs.
const UDEV_SOCKET: &str = "/run/udev/control";

#[derive(Debug, Clone)]
pub struct InstallTarget {
    /// The root of the system: `/`, or the folder of another one.
    pub root: PathBuf,
    pub rule: RulePlacement,
}

/// What becomes of the udev rule, which matches the device by its name in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulePlacement {
    Written,
    /// An image has no such name.
    Unnamed,
    /// In the system whose files are changed, the device may have another name.
    NamedElsewhere,
}

impl RulePlacement {
    /// Where the system below `root` is to use a device, or an image of one.
    pub fn of(root: &Path, is_image: bool) -> Self {
        match (is_image, is_own_system(root)) {
            (true, _) => Self::Unnamed,
            (false, true) => Self::Written,
            (false, false) => Self::NamedElsewhere,
        }
    }

    /// Why no rule is written.
    fn note(self) -> Option<&'static str> {
        match self {
            Self::Written => None,
            Self::Unnamed => {
                Some("no udev rule: an image has no kernel name that a rule could match")
            }
            Self::NamedElsewhere => Some(NO_RULE_ELSEWHERE),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Installed {
    /// The files that were changed.
    #[serde(serialize_with = "flashfit_host::path_text::list")]
    pub changed: Vec<PathBuf>,
    /// Copies of what they were before.
    #[serde(serialize_with = "flashfit_host::path_text::list")]
    pub kept: Vec<PathBuf>,
    /// Whether the udev rule is in place, too.
    #[serde(skip)]
    pub has_rule: bool,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl InstallTarget {
    /// Whether the system's files could take this work: looked at before the device is touched.
    ///
    /// # Errors
    /// When a file cannot be read or written, or has a line of somebody else's for the same mount
    /// point.
    pub fn check(&self, work: &ApplyJob) -> Result<(), ApplyError> {
        let path = path_below(&self.root, FSTAB)?;
        let text = read(&path)?;
        let marked = |reason| ApplyError::SystemFile { path: path.clone(), reason };
        let lines = work.fstab_lines("", Some(""));
        let points: Vec<&str> = lines.lines().filter_map(mount_point).collect();
        let others = block::others(&text).map_err(marked)?;
        let taken = others.iter().filter_map(|line| mount_point(line));
        if let Some(point) = taken.into_iter().find(|point| points.contains(point)) {
            return Err(marked(format!("it already has a line for {point}")));
        }
        check_writable(&path)?;
        if self.rule != RulePlacement::Written {
            return Ok(());
        }
        let rules = path_below(&self.root, RULES)?;
        let marked = |reason| ApplyError::SystemFile { path: rules.clone(), reason };
        block::others(&read(&rules)?).map_err(marked)?;
        check_writable(&rules)
    }

    /// Lines of fstab that [`Self::write`] removes: those of earlier calls, for other file systems
    /// with the same mount points. The line for the old file system of this device is among them.
    ///
    /// # Errors
    /// When the file cannot be read, or a block in it has no end.
    pub fn replaced_lines(&self, work: &ApplyJob) -> Result<Vec<String>, ApplyError> {
        let path = path_below(&self.root, FSTAB)?;
        let lines = work.fstab_lines("", Some(""));
        let bodies = block::bodies(&read(&path)?)
            .map_err(|reason| ApplyError::SystemFile { path, reason })?;
        let replaced = bodies.iter().filter(|body| have_same_point(body, &lines));
        Ok(replaced.flat_map(|body| body.lines()).map(str::to_owned).collect())
    }

    /// Writes the line and the rule for the file system with this UUID.
    ///
    /// # Errors
    /// When a file cannot be read or replaced; it is then as it was.
    pub fn write(
        &self,
        runner: &dyn Runner,
        work: &ApplyJob,
        verified: &Verified,
        uuid: &str,
    ) -> Result<Installed, ApplyError> {
        let mut done = Installed::default();
        let line = work.fstab_lines(uuid, verified.second_uuid.as_deref());
        let with_lines =
            |before: &str| block::put(before, uuid, &line, |body| have_same_point(body, &line));
        self.put(FSTAB, with_lines, &mut done)?;
        if let Some(note) = self.rule.note() {
            done.notes.push(note.to_owned());
            return Ok(done);
        }
        self.put(RULES, |before| rules::put(before, &work.udev_rule), &mut done)?;
        done.has_rule = true;
        if is_own_system(&self.root) {
            done.notes.extend(reload(runner));
        }
        Ok(done)
    }

    fn put(
        &self,
        name: &str,
        changed: impl FnOnce(&str) -> Result<String, String>,
        done: &mut Installed,
    ) -> Result<(), ApplyError> {
        let path = path_below(&self.root, name)?;
        let before = read(&path)?;
        let marked = |reason| ApplyError::SystemFile { path: path.clone(), reason };
        let after = changed(&before).map_err(marked)?;
        if after == before {
            return Ok(());
        }
        if path.exists() {
            let kept = files::copy_path(&path);
            let copied = std::fs::copy(&path, &kept).and_then(|_| File::open(&kept)?.sync_all());
            copied.map_err(unwritable(&kept))?;
            done.kept.push(kept);
        }
        write(&path, &after)?;
        done.changed.push(path);
        Ok(())
    }
}

/// Whether two texts of fstab(5) have a line for the same mount point.
fn have_same_point(one: &str, other: &str) -> bool {
    let points: Vec<&str> = other.lines().filter_map(mount_point).collect();
    one.lines().filter_map(mount_point).any(|point| points.contains(&point))
}

/// The second field of a line of fstab(5).
fn mount_point(line: &str) -> Option<&str> {
    let mut fields = line.split_whitespace();
    let first = fields.next().filter(|first| !first.starts_with('#'))?;
    let _ = first;
    let point = fields.next().filter(|point| point.starts_with('/'))?;
    let bare = point.trim_end_matches('/');
    Some(if bare.is_empty() { "/" } else { bare })
}

/// Makes udev read its rules again; why it could not.
pub(crate) fn reload(runner: &dyn Runner) -> Option<String> {
    if !Path::new(UDEV_SOCKET).exists() || find("udevadm").is_none() {
        return None;
    }
    let udevadm = Program::new("udevadm").args(["control", "--reload"]);
    let error = runner.run_checked(&udevadm).err()?;
    Some(format!("the rule takes effect at the next start: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_of_lines() {
        assert_eq!(mount_point("UUID=1 /mnt/a ext4 noatime 0 2"), Some("/mnt/a"));
        assert_eq!(mount_point("LABEL=a\t/mnt/a/ ext4\r\n"), Some("/mnt/a"));
        assert_eq!(mount_point("LABEL=a / ext4"), Some("/"));
        assert_eq!(mount_point("# UUID=1 /mnt/a ext4"), None);
        assert_eq!(mount_point("/dev/sda2 none swap sw 0 0"), None);
        assert_eq!(mount_point(""), None);
    }
}
