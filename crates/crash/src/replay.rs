//! One state of a campaign, looked at again.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flashfit_card::Card;
use flashfit_host::{SystemRunner, durable};

use crate::CrashError;
use crate::blocks::{BLOCK_BYTES, BlockId};
use crate::campaign::{CampaignFolder, CampaignPlan, MountPoints, round_seed};
use crate::cuts::kept;
use crate::device::CrashDevice;
use crate::examination::StateExamination;
use crate::log::CrashLog;
use crate::model::Violation;
use crate::mounting::{MachineKernel, StateDevice, StateDevicePlan};
use crate::setup::CrashSetup;
use crate::state::{BuiltState, CrashState, ENUMERATION, Enumeration, enumerate};
use crate::timeline::{TimelineEvent, timeline};

/// The place of a state in a campaign: `ext4/3/17`, or `ext4/3/17r` with a second power cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateId {
    pub setup: String,
    pub round: u32,
    pub index: u32,
    pub in_recovery: bool,
}

impl StateId {
    /// # Errors
    /// [`CrashError::NoState`] for anything else.
    pub fn parse(text: &str) -> Result<Self, CrashError> {
        let unknown = || CrashError::NoState { id: text.to_owned() };
        let mut parts = text.rsplitn(3, '/');
        let (index, round, setup) = (parts.next(), parts.next(), parts.next());
        let (Some(index), Some(round), Some(setup)) = (index, round, setup) else {
            return Err(unknown());
        };
        let number = index.strip_suffix('r').unwrap_or(index);
        Ok(Self {
            setup: setup.to_owned(),
            round: round.parse().map_err(|_| unknown())?,
            index: number.parse().map_err(|_| unknown())?,
            in_recovery: number != index,
        })
    }
}

/// A state with its log.
#[derive(Debug)]
pub struct FoundState {
    pub id: String,
    pub setup: String,
    pub log: CrashLog,
    pub state: CrashState,
    /// What the campaign found; `None` if it has no record of this state.
    pub recorded: Option<Vec<Violation>>,
    /// Whether it is a live power cut, of which the image was kept.
    pub is_live: bool,
}

impl FoundState {
    /// A device to show it on.
    pub(crate) fn device<'a>(
        &self,
        setup: &CrashSetup,
        plan: &'a CampaignPlan,
        kernel: Option<&'a MachineKernel<'a>>,
    ) -> StateDevicePlan<'a> {
        StateDevicePlan {
            bytes: self.log.device_bytes(),
            discards: setup.discards,
            workload: &plan.workload,
            kernel,
        }
    }

    /// Finds a state of a campaign.
    ///
    /// # Errors
    /// [`CrashError::NoState`], or when the log was not kept.
    pub fn find(
        folder: &CampaignFolder,
        plan: &CampaignPlan,
        text: &str,
    ) -> Result<Self, CrashError> {
        let id = StateId::parse(text)?;
        let unknown = || CrashError::NoState { id: text.to_owned() };
        let batches = folder.batches()?;
        let batch = batches
            .iter()
            .find(|batch| {
                let holds = (batch.from..batch.to).contains(&id.index);
                batch.setup == id.setup && batch.round == id.round && holds
            })
            .ok_or_else(unknown)?;
        let broken = batch.broken.iter().find(|broken| broken.id == text);
        let recorded = broken.map(|broken| broken.violations.clone());
        if let Some(cut) = &batch.cut {
            if !folder.image_path(&id.setup, id.round).exists() {
                return Err(CrashError::NoImage { id: text.to_owned() });
            }
            let (log, state) = kept::load(folder, &id.setup, id.round, cut)?;
            let (id, setup) = (text.to_owned(), id.setup);
            return Ok(Self { id, setup, log, state, recorded, is_live: true });
        }
        if !folder.has_log(&id.setup, id.round) {
            return Err(CrashError::LogRemoved { id: text.to_owned() });
        }
        let log = folder.load_log(&id.setup, id.round)?;
        let state = match broken {
            Some(broken) => broken.state.clone(),
            None if id.in_recovery => return Err(unknown()),
            None if plan.start.enumeration != Some(ENUMERATION) => {
                return Err(CrashError::OtherEnumeration { path: folder.path().to_owned() });
            }
            None => {
                let how = Enumeration {
                    seed: round_seed(plan.seed, id.round),
                    most: batch.most as usize,
                    unit_sectors: plan.unit_sectors,
                    flushes: plan.flushes,
                    by_card: plan.card.is_some(),
                };
                let mut states = enumerate(&log, &how);
                let index = id.index as usize;
                if index >= states.len() {
                    return Err(unknown());
                }
                states.swap_remove(index)
            }
        };
        if let Some(reason) = state.fault(&log) {
            return Err(CrashError::Invalid { path: folder.path().to_owned(), reason });
        }
        Ok(Self { id: text.to_owned(), setup: id.setup, log, state, recorded, is_live: false })
    }
}

