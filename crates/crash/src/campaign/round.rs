//! One worker: records workloads and checks the states of their logs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use flashfit_device::Bytes;
use flashfit_filesystem::Promise;

use super::batch::{BrokenState, StateBatch};
use super::summary::StateCounts;
use super::{Campaign, CampaignLimits, RoundJob};
use crate::CrashError;
use crate::equivalence::Equivalence;
use crate::examination::StateExamination;
use crate::log::{CrashLog, LogEntry};
use crate::model::Violation;
use crate::mounting::{StateDevice, StateDevicePlan, Work};
use crate::record::{WorkloadRecording, record};
use crate::state::{BuiltState, CrashState, Enumeration, RecoveryCut, enumerate};

/// States of one record; what a kill costs.
const BATCH: usize = 100;
/// Of the equivalent states, one in so many is looked at nevertheless.
const RECHECK_ONE_IN: u64 = 50;
/// Of the states looked at, one in so many gets a power cut during its recovery.
const RECOVERY_CUT_ONE_IN: u64 = 25;
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
        let log = if let Some(log) = begun {
            if job.from == 0 {
                campaign.folder.check_room(Bytes(2 * log.stored_bytes()))?;
                campaign.folder.save_log(&setup.label, job.round, &log)?;
            }
            log
        } else {
            campaign.folder.check_room(ROOM)?;
            let how = WorkloadRecording {
                runner: campaign.runner,
                recipe: &setup.recipe,
                setup: &setup.label,
                mounting: &mounting,
                work: Work { workload: &plan.workload, seed, operations: None },
            };
            let log = record(device, &how)?;
            campaign.folder.save_log(&setup.label, job.round, &log)?;
            log
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
        let mut at = job.from as usize;
        let mut is_broken = false;
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
            };
            let start = Instant::now();
            check(&mut examination, &states[at..end], &mut batch, &setup.promises.keeps)?;
            batch.counts.seconds = start.elapsed().as_secs_f64();
            is_broken |= !batch.broken.is_empty();
            campaign.folder.append(&batch)?;
            watch(&batch);
            at = end;
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

/// A second power cut somewhere in a recovery of so many requests.
fn recovery_cut(requests: usize, random: u64) -> Option<RecoveryCut> {
    let position = 1 + random.wrapping_mul(7919).checked_rem(requests as u64)?;
    let position = u32::try_from(position).expect("recoveries are short");
    Some(RecoveryCut { position, drops_unflushed: random % 2 == 0 })
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

fn check(
    examination: &mut StateExamination<'_>,
    states: &[CrashState],
    batch: &mut StateBatch,
    keeps: &BTreeSet<Promise>,
) -> Result<(), CrashError> {
    for (index, state) in states.iter().enumerate() {
        let built = examination.build(state);
        let id = format!("{}/{}/{}", batch.setup, batch.round, batch.from as usize + index);
        let is_turn = batch.counts.mounted % RECOVERY_CUT_ONE_IN == 0;
        // What a card writes during recovery is not recorded.
        let cuts = is_turn && state.cut_seed.is_none();
        let log = check_one(examination, state, &built, &id, cuts, batch, keeps)?;
        if let Some(cut) = recovery_cut(log.len(), batch.counts.mounted).filter(|_| cuts) {
            let second = examination.build_recovery(&built, &log, &cut);
            let state = CrashState { recovery: Some(cut), ..state.clone() };
            batch.counts.recovery_cuts += 1;
            check_one(examination, &state, &second, &format!("{id}r"), false, batch, keeps)?;
        }
    }
    Ok(())
}

/// Checks one state; returns the requests of its recovery where it was looked at and they were
/// asked for.
fn check_one(
    examination: &mut StateExamination<'_>,
    state: &CrashState,
    built: &BuiltState,
    id: &str,
    record_recovery: bool,
    batch: &mut StateBatch,
    keeps: &BTreeSet<Promise>,
) -> Result<Vec<LogEntry>, CrashError> {
    let counts = &mut batch.counts;
    let examined = examination.examine(state, built, record_recovery)?;
    let hits = match examined.equivalence {
        None => &mut counts.mounted,
        Some(Equivalence::Bytes) => &mut counts.same_bytes,
        Some(Equivalence::Reads) => &mut counts.same_reads,
    };
    *hits += 1;
    if examined.equivalence.is_some() && *hits % RECHECK_ONE_IN == 1 {
        counts.rechecked += 1;
        let again = examination.look(state, built, false)?;
        counts.mismatched += u64::from(again.violations != examined.violations);
    }
    let took = u64::try_from(examined.recovery.as_millis()).unwrap_or(u64::MAX);
    counts.longest_recovery_ms = counts.longest_recovery_ms.max(took);
    counts.count(&examined.violations, keeps);
    for class in &built.happened {
        counts.faults.entry(*class).or_default().count(&examined.violations, keeps);
    }
    if state.ignores_flush(examination.log()) {
        counts.ignored_flushes.count(&examined.violations, keeps);
    }
    if !examined.violations.is_empty() {
        let (id, state) = (id.to_owned(), state.clone());
        batch.record(BrokenState { id, state, violations: examined.violations }, keeps);
    }
    Ok(examined.recovery_log)
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("a few hundred")
}
