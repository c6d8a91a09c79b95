//! One worker: records workloads and checks the states of their logs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use super::folder::{Batch, BrokenState};
use super::summary::StateCounts;
use super::{Campaign, RoundJob};
use crate::CrashError;
use crate::device::{CrashDevice, Disk};
use crate::equivalence::{Equivalence, ObservationCache};
use crate::log::{CrashLog, LogEntry};
use crate::model::{History, Violation};
use crate::observe::{CrashObservation, Observer};
use crate::record::{Recording, record};
use crate::setup::CrashSetup;
use crate::state::{BuiltState, CrashState, Enumeration, RecoveryCut, StateBuilder, enumerate};
use crate::verdict::violations;

/// States of one record; what a kill costs.
const BATCH: usize = 100;
/// Of the equivalent states, one in so many is looked at nevertheless.
const RECHECK_ONE_IN: u64 = 50;
/// Of the states looked at, one in so many gets a power cut during its recovery.
const RECOVERY_CUT_ONE_IN: u64 = 25;
/// More examples of one batch are not recorded.
const MOST_BROKEN: usize = 20;

pub(super) struct Worker<'a> {
    campaign: &'a Campaign<'a>,
    number: usize,
    keeps_logs: bool,
    devices: BTreeMap<(u64, bool), CrashDevice>,
}

/// One log under examination.
struct Examination<'a> {
    observer: Observer<'a>,
    device: &'a CrashDevice,
    log: &'a CrashLog,
    history: History,
    cache: ObservationCache,
    builder: StateBuilder,
    needs_fsck: bool,
}

impl<'a> Worker<'a> {
    pub(super) fn new(campaign: &'a Campaign<'a>, number: usize, keeps_logs: bool) -> Self {
        Self { campaign, number, keeps_logs, devices: BTreeMap::new() }
    }

    /// Does a round, or the rest of one; returns how many states were checked.
    pub(super) fn run(
        &mut self,
        job: &RoundJob,
        is_over: &dyn Fn() -> bool,
        watch: &dyn Fn(&Batch),
    ) -> Result<u32, CrashError> {
        let campaign = self.campaign;
        let (plan, setup) = (campaign.plan, &campaign.setups[job.setup]);
        let point = campaign.points.folder(&format!("mounted-{}", self.number))?;
        let device = self.device(setup)?;
        let seed = round_seed(plan.seed, job.round);
        let log = if job.from > 0 {
            campaign.folder.load_log(&setup.label, job.round)?
        } else {
            let operations: Vec<_> = (0..).zip(plan.workload.operations(seed)).collect();
            let log = record(device, &recording(campaign, setup, seed, &point), &operations)?;
            campaign.folder.save_log(&setup.label, job.round, &log)?;
            log
        };
        let how = Enumeration {
            seed,
            most: job.most as usize,
            unit_sectors: plan.unit_sectors,
            flushes: plan.flushes,
        };
        let states = enumerate(&log, &how);
        let mut examination = Examination::new(campaign, setup, device, &log, point);
        let mut at = job.from as usize;
        let mut is_broken = false;
        while at < states.len() && !is_over() {
            let end = states.len().min(at + BATCH);
            let mut batch = Batch {
                setup: setup.label.clone(),
                round: job.round,
                from: number(at),
                to: number(end),
                most: job.most,
                ends_round: end == states.len(),
                counts: StateCounts::default(),
                broken: Vec::new(),
            };
            let start = Instant::now();
            examination.check(&states[at..end], &mut batch, &setup.promises.keeps)?;
            batch.counts.seconds = start.elapsed().as_secs_f64();
            is_broken |= !batch.broken.is_empty();
            campaign.folder.append(&batch)?;
            watch(&batch);
            at = end;
        }
        if at == states.len() && !is_broken && !self.keeps_logs {
            campaign.folder.remove_log(&setup.label, job.round);
        }
        Ok(number(at) - job.from)
    }

    fn device(&mut self, setup: &CrashSetup) -> Result<&CrashDevice, CrashError> {
        let key = (setup.device_bytes, setup.discards);
        if !self.devices.contains_key(&key) {
            let name = format!("device-{}-{}-{}", self.number, key.0, key.1);
            let point = self.campaign.points.folder(&name)?;
            let disk = Disk::unwritten(setup.device_bytes);
            self.devices.insert(key, CrashDevice::attach(disk, &point, setup.discards)?);
        }
        Ok(&self.devices[&key])
    }
}

/// The seed of a round's workload and states.
pub(super) fn round_seed(seed: u64, round: u32) -> u64 {
    seed.wrapping_mul(1_000_003).wrapping_add(u64::from(round))
}

fn recording<'a>(
    campaign: &'a Campaign<'_>,
    setup: &'a CrashSetup,
    seed: u64,
    point: &'a std::path::Path,
) -> Recording<'a> {
    Recording { runner: campaign.runner, recipe: &setup.recipe, setup: &setup.label, seed, point }
}