impl FoundState {
    /// Writes the requests of the log to a file, which is replaced, in the format of dm-log-writes,
    /// with its operations as marks.
    ///
    /// # Errors
    /// When it is a live power cut, which has no such log, a line is too long for a mark, or the
    /// file cannot be written.
    pub fn export_dm_log(&self, path: &Path) -> Result<(), CrashError> {
        if self.is_live {
            return Err(CrashError::NoRequests { id: self.id.clone() });
        }
        let log = self.log.to_dm_log();
        let log = log.map_err(|source| CrashError::Requests { path: path.to_owned(), source })?;
        let failed = |source| CrashError::File { path: path.to_owned(), source };
        durable::write(path, &log).map_err(failed)
    }
}

/// What a replay found.
#[derive(Debug)]
pub struct ReplayedState {
    pub violations: Vec<Violation>,
    pub timeline: Vec<TimelineEvent>,
    pub image: Option<PathBuf>,
}

/// Looks at a state again. With `image`, the device after the power cut is written to that file.
///
/// # Errors
/// When something other than the file system fails.
pub fn replay(
    found: &FoundState,
    setup: &CrashSetup,
    plan: &CampaignPlan,
    runner: &SystemRunner,
    points: &MountPoints,
    kernel: Option<&MachineKernel<'_>>,
    image: Option<&Path>,
) -> Result<ReplayedState, CrashError> {
    let what = found.device(setup, plan, kernel);
    let shown = StateDevice::attach(what, points, "0", runner)?;
    let device = shown.device();
    let mut examination =
        StateExamination::new(runner, setup, &plan.workload, device, &found.log, shown.mounting());
    if let Some(card) = plan.card.as_ref().filter(|_| !found.is_live) {
        examination.use_card(card)?;
    }
    let first = CrashState { recovery: None, ..found.state.clone() };
    let mut built = examination.build(&first);
    if let Some(cut) = &found.state.recovery {
        let seen = examination.look(&first, &built, true)?;
        built = examination.build_recovery(&built, &seen.recovery_log, cut);
    }
    if let Some(image) = image {
        write_image(image, &built, device)?;
    }
    let seen = examination.look(&found.state, &built, false)?;
    Ok(ReplayedState {
        violations: seen.violations,
        timeline: timeline(&found.log, &found.state),
        image: image.map(Path::to_owned),
    })
}

/// Writes the contents of a device as a sparse file, which replaces one of an earlier replay when
/// it is whole.
fn write_image(path: &Path, built: &BuiltState, device: &CrashDevice) -> Result<(), CrashError> {
    let draft = path.with_extension("img.part");
    // Of a replay that was killed.
    let _ = fs::remove_file(&draft);
    let written = write_contents(&draft, built, device).and_then(|()| {
        fs::rename(&draft, path)
            .map_err(|source| CrashError::File { path: path.to_owned(), source })
    });
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

fn write_contents(path: &Path, built: &BuiltState, device: &CrashDevice) -> Result<(), CrashError> {
    let failed = |source| CrashError::File { path: path.to_owned(), source };
    let file = File::create_new(path).map_err(failed)?;
    if let Some(card) = &built.contents.card {
        let card = Card::load(&card[..]).expect("saved by this process");
        return card.write_image(&file).and_then(|_| file.sync_all()).map_err(failed);
    }
    let disk = device.disk();
    file.set_len(disk.device_bytes()).map_err(failed)?;
    let mut content = [0; BLOCK_BYTES];
    let blocks = u32::try_from(built.contents.base.len()).expect("a small device");
    for block in 0..blocks {
        let id = built.contents.block(block);
        if id != BlockId::ZERO {
            disk.pool.read(id, &mut content);
            let offset = u64::from(block) * BLOCK_BYTES as u64;
            file.write_all_at(&content, offset).map_err(failed)?;
        }
    }
    file.sync_all().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_three_parts() {
        let id = StateId::parse("ext4:nobarrier/2/17r").unwrap();
        assert_eq!((id.setup.as_str(), id.round, id.index), ("ext4:nobarrier", 2, 17));
        assert!(id.in_recovery);
        for bad in ["", "17", "2/17", "ext4/x/17", "ext4/2/", "ext4/2/17x"] {
            assert!(StateId::parse(bad).is_err(), "{bad}");
        }
    }
}
