//! One setup made and mounted on a scratch image, and what was seen of it.

use std::time::Duration;

use flashfit_device::Bytes;
use flashfit_filesystem::Recipe;
use flashfit_host::kernel_log::KernelLog;
use flashfit_host::mount::{MountError, Mounted};
use flashfit_host::{Program, ProgramError, ProgramOutcome, Runner, mountinfo};

use crate::finding::{EvidenceSource, OptionEvidence};
use crate::judge::{ObservedFileSystem, ObservedMount};
use crate::scratch::{Image, ScratchImages};
use crate::trace::MountTrace;
use crate::{OptionProbeError, kernel_words, superblock};

/// Making or mounting an empty file system takes far less.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) enum AttemptResult {
    /// It was made, and mounted where that can be.
    Done(ObservedFileSystem),
    /// mkfs or the tuning program said no.
    NotMade(Vec<OptionEvidence>),
    /// It was made, and mount said no.
    NotMounted(ObservedFileSystem, Vec<OptionEvidence>),
    /// A program is not installed.
    Missing(ProgramError),
    /// It took so long that nothing can be said.
    Unclear(String),
}

/// What attempts are made with.
pub(super) struct AttemptTools<'a> {
    pub(super) runner: &'a dyn Runner,
    pub(super) scratch: &'a ScratchImages,
    /// Of the images.
    pub(super) size: Bytes,
    /// Whether the file system is packed from a folder instead of made on a place.
    pub(super) packing: bool,
    /// Whether images are attached to loop devices.
    pub(super) attaching: bool,
    /// Whether they are mounted.
    pub(super) mounting: bool,
}

impl AttemptTools<'_> {
    /// Makes what `recipe` says on a new image; `words` are the mount options that are tried.
    pub(super) fn attempt(
        &self,
        recipe: &Recipe,
        words: &[String],
    ) -> Result<AttemptResult, OptionProbeError> {
        let mut log = KernelLog::from_now();
        let image = self.scratch.image(self.size, self.attaching)?;
        let attempt = self.on(&image, recipe);
        let lines = log.take();
        if let Some(line) = kernel_words::device_error(&lines, &image.device()) {
            self.scratch.check_room()?;
            return Err(OptionProbeError::Image { line: line.to_owned() });
        }
        let ours: Vec<&str> = kernel_words::about(&lines, &image.device(), words);
        let mut attempt = attempt?;
        match &mut attempt {
            AttemptResult::Done(ObservedFileSystem { mount: Some(mount), .. }) => {
                mount.log = ours.iter().map(|line| (*line).to_owned()).collect();
                mount.log_readable = log.is_readable();
            }
            AttemptResult::NotMounted(_, evidence) => {
                let said = kernel_words::refusal(&ours, words);
                let said = said
                    .into_iter()
                    .map(|line| OptionEvidence::new(EvidenceSource::KernelLog, line));
                evidence.splice(0..0, said);
                self.scratch.check_room()?;
            }
            AttemptResult::NotMade(_) => self.scratch.check_room()?,
            _ => {}
        }
        Ok(attempt)
    }

    fn on(&self, image: &Image, recipe: &Recipe) -> Result<AttemptResult, OptionProbeError> {
        let place = image.place();
        let mkfs = if self.packing {
            // The folder with nothing but the mount point in it is as good as any.
            recipe.pack(self.scratch.point(), place)
        } else {
            recipe.mkfs(place)
        };
        let making = std::iter::once(mkfs).chain(recipe.tune(place));
        for program in making {
            match self.runner.run(&program.timeout(PATIENCE)) {
                Ok(outcome) if outcome.success() => {}
                Ok(outcome) => return Ok(AttemptResult::NotMade(vec![said(&outcome)])),
                Err(error) => return stopped(error),
            }
        }
        let superblock = superblock::lines(self.runner, recipe.kind(), place)?;
        let seen = ObservedFileSystem { superblock, mount: None };
        if self.mounting { self.mount(image, recipe, seen) } else { Ok(AttemptResult::Done(seen)) }
    }

    fn mount(
        &self,
        image: &Image,
        recipe: &Recipe,
        seen: ObservedFileSystem,
    ) -> Result<AttemptResult, OptionProbeError> {
        let (place, point) = (image.place(), self.scratch.point());
        let options = recipe.mount_options();
        let mounted = match Mounted::new(self.runner, place, recipe.kind(), point, options) {
            Ok(mounted) => mounted,
            Err(MountError::Program(ProgramError::Failed { message, .. })) => {
                let evidence = OptionEvidence::new(EvidenceSource::Mount, plain_refusal(&message));
                return Ok(AttemptResult::NotMounted(seen, vec![evidence]));
            }
            Err(MountError::Program(error)) => return stopped(error),
            Err(error) => return Err(error.into()),
        };
        let unreadable =
            |source| OptionProbeError::Scratch { path: "/proc/self/mountinfo".into(), source };
        let entry = mountinfo::at(mounted.point()).map_err(unreadable)?.unwrap_or_else(|| {
            unreachable!("`Mounted` has seen it in the mount table");
        });
        let list = MountTrace::list_of(recipe.kind(), &image.device());
        mounted.unmount()?;
        let mount =
            ObservedMount { trace: MountTrace::new(&entry, &list), ..ObservedMount::default() };
        Ok(AttemptResult::Done(ObservedFileSystem { mount: Some(mount), ..seen }))
    }
}

