//! One worker: records workloads and checks the states of their logs.

use std::collections::BTreeMap;
use std::time::Instant;

use flashfit_device::Bytes;
use flashfit_filesystem::Promise;

use super::batch::StateBatch;
use super::checks::{Stops, check};
use super::summary::StateCounts;
use super::{Campaign, CampaignLimits, RoundJob};
use crate::CrashError;
use crate::examination::StateExamination;
use crate::log::{CrashLog, LogEntry};
use crate::model::Violation;
use crate::mounting::{StateDevice, StateDevicePlan, Work};
use crate::record::{RecordedWork, WorkloadRecording, record};
use crate::setup::CrashSetup;
use crate::state::{CrashState, Enumeration, RecoveryCut, enumerate};
use crate::verdict::check_without_cut;

/// States of one record; what a kill costs.
const BATCH: usize = 100;
/// For a log and its records; the logs of the built-in workloads take less than half of it.
const ROOM: Bytes = Bytes::mib(16);

pub(super) struct Worker<'a> {
    campaign: &'a Campaign<'a>,
    number: usize,
    limits: &'a CampaignLimits,
    devices: BTreeMap<DeviceKey, StateDevice<'a>>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        campaign: &'a Campaign<'a>,
        number: usize,
        limits: &'a CampaignLimits,
    ) -> Self {
        Self { campaign, number, limits, devices: BTreeMap::new() }
    }

    /// Does a round, or the rest of one; returns how many states were checked.
    pub(super) fn run(
        &mut self,
        job: &RoundJob,
        is_over: &dyn Fn() -> bool,
        watch: &dyn Fn(&StateBatch),
    ) -> Result<u32, CrashError> {
        let campaign = self.campaign;
        let (plan, setup) = (campaign.plan, &campaign.setups[job.setup]);
        let begun = match job.from {
            0 => campaign.requests.cloned(),
            _ => Some(campaign.folder.load_log(&setup.label, job.round)?),
        };
        // A log that was begun keeps the size of its device, whatever the catalog says now.
        let bytes = begun.as_ref().map_or(setup.device_bytes, CrashLog::device_bytes);
        let key = (bytes, setup.discards);
        self.attach(key)?;
        let shown = &self.devices[&key];
        let (device, mounting) = (shown.device(), shown.mounting());
        let seed = round_seed(plan.seed, job.round);
        let (log, unmount) = if let Some(log) = begun {
            campaign.folder.check_room(Bytes(2 * log.stored_bytes()))?;
            (log, None)
        } else {
            campaign.folder.check_room(ROOM)?;
            let how = WorkloadRecording {
                runner: campaign.runner,
                recipe: &setup.recipe,
                setup: &setup.label,
                mounting: &mounting,
                work: Work { workload: &plan.workload, seed, operations: None, is_over },
            };
            match record(device, &how) {
                Ok(RecordedWork { log, unmount }) => (log, Some(unmount)),
                Err(CrashError::WorkStopped) => return Ok(0),
                Err(error) => return Err(error),
            }
        };
        let how = Enumeration {
            seed,
            most: job.most as usize,
            unit_sectors: plan.unit_sectors,
            flushes: plan.flushes,
            by_card: plan.card.is_some(),
        };
        let states = enumerate(&log, &how);
        let mut examination =
            StateExamination::new(campaign.runner, setup, &plan.workload, device, &log, mounting);
        examination.looks_at_all(self.limits.looks_at_all);
        if let Some(card) = &plan.card {
            examination.use_card(card)?;
        }
        if campaign.requests.is_some() {
            check_start(&mut examination, &setup.label)?;
        }
        if let Some(unmount) = unmount {
            check_unmounted(&mut examination, &unmount, setup)?;
        }
        let mut is_broken = false;
        if job.from == 0 {
            campaign.folder.save_log(&setup.label, job.round, &log)?;
        } else {
            let recorded = campaign.folder.batches()?;
            let of_round = |it: &&StateBatch| it.setup == setup.label && it.round == job.round;
            is_broken = recorded.iter().filter(of_round).any(needs_log);
        }
        let mut at = job.from as usize;
        while at < states.len() && !is_over() {
            let end = states.len().min(at + BATCH);
            let mut batch = StateBatch {
                setup: setup.label.clone(),
                round: job.round,
                from: number(at),
                to: number(end),
                most: job.most,
                ends_round: end == states.len(),
                counts: StateCounts::default(),
                broken: Vec::new(),
                cut: None,
                elapsed_ns: None,
            };
            let start = Instant::now();
            let keeps = &setup.promises.keeps;
            let is_interrupted = || campaign.runner.interrupt().is_raised();
            let stops = Stops { is_over, is_interrupted: &is_interrupted };
            let some = &states[at..end];
            let checked = check(&mut examination, some, seed, &mut batch, keeps, stops)?;
            if checked == 0 {
                break;
            }
            at += checked;
            (batch.to, batch.ends_round) = (number(at), at == states.len());
            batch.counts.seconds = start.elapsed().as_secs_f64();
            is_broken |= needs_log(&batch);
            campaign.folder.append(&mut batch)?;
            watch(&batch);
        }
        if at == states.len() && !is_broken && !self.limits.keeps_logs {
            campaign.folder.remove_log(&setup.label, job.round);
        }
        Ok(number(at) - job.from)
    }

    fn attach(&mut self, key: DeviceKey) -> Result<(), CrashError> {
        if !self.devices.contains_key(&key) {
            let Campaign { plan, points, machine, runner, .. } = *self.campaign;
            let what = StateDevicePlan {
                bytes: key.0,
                discards: key.1,
                workload: &plan.workload,
                kernel: machine,
            };
            let device = StateDevice::attach(what, points, &self.number.to_string(), runner)?;
            self.devices.insert(key, device);
        }
        Ok(())
    }
}

/// The bytes of a device, and whether discards reach it. Setups with the same key share one.
type DeviceKey = (u64, bool);

/// The seed of a round's workload and states.
pub fn round_seed(seed: u64, round: u32) -> u64 {
    seed.wrapping_mul(1_000_003).wrapping_add(u64::from(round))
}

/// What was on the device before the work must be the file system of the setup.
fn check_start(examination: &mut StateExamination<'_>, setup: &str) -> Result<(), CrashError> {
    let start = CrashState::complete(0);
    let built = examination.build(&start);
    let found = examination.look(&start, &built, false)?.violations;
    match found.into_iter().find(|found| found.oracle.promise() == Promise::Consistent) {
        None => Ok(()),
        Some(Violation { detail: reason, .. }) => {
            Err(CrashError::NotSoundBefore { setup: setup.to_owned(), reason })
        }
    }
}

/// The file system without a power cut, unmounted after all work, must pass its own check: what is
/// found there, power cuts have not done.
fn check_unmounted(
    examination: &mut StateExamination<'_>,
    unmount: &[LogEntry],
    setup: &CrashSetup,
) -> Result<(), CrashError> {
    let state = CrashState::complete(examination.log().end());
    let built = examination.build(&state);
    let position = u32::try_from(unmount.len()).expect("logs are short");
    let all = RecoveryCut { position, drops_unflushed: false };
    let built = examination.build_recovery(&built, unmount, &all);
    check_without_cut(&examination.look(&state, &built, false)?.violations, setup)
}

/// Whether the log of its round is to be kept.
fn needs_log(batch: &StateBatch) -> bool {
    !batch.broken.is_empty() || batch.counts.mismatched > 0
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("a few hundred")
}