impl<'a> Examination<'a> {
    fn new(
        campaign: &'a Campaign<'a>,
        setup: &'a CrashSetup,
        device: &'a CrashDevice,
        log: &'a CrashLog,
        point: PathBuf,
    ) -> Self {
        device.disk().pool = log.pool.clone();
        let needs_fsck = setup.promises.needs_fsck;
        Self {
            observer: Observer {
                runner: campaign.runner,
                recipe: &setup.recipe,
                needs_fsck,
                point,
            },
            device,
            log,
            history: History::new(&log.operations),
            cache: ObservationCache::default(),
            builder: StateBuilder::new(log),
            needs_fsck,
        }
    }

    fn check(
        &mut self,
        states: &[CrashState],
        batch: &mut Batch,
        keeps: &std::collections::BTreeSet<flashfit_filesystem::Promise>,
    ) -> Result<(), CrashError> {
        for (index, state) in states.iter().enumerate() {
            let built = {
                let mut disk = self.device.disk();
                self.builder.build(self.log, &mut disk.pool, state)
            };
            let id = format!("{}/{}/{}", batch.setup, batch.round, batch.from as usize + index);
            let recovery = self.check_one(state, &built, &id, batch, keeps)?;
            if let Some((cut, second)) = recovery {
                let state = CrashState { recovery: Some(cut), ..state.clone() };
                batch.counts.recovery_cuts += 1;
                self.check_one(&state, &second, &format!("{id}r"), batch, keeps)?;
            }
        }
        Ok(())
    }

    /// Checks one state; for some, returns one of a second power cut during its recovery.
    fn check_one(
        &mut self,
        state: &CrashState,
        built: &BuiltState,
        id: &str,
        batch: &mut Batch,
        keeps: &std::collections::BTreeSet<flashfit_filesystem::Promise>,
    ) -> Result<Option<(RecoveryCut, BuiltState)>, CrashError> {
        let counts = &mut batch.counts;
        let known = self.cache.find(built);
        let mut second = None;
        let found = match known {
            Some((why, seen)) => {
                let hits = match why {
                    Equivalence::Bytes => &mut counts.same_bytes,
                    Equivalence::Reads => &mut counts.same_reads,
                };
                *hits += 1;
                let is_due = *hits % RECHECK_ONE_IN == 1;
                let found = self.judge(state, &seen);
                if is_due {
                    counts.rechecked += 1;
                    let contents = built.contents.clone();
                    let again = self.observer.observe(self.device, contents, false)?;
                    counts.mismatched += u64::from(self.judge(state, &again.observation) != found);
                }
                found
            }
            None => {
                counts.mounted += 1;
                let cuts = state.recovery.is_none() && counts.mounted % RECOVERY_CUT_ONE_IN == 1;
                let seen = self.observer.observe(self.device, built.contents.clone(), cuts)?;
                let took = u64::try_from(seen.recovery.as_millis()).unwrap_or(u64::MAX);
                counts.longest_recovery_ms = counts.longest_recovery_ms.max(took);
                if cuts {
                    second = self.recovery_cut(built, &seen.recovery_log, counts.mounted);
                }
                let found = self.judge(state, &seen.observation);
                self.cache.add(built, &seen.reads, seen.observation);
                found
            }
        };
        batch.counts.count(&found, keeps);
        if !found.is_empty() && batch.broken.len() < MOST_BROKEN {
            let broken = BrokenState { id: id.to_owned(), state: state.clone(), violations: found };
            batch.broken.push(broken);
        }
        Ok(second)
    }

    fn judge(&self, state: &CrashState, seen: &CrashObservation) -> Vec<Violation> {
        violations(seen, &self.history, state.position, self.needs_fsck)
    }

    /// A state after a second power cut, somewhere in the recovery.
    fn recovery_cut(
        &self,
        built: &BuiltState,
        log: &[LogEntry],
        random: u64,
    ) -> Option<(RecoveryCut, BuiltState)> {
        if log.is_empty() {
            return None;
        }
        let position = 1 + usize::try_from(random * 7919 % log.len() as u64).ok()?;
        let cut = RecoveryCut { position: number(position), drops_unflushed: random % 2 == 0 };
        let mut disk = self.device.disk();
        Some((cut.clone(), apply_recovery(built, log, &cut, &mut disk.pool)))
    }
}

/// The state after a second power cut during the recovery of `built`.
pub(super) fn apply_recovery(
    built: &BuiltState,
    log: &[LogEntry],
    cut: &RecoveryCut,
    pool: &mut crate::blocks::BlockPool,
) -> BuiltState {
    let arrived = &log[..(cut.position as usize).min(log.len())];
    let flushed = arrived.iter().rposition(LogEntry::is_flush).unwrap_or(0);
    let kept = if cut.drops_unflushed { &arrived[..flushed] } else { arrived };
    let mut second = built.clone();
    for entry in kept {
        second.apply(pool, entry, None);
    }
    second
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("a few hundred")
}