fn stopped(error: ProgramError) -> Result<AttemptResult, OptionProbeError> {
    match error {
        ProgramError::Missing { .. } => Ok(AttemptResult::Missing(error)),
        ProgramError::TimedOut { .. } => Ok(AttemptResult::Unclear(error.to_string())),
        other => Err(other.into()),
    }
}

/// The line in which a program says what it does not like; programs put usage texts around it.
fn said(outcome: &ProgramOutcome) -> OptionEvidence {
    let lines: Vec<&str> = [&outcome.stderr, &outcome.stdout]
        .into_iter()
        .flat_map(|text| text.lines())
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("NOTE:"))
        .collect();
    let telling = ["error", "invalid", "unknown", "unrecognized", "bad ", "must ", "cannot"];
    let is_telling = |line: &&&str| {
        let lower = line.to_ascii_lowercase();
        telling.iter().any(|word| lower.contains(word))
    };
    let line = lines.iter().find(is_telling).or(lines.first());
    let name = outcome.command_line.split(' ').next().unwrap_or_default();
    let text = match line {
        Some(line) => (*line).to_owned(),
        None => format!("{name} ended with {:?} and said nothing", outcome.code),
    };
    OptionEvidence::new(EvidenceSource::Program, text)
}

/// mount(8) adds where to look further, which was done.
fn plain_refusal(message: &str) -> String {
    let kept: Vec<&str> =
        message.split(" / ").filter(|part| !part.contains("dmesg(1)")).map(str::trim).collect();
    let text = kept.join(" / ");
    match text.strip_prefix("mount: ").and_then(|rest| rest.split_once(": ")) {
        Some((point, why)) if point.starts_with('/') => why.to_owned(),
        _ => text,
    }
}

/// The command without the place that it is for, to be compared.
pub(super) fn making(recipe: &Recipe) -> Vec<String> {
    let node = std::path::Path::new("/dev/node");
    let programs = std::iter::once(recipe.mkfs(node)).chain(recipe.tune(node));
    programs.map(|program: Program| program.command_line()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(stdout: &str, stderr: &str) -> String {
        let outcome = ProgramOutcome {
            code: Some(1),
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            command_line: "mkfs.ext4 -q".to_owned(),
            ..ProgramOutcome::default()
        };
        said(&outcome).text
    }

    #[test]
    fn the_telling_line_of_a_program_is_kept() {
        let mke2fs = "mke2fs 1.47.0 (5-Feb-2023)\n\nBad option(s) specified: foo\n\nExtended \
                      options are separated by commas\n";
        assert_eq!(text("", mke2fs), "Bad option(s) specified: foo");
        let btrfs = "btrfs-progs v6.2\n\nNOTE: several default settings have changed, unknown\n";
        assert_eq!(text(btrfs, "ERROR: illegal nodesize 512\n"), "ERROR: illegal nodesize 512");
        assert_eq!(text("", ""), "mkfs.ext4 ended with Some(1) and said nothing");
    }

    #[test]
    fn mounts_advice_is_left_out() {
        let message = "mount: /tmp/x/point: wrong fs type, bad option, bad superblock on \
                       /dev/loop0. / dmesg(1) may have more information after failed mount";
        assert_eq!(
            plain_refusal(message),
            "wrong fs type, bad option, bad superblock on /dev/loop0."
        );
        assert_eq!(plain_refusal("mount failed"), "mount failed");
    }
}
