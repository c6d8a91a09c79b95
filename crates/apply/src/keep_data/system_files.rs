//! Changes of fstab(5) and of the udev(7) rules: computed before the user agrees, made in one
//! replacement each, and taken back line by line if somebody changed the file since.

use std::path::{Path, PathBuf};

use flashfit_filesystem::improvement::ImprovedVolume;
use flashfit_filesystem::scheduler::{EXAMPLE_DISK, udev_queue_rule};

use crate::error::ApplyError;
use crate::install::{
    self, FSTAB, NO_RULE_ELSEWHERE, RULES, check_writable, is_own_system, path_below, put_rule,
    read, reload, unwritable,
};
use crate::steps::ApplyTools;

use super::{ImprovementNote, ImprovementStep};

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
        let path = path_below(root, name)?;
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
        let is_own = is_own_system(root);
        let change = super::fstab::with_options(&self.after, volume, &points, is_own, options);
        let changes = change.text != self.after;
        self.after = change.text;
        (change.found > 0).then_some(changes)
    }

    /// Why options that are set now are not those of the next mount: fstab has no line for the file
    /// system.
    pub(super) fn why_temporary(
        &self,
        volume: &ImprovedVolume,
        root: &Path,
        options: &[String],
    ) -> ImprovementNote {
        let file = self.path.display();
        let name = match &volume.uuid {
            Some(uuid) => format!("UUID={uuid}"),
            None => volume.name.clone(),
        };
        let ends = format!(
            "{} ends with the next mount: {file} has no line for {name}",
            options.join(",")
        );
        let point = volume.mount_points.iter().find_map(|point| below(root, point));
        match point {
            Some(point) => ImprovementNote {
                text: format!("{ends}; to keep it, add:"),
                line: Some(super::fstab::new_line(&name, &point, &volume.kind, options)),
            },
            None => ImprovementNote { text: ends, line: None },
        }
    }

    /// Why no rule is added in a system below another root, and which one the user can add.
    pub(super) fn why_no_rule(&self, attribute: &str, value: &str) -> ImprovementNote {
        let rule = udev_queue_rule(EXAMPLE_DISK, attribute, value);
        let text = format!(
            "{NO_RULE_ELSEWHERE}; with that name in place of {EXAMPLE_DISK}, add to {}:",
            self.path.display()
        );
        ImprovementNote { text, line: Some(rule.trim_end().to_owned()) }
    }

    /// Adds the rule that gives an attribute of a disk's queue its value.
    pub(super) fn add_rule(
        &mut self,
        disk: &str,
        attribute: &str,
        value: &str,
    ) -> Result<(), ApplyError> {
        let rule = udev_queue_rule(disk, attribute, value);
        let marked = |reason| ApplyError::SystemFile { path: self.path.clone(), reason };
        self.after = put_rule(&self.after, &rule).map_err(marked)?;
        Ok(())
    }

    /// The step that writes this change; `None` if the file has it already.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn step(self) -> Result<Option<ImprovementStep>, ApplyError> {
        let Self { path, before, after } = self;
        if before.as_deref().unwrap_or_default() == after {
            return Ok(None);
        }
        check_writable(&path)?;
        Ok(Some(ImprovementStep::SystemFile { path, before, after }))
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
    install::write(path, after)?;
    Ok(reloaded(tools, path))
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
        std::fs::remove_file(path).map_err(unwritable(path))?;
        return Ok(reloaded(tools, path));
    }
    let back = if now == after {
        LinesBack { text: was.to_owned(), is_complete: true }
    } else {
        lines_back(&now, was, after)
    };
    let changed = format!("{} was changed since; look at it", path.display());
    let mut notes: Vec<String> = Vec::new();
    notes.extend((!back.is_complete).then_some(changed));
    if back.text != now {
        install::write(path, &back.text)?;
        notes.extend(reloaded(tools, path));
    }
    Ok((!notes.is_empty()).then(|| notes.join("; ")))
}

/// A text whose changes were taken back.
struct LinesBack {
    text: String,
    /// Whether every change was found or is not there any more.
    is_complete: bool,
}

