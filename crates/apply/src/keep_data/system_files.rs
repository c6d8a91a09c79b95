//! Changes of fstab(5) and of the udev(7) rules: computed before the user agrees, made in one
//! replacement each, and taken back line by line if somebody changed the file since.

use std::path::{Path, PathBuf};

use flashfit_host::durable;

use crate::error::ApplyError;
use crate::install::{FSTAB, InstallTarget, RULES, block, read, reload};
use crate::steps::ApplyTools;

use super::ImprovementStep;
use flashfit_filesystem::improvement::ImprovedVolume;

/// The text of a file of the system, and what it is going to be.
#[derive(Debug, Clone)]
pub(super) struct FileDraft {
    path: PathBuf,
    before: Option<String>,
    after: String,
}

impl FileDraft {
    pub(super) fn fstab(root: &Path) -> Result<Self, ApplyError> {
        Self::of(root, FSTAB)
    }

    pub(super) fn rules(root: &Path) -> Result<Self, ApplyError> {
        Self::of(root, RULES)
    }

    fn of(root: &Path, name: &str) -> Result<Self, ApplyError> {
        let target = InstallTarget { root: root.to_owned(), with_rule: true };
        let path = target.path(name)?;
        let text = read(&path)?;
        let before = path.exists().then(|| text.clone());
        Ok(Self { path, before, after: text })
    }

    /// Adds mount options to the lines of a file system. `Some(true)` where a line changes, `None`
    /// where it has no line.
    pub(super) fn add_options(
        &mut self,
        volume: &ImprovedVolume,
        root: &Path,
        options: &[String],
    ) -> Option<bool> {
        let points: Vec<String> =
            volume.mount_points.iter().filter_map(|point| below(root, point)).collect();
        let is_own = root == Path::new("/");
        let change = super::fstab::with_options(&self.after, volume, &points, is_own, options);
        let changes = change.text != self.after;
        self.after = change.text;
        (change.found > 0).then_some(changes)
    }

    /// Adds the rule that gives an attribute of a disk's queue its value.
    pub(super) fn add_rule(
        &mut self,
        disk: &str,
        attribute: &str,
        value: &str,
    ) -> Result<(), ApplyError> {
        let rule = flashfit_filesystem::scheduler::udev_queue_rule(disk, attribute, value);
        let key = format!("{disk} queue/{attribute}");
        let marked = |reason| ApplyError::SystemFile { path: self.path.clone(), reason };
        self.after = block::put(&self.after, &key, rule.trim_end(), |_| false).map_err(marked)?;
        Ok(())
    }

    /// The step that writes this change; `None` if the file has it already.
    pub(super) fn step(self) -> Option<ImprovementStep> {
        let Self { path, before, after } = self;
        (before.as_deref().unwrap_or_default() != after).then_some(ImprovementStep::SystemFile {
            path,
            before,
            after,
        })
    }
}

/// A mount point as the system below `root` names it.
fn below(root: &Path, point: &str) -> Option<String> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let rest = Path::new(point).strip_prefix(root).ok()?;
    Some(format!("/{}", rest.display()))
}

/// Replaces the file, unless it is not as it was shown.
pub(super) fn write(
    tools: &ApplyTools<'_>,
    path: &Path,
    before: Option<&str>,
    after: &str,
) -> Result<Option<String>, ApplyError> {
    let now = read(path)?;
    if now == after {
        return Ok(None);
    }
    if now != before.unwrap_or_default() {
        let reason = "it has changed since it was displayed".to_owned();
        return Err(ApplyError::SystemFile { path: path.to_owned(), reason });
    }
    replace(path, after)?;
    Ok(reloaded(tools, path))
}

fn replace(path: &Path, text: &str) -> Result<(), ApplyError> {
    if path.exists() {
        return durable::replace(path, text.as_bytes()).map_err(ApplyError::file(path));
    }
    let folder = path.parent().expect("its name has folders in it");
    std::fs::create_dir_all(folder).map_err(ApplyError::file(folder))?;
    durable::write(path, text.as_bytes()).map_err(ApplyError::file(path))
}

/// Makes udev read its rules again, if it is this machine's.
fn reloaded(tools: &ApplyTools<'_>, path: &Path) -> Option<String> {
    let is_rule = path == Path::new("/").join(RULES);
    if is_rule { reload(tools.runner) } else { None }
}

/// Takes a change back; a note if a part of it stays.
pub(super) fn write_back(
    tools: &ApplyTools<'_>,
    path: &Path,
    before: Option<&str>,
    after: &str,
) -> Result<Option<String>, ApplyError> {
    let now = read(path)?;
    let was = before.unwrap_or_default();
    if now == was {
        return Ok(None);
    }
    if now == after && before.is_none() {
        std::fs::remove_file(path).map_err(ApplyError::file(path))?;
        return Ok(reloaded(tools, path));
    }
    let text = if now == after { was.to_owned() } else { lines_back(&now, was, after) };
    if text == now {
        let note = format!("{} was changed since; look at it", path.display());
        return Ok(Some(note));
    }
    replace(path, &text)?;
    Ok(reloaded(tools, path))
}

/// The text with each line that was changed or added as it was; others stay.
fn lines_back(now: &str, before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    let mut text = now.to_owned();
    if old.len() == new.len() {
        for (old, new) in old.iter().zip(&new).filter(|(old, new)| old != new) {
            text = text.replacen(new, old, 1);
        }
    } else if let Some(added) = after.strip_prefix(before) {
        text = text.replacen(added.trim_start_matches('\n'), "", 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_others_stay_when_a_change_is_taken_back() {
        let (before, after) = ("a\nb defaults\n", "a\nb defaults,noatime\n");
        let now = "a\nb defaults,noatime\nc\n";
        assert_eq!(lines_back(now, before, after), "a\nb defaults\nc\n");
        assert_eq!(lines_back("x\ny\n", before, after), "x\ny\n");
        assert_eq!(lines_back("r\nours\ntheirs\n", "r\n", "r\nours\n"), "r\ntheirs\n");
    }
}
