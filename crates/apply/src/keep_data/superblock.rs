//! Changes of the superblock of ext2, ext3 and ext4 with tune2fs(8), checked with e2fsck(8) before
//! and after.
//!
//! tune2fs(8) is not atomic: a journal is removed in several writes. After an interruption the file
//! system is repaired with `e2fsck -p` before the change is made again. Limit: what that does not
//! repair is left to the user, because a full repair can remove files.

use std::path::Path;
use std::time::Duration;

use flashfit_device::WriteConsent;
use flashfit_filesystem::FileSystemFacts;
use flashfit_filesystem::improvement::{ExpectedFacts, ImprovedVolume};
use flashfit_host::{Program, ProgramOutcome};

use crate::error::{ApplyError, FaultyPlace};
use crate::region;
use crate::steps::{ApplyEvent, ApplyTools};
use crate::verify::{ToolReport, ask};

use super::run_any;

/// A card of a terabyte takes minutes to check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Exit code of e2fsck(8): errors were corrected.
const CORRECTED: i32 = 1;

/// A program that changes the superblock, with its arguments before the node.
pub(super) struct SuperblockChange<'a> {
    pub(super) volume: &'a ImprovedVolume,
    pub(super) program: &'a str,
    pub(super) args: &'a [String],
    /// Whether the facts show that nothing is left to do.
    pub(super) is_made: &'a dyn Fn(&FileSystemFacts) -> Vec<String>,
    /// Whether it was begun before, and interrupted.
    pub(super) was_begun: bool,
    /// The image file behind the device, if there is one.
    pub(super) image: Option<&'a Path>,
    /// Called right before the program runs.
    pub(super) begin: &'a mut dyn FnMut() -> Result<(), ApplyError>,
}

/// Makes the change unless it is made already.
pub(super) fn change(
    tools: &ApplyTools<'_>,
    place: &WriteConsent,
    change: SuperblockChange<'_>,
) -> Result<(), ApplyError> {
    place.check(tools.runner)?;
    let mut before = expect_same(tools, place, change.volume)?;
    if !change.was_begun && (change.is_made)(&before).is_empty() {
        return Ok(());
    }
    let is_whole = !before.has_feature("needs_recovery") && is_clean(tools, place)?;
    let has_errors = || ApplyError::HasErrors { place: faulty(place, change.image) };
    if !is_whole {
        if !change.was_begun || !is_repaired(tools, place)? {
            return Err(has_errors());
        }
        before = expect_same(tools, place, change.volume)?;
    }
    if (change.is_made)(&before).is_empty() {
        return Ok(());
    }
    let program = Program::new(change.program)
        .args(change.args.iter().cloned())
        .arg(place.path())
        .timeout(CHECK_TIMEOUT);
    place.check(tools.runner)?;
    (change.begin)()?;
    (tools.on_event)(&ApplyEvent::Running(program.command_line()));
    place.run(tools.runner, &program)?;
    region::drop_cached(place)?;
    let wrong = (change.is_made)(&facts(tools, place)?);
    if !wrong.is_empty() {
        return Err(ApplyError::NotAsPlanned { what: wrong });
    }
    if is_clean(tools, place)? {
        return Ok(());
    }
    let what = format!("e2fsck finds errors on {} after {}", change.volume.name, change.program);
    Err(ApplyError::NotAsPlanned { what: vec![what] })
}

fn facts(tools: &ApplyTools<'_>, place: &WriteConsent) -> Result<FileSystemFacts, ApplyError> {
    match ask(tools.runner, place.path())? {
        ToolReport::Facts(facts) => Ok(*facts),
        ToolReport::NoFileSystem => {
            let what = format!("no file system is found on {}", place.path().display());
            Err(ApplyError::NotAsPlanned { what: vec![what] })
        }
        ToolReport::MissingTool(name) => Err(flashfit_host::ProgramError::Missing { name }.into()),
    }
}

fn is_clean(tools: &ApplyTools<'_>, place: &WriteConsent) -> Result<bool, ApplyError> {
    let check = Program::new("e2fsck").args(["-f", "-n"]).arg(place.path()).timeout(CHECK_TIMEOUT);
    Ok(run_any(tools.runner, &check)?.success())
}

/// The facts of the file system, if it is the one that the change is for.
pub(super) fn expect_same(
    tools: &ApplyTools<'_>,
    place: &WriteConsent,
    volume: &ImprovedVolume,
) -> Result<FileSystemFacts, ApplyError> {
    let found = facts(tools, place)?;
    if found.uuid == volume.uuid {
        return Ok(found);
    }
    let what = format!("{} has another file system now", volume.name);
    Err(ApplyError::NotAsPlanned { what: vec![what] })
}

/// What the user calls the place of a file system with errors.
fn faulty(place: &WriteConsent, image: Option<&Path>) -> FaultyPlace {
    let Some(image) = image else { return FaultyPlace::Node(place.path().to_owned()) };
    let node = place.path().to_string_lossy();
    let is_partition = place.device().partition_start.is_some();
    let number = node.rsplit('p').next().filter(|_| is_partition).map(str::to_owned);
    FaultyPlace::Image { image: image.to_owned(), partition: number }
}

/// Repairs what can be repaired without a decision of the user, and says whether that is all.
fn is_repaired(tools: &ApplyTools<'_>, place: &WriteConsent) -> Result<bool, ApplyError> {
    let repair = Program::new("e2fsck").args(["-f", "-p"]).arg(place.path()).timeout(CHECK_TIMEOUT);
    (tools.on_event)(&ApplyEvent::Running(repair.command_line()));
    let outcome: ProgramOutcome = place.surrounded(|| run_any(tools.runner, &repair))?;
    Ok(matches!(outcome.code, Some(0 | CORRECTED)))
}

/// What differs from what is expected.
pub(super) fn difference(expected: &ExpectedFacts, facts: &FileSystemFacts) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(feature) = expected.absent_feature.as_ref().filter(|name| facts.has_feature(name)) {
        wrong.push(format!("the file system still has {feature}"));
    }
    for (name, value) in &expected.numbers {
        let found = facts.number(name).unwrap_or(0);
        if found != *value {
            wrong.push(format!("{name} is {found}, not {value}"));
        }
    }
    wrong
}