/// Takes back each whole line that was changed, and removes those that were added at the end;
/// others stay.
fn lines_back(now: &str, before: &str, after: &str) -> LinesBack {
    let (old, new, bare) = (bare_lines(before), bare_lines(after), bare_lines(now));
    if new.len() < old.len() {
        return LinesBack { text: now.to_owned(), is_complete: false };
    }
    let mut is_complete = true;
    let mut lines: Vec<Option<String>> = vec![None; bare.len()];
    let (changed, added) = new.split_at(old.len());
    for (was, is) in old.iter().zip(changed).filter(|(was, is)| was != is) {
        let at = (0..bare.len()).find(|at| lines[*at].is_none() && bare[*at] == *is);
        match at {
            Some(at) => lines[at] = Some((*was).to_owned()),
            // It may have been taken back before an interruption.
            None => is_complete &= bare.contains(was),
        }
    }
    let at = (0..bare.len()).find(|at| !added.is_empty() && bare[*at..].starts_with(added));
    let removed = at.map_or(0..0, |at| at..at + added.len());
    let mut text = String::with_capacity(now.len());
    for (at, whole) in now.split_inclusive('\n').enumerate() {
        let is_removed = removed.contains(&at);
        let is_left = !is_removed && lines[at].is_none() && !bare[at].is_empty();
        let is_ours = |line: &str| new.contains(&line) && !old.contains(&line);
        is_complete &= !(is_left && is_ours(bare[at]));
        if !is_removed {
            text.push_str(lines[at].as_deref().unwrap_or(bare[at]));
            text.push_str(&whole[bare[at].len()..]);
        }
    }
    LinesBack { text, is_complete }
}

/// Lines without their ends: the last one may have got one since.
fn bare_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').map(|line| line.trim_end_matches('\n')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of `now`, and whether something of the change may be left.
    fn back(now: &str, before: &str, after: &str) -> (String, bool) {
        let LinesBack { text, is_complete } = lines_back(now, before, after);
        (text, !is_complete)
    }

    fn whole(text: &str) -> (String, bool) {
        (text.to_owned(), false)
    }

    fn partly(text: &str) -> (String, bool) {
        (text.to_owned(), true)
    }

    #[test]
    fn lines_of_others_stay_when_a_change_is_taken_back() {
        let (before, after) = ("a\nb defaults\n", "a\nb defaults,noatime\n");
        let now = "a\nb defaults,noatime\nc\n";
        assert_eq!(back(now, before, after), whole("a\nb defaults\nc\n"));
        assert_eq!(back("x\ny\n", before, after), partly("x\ny\n"));
        assert_eq!(back("r\nours\ntheirs\n", "r\n", "r\nours\n"), whole("r\ntheirs\n"));
        assert_eq!(back("a\nb defaults\nc\n", before, after), whole("a\nb defaults\nc\n"));
    }

    #[test]
    fn a_part_of_another_line_is_not_taken_back() {
        let (before, after) = ("b defaults\n", "b defaults,noatime\n");
        assert_eq!(
            back("#b defaults,noatime\nb defaults,noatime\n", before, after),
            whole("#b defaults,noatime\nb defaults\n")
        );
        let only = "#b defaults,noatime\nb defaults,noatime,ro\n";
        assert_eq!(back(only, before, after), partly(only));
        let twice = "b defaults,noatime\nb defaults,noatime\n";
        assert_eq!(back(twice, before, after), partly("b defaults\nb defaults,noatime\n"));
        let added = "#r\nours\nr\n";
        assert_eq!(back("r\n#ours\n", "r\n", "r\nours\n"), whole("r\n#ours\n"));
        assert_eq!(back("ours\nx\nr\n", "", "ours\nr\n"), partly("ours\nx\nr\n"));
        assert_eq!(back(added, "", "ours\n"), whole("#r\nr\n"));
    }

    #[test]
    fn a_last_line_that_has_ended_since_is_found() {
        assert_eq!(back("b n\nc\n", "b", "b n"), whole("b\nc\n"));
        assert_eq!(back("b n\r\nc\n", "b\r\n", "b n\r\n"), whole("b\r\nc\n"));
        assert_eq!(back("a\nr\nx\nt\n", "a", "a\nr\nx\n"), whole("a\nt\n"));
    }

    #[test]
    fn a_line_that_became_as_another_was_keeps_its_place() {
        assert_eq!(back("c\nb\nx\n", "b\na\n", "c\nb\n"), whole("b\na\nx\n"));
    }

    #[test]
    fn changed_and_added_lines_are_taken_back_together() {
        let (before, after) = ("a 1\n", "a 2\nnew\n");
        assert_eq!(back("t\na 2\nnew\n", before, after), whole("t\na 1\n"));
        assert_eq!(back("t\na 2\n", before, after), whole("t\na 1\n"));
    }
}
