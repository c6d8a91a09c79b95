//! Writing a plan into the system's files: a line of fstab(5) and a rule of udev(7), each in a
//! marked block, with a copy of what was there before.

pub mod block;

use std::fs::File;
use std::path::{Path, PathBuf};

use flashfit_host::calendar;
use flashfit_host::program::find;
use flashfit_host::{Program, Runner, durable};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ApplyError;
use crate::job::ApplyJob;
use crate::verify::Verified;

pub(crate) const FSTAB: &str = "etc/fstab";
pub(crate) const RULES: &str = "etc/udev/rules.d/60-flashfit.rules";
/// There when udev runs.
const UDEV_SOCKET: &str = "/run/udev/control";

#[derive(Debug, Clone)]
pub struct InstallTarget {
    /// The root of the system: `/`, or the folder of an image.
    pub root: PathBuf,
    /// Whether the device has its own name in the kernel, by which a rule can match it.
    pub with_rule: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Installed {
    /// The files that were changed.
    #[serde(serialize_with = "flashfit_host::path_text::list")]
    pub changed: Vec<PathBuf>,
    /// Copies of what they were before.
    #[serde(serialize_with = "flashfit_host::path_text::list")]
    pub kept: Vec<PathBuf>,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl InstallTarget {
    /// Whether the system's files could take this work: looked at before the device is touched.
    ///
    /// # Errors
    /// When a file cannot be read, or has a line of somebody else's for the same mount point.
    pub fn check(&self, work: &ApplyJob) -> Result<(), ApplyError> {
        let path = self.path(FSTAB)?;
        let text = read(&path)?;
        let marked = |reason| ApplyError::SystemFile { path: path.clone(), reason };
        let lines = work.fstab_lines("", Some(""));
        let points: Vec<&str> = lines.lines().filter_map(mount_point).collect();
        let others = block::others(&text).map_err(marked)?;
        let taken = others.iter().filter_map(|line| mount_point(line));
        if let Some(point) = taken.into_iter().find(|point| points.contains(point)) {
            return Err(marked(format!("it already has a line for {point}")));
        }
        let rules = self.path(RULES)?;
        let marked = |reason| ApplyError::SystemFile { path: rules.clone(), reason };
        block::others(&read(&rules)?).map_err(marked).map(drop)
    }

    /// Lines of fstab that [`Self::write`] removes: those of earlier calls, for other file systems
    /// with the same mount points. The line for the old file system of this device is among them.
    ///
    /// # Errors
    /// When the file cannot be read, or a block in it has no end.
    pub fn replaced_lines(&self, work: &ApplyJob) -> Result<Vec<String>, ApplyError> {
        let path = self.path(FSTAB)?;
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
        self.put(FSTAB, uuid, &line, |body| have_same_point(body, &line), &mut done)?;
        if !self.with_rule {
            done.notes
                .push("no udev rule: an image has no kernel name that a rule could match".into());
            return Ok(done);
        }
        let rule = work.udev_rule.trim_end();
        self.put(RULES, uuid, rule, |body| body.trim_end() == rule, &mut done)?;
        if self.root == Path::new("/") {
            done.notes.extend(reload(runner));
        }
        Ok(done)
    }

    fn put(
        &self,
        name: &str,
        key: &str,
        body: &str,
        replaces: impl Fn(&str) -> bool,
        done: &mut Installed,
    ) -> Result<(), ApplyError> {
        let path = self.path(name)?;
        let before = read(&path)?;
        let marked = |reason| ApplyError::SystemFile { path: path.clone(), reason };
        let after = block::put(&before, key, body, replaces).map_err(marked)?;
        if after == before {
            return Ok(());
        }
        if path.exists() {
            let kept = copy_path(&path);
            let copied = std::fs::copy(&path, &kept).and_then(|_| File::open(&kept)?.sync_all());
            copied.map_err(ApplyError::file(&kept))?;
            durable::replace(&path, after.as_bytes()).map_err(ApplyError::file(&path))?;
            done.kept.push(kept);
        } else {
            let folder = path.parent().expect("its name has folders in it");
            std::fs::create_dir_all(folder).map_err(ApplyError::file(folder))?;
            durable::write(&path, after.as_bytes()).map_err(ApplyError::file(&path))?;
        }
        done.changed.push(path);
        Ok(())
    }

    /// A file of the system, with links resolved as long as they stay below the root: a new file is
    /// put in place of the old one, not in place of a link to it.
    pub(crate) fn path(&self, name: &str) -> Result<PathBuf, ApplyError> {
        let root = self.root.canonicalize().map_err(ApplyError::file(&self.root))?;
        let path = root.join(name);
        let exists = |path: &&Path| std::fs::symlink_metadata(path).is_ok();
        let there = path.ancestors().find(exists).unwrap_or(&root);
        let resolved = there.canonicalize().map_err(ApplyError::file(there))?;
        if !resolved.starts_with(&root) {
            let (there, to) = (there.display(), resolved.display());
            let reason = format!("{there} is a link to {to}, outside of {}", root.display());
            return Err(ApplyError::SystemFile { path, reason });
        }
        let rest = path.strip_prefix(there).expect("it is an ancestor");
        Ok(if rest.as_os_str().is_empty() { resolved } else { resolved.join(rest) })
    }
}

/// The text of a file; empty where there is none.
pub(crate) fn read(path: &Path) -> Result<String, ApplyError> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(ApplyError::file(path)),
    }
}

/// A free name next to a file: no earlier copy is overwritten.
fn copy_path(path: &Path) -> PathBuf {
    let stamp = calendar::stamp(calendar::unix_seconds());
    let name = |more: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".flashfit-{stamp}{more}"));
        PathBuf::from(name)
    };
    let mut names = std::iter::once(name("")).chain((1..).map(|count| name(&format!("-{count}"))));
    names.find(|name| !name.exists()).expect("the numbers do not end")
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

    #[test]
    fn a_folder_that_is_a_link_out_of_the_root_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        std::fs::create_dir_all(root.join("etc/udev")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let link = root.join("etc/udev/rules.d");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        let install = InstallTarget { root: root.clone(), with_rule: true };
        let error = install.path(RULES).unwrap_err().to_string();
        assert!(error.contains("outside of"), "{error}");
        std::fs::remove_file(&link).unwrap();
        std::fs::create_dir(root.join("rules")).unwrap();
        std::os::unix::fs::symlink("../../rules", &link).unwrap();
        let found = install.path(RULES).unwrap();
        assert_eq!(found, root.canonicalize().unwrap().join("rules/60-flashfit.rules"));
    }

    #[test]
    fn no_copy_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fstab");
        let first = copy_path(&path);
        std::fs::write(&first, "x").unwrap();
        assert_ne!(copy_path(&path), first);
    }
}
