//! The power cuts of a campaign, one after another: each setup in turn, until there are enough, the
//! time is over, or too many broke a promise. What is recorded already is not repeated.

use std::time::{Duration, Instant, SystemTime};

use flashfit_card::CutReport;
use flashfit_device::Bytes;
use flashfit_host::SystemRunner;

use super::examine::CutFindings;
use super::ledger::CutLedger;
use crate::CrashError;
use crate::campaign::{
    BrokenState, CampaignFolder, CampaignPlan, CutRecord, StateBatch, StateCounts,
};
use crate::setup::CrashSetup;
use crate::state::CrashState;

/// For the image of the present power cut and one that is kept.
const ROOM: Bytes = Bytes::mib(64);

/// When a campaign ends before all its power cuts were made. Earlier commands count.
#[derive(Debug, Clone, Copy, Default)]
pub struct CutLimits {
    pub time: Option<Duration>,
    /// Power cuts that broke a promise.
    pub broken: Option<u64>,
}

/// What is left to do of a campaign.
pub(crate) struct Rounds<'a> {
    folder: &'a CampaignFolder,
    runner: &'a SystemRunner,
    limits: CutLimits,
    deadline: Option<Instant>,
    /// For each setup, the number of the next round and how many are left.
    left: Vec<(u32, u64)>,
    broken: u64,
}

impl<'a> Rounds<'a> {
    pub(crate) fn new(
        plan: &'a CampaignPlan,
        folder: &'a CampaignFolder,
        runner: &'a SystemRunner,
        limits: &CutLimits,
    ) -> Result<Self, CrashError> {
        let recorded = folder.batches()?;
        let wanted = plan.states.unwrap_or(u64::MAX);
        let left = |label: &String| {
            let done = recorded.iter().filter(|batch| batch.setup == *label).count() as u64;
            let next = u32::try_from(done).expect("fewer power cuts than 2^32");
            (next, wanted.saturating_sub(done))
        };
        let left = plan.setups.iter().map(left).collect();
        let broken = recorded.iter().filter(|batch| batch.counts.broken > 0).count() as u64;
        let spent = folder.spent()?;
        let deadline = limits.time.map(|time| Instant::now() + time.saturating_sub(spent));
        Ok(Self { folder, runner, limits: *limits, deadline, left, broken })
    }

    pub(crate) fn are_done(&self) -> bool {
        self.left.iter().all(|(_, left)| *left == 0) || self.is_limit_reached()
    }

    fn is_limit_reached(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
            || self.limits.broken.is_some_and(|most| self.broken >= most)
    }

    pub(crate) fn check_room(&self) -> Result<(), CrashError> {
        self.folder.check_room(ROOM)
    }

    /// How many images of a setup earlier commands kept.
    pub(crate) fn kept(&self, setup: usize, label: &str) -> u64 {
        let recorded = 0..self.left[setup].0;
        recorded.filter(|round| self.folder.image_path(label, *round).exists()).count() as u64
    }

    /// Lets `cut` make each power cut, of the setup and the round that it is given.
    pub(crate) fn run(
        mut self,
        watch: &dyn Fn(&StateBatch),
        cut: &mut dyn FnMut(usize, u32) -> Result<StateBatch, CrashError>,
    ) -> Result<(), CrashError> {
        while !self.are_done() {
            for setup in 0..self.left.len() {
                let (next, left) = self.left[setup];
                if left == 0 {
                    continue;
                }
                if self.runner.interrupt().is_raised() || self.is_limit_reached() {
                    return Ok(());
                }
                self.check_room()?;
                let mut batch = cut(setup, next)?;
                self.folder.append(&mut batch)?;
                self.left[setup] = (next + 1, left - 1);
                self.broken += u64::from(batch.counts.broken > 0);
                watch(&batch);
            }
        }
        Ok(())
    }

    /// The results of all that is recorded, unless the user interrupted.
    pub(crate) fn results(
        plan: &CampaignPlan,
        folder: &CampaignFolder,
        runner: &SystemRunner,
        ended: Result<(), CrashError>,
    ) -> Result<Vec<crate::campaign::SetupResult>, CrashError> {
        if runner.interrupt().is_raised() {
            return Err(CrashError::Interrupted);
        }
        if let Err(error) = ended {
            folder.abandon_without_records();
            return Err(error);
        }
        // It belongs to a power cut that was judged.
        let _ = std::fs::remove_file(folder.draft_path());
        folder.results(plan)
    }
}

/// One power cut that was judged.
pub(crate) struct JudgedCut<'a> {
    pub setup: &'a CrashSetup,
    pub round: u32,
    pub ledger: &'a CutLedger,
    /// From the start of the work to the power cut.
    pub after: Duration,
    /// Of a simulated card.
    pub report: Option<CutReport>,
    pub found: &'a CutFindings,
    /// Of the whole round.
    pub took: Duration,
}

impl JudgedCut<'_> {
    pub(crate) fn is_broken(&self) -> bool {
        let keeps = &self.setup.promises.keeps;
        self.found.violations.iter().any(|violation| keeps.contains(&violation.oracle.promise()))
    }

    pub(crate) fn batch(self) -> StateBatch {
        let (label, keeps) = (&self.setup.label, &self.setup.promises.keeps);
        let found = self.found;
        let mut counts = StateCounts { mounted: 1, ..StateCounts::default() };
        counts.count(&found.violations, keeps);
        counts.longest_recovery_ms = u64::try_from(found.recovery.as_millis()).unwrap_or(u64::MAX);
        for damage in self.report.iter().flat_map(|report| &report.happened) {
            counts.faults.entry(damage.class).or_default().count(&found.violations, keeps);
        }
        counts.seconds = self.took.as_secs_f64();
        let mut broken = Vec::new();
        if !found.violations.is_empty() {
            let state = CrashState::complete(self.ledger.position());
            let id = format!("{label}/{}/0", self.round);
            broken.push(BrokenState { id, state, violations: found.violations.clone() });
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let record = CutRecord {
            acknowledged: u32::try_from(self.ledger.acknowledged()).unwrap_or(u32::MAX),
            after_ns: u64::try_from(self.after.as_nanos()).unwrap_or(u64::MAX),
            elapsed_ns: None,
            time_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            report: self.report,
        };
        StateBatch {
            setup: label.clone(),
            round: self.round,
            from: 0,
            to: 1,
            most: 1,
            ends_round: true,
            counts,
            broken,
            cut: Some(record),
            elapsed_ns: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> CampaignPlan {
        CampaignPlan { states: Some(3), ..CampaignPlan::sample() }
    }

    fn batch(round: u32) -> StateBatch {
        let cut =
            CutRecord { acknowledged: 1, after_ns: 1, elapsed_ns: None, time_ms: 1, report: None };
        StateBatch {
            setup: "ext4".to_owned(),
            round,
            from: 0,
            to: 1,
            most: 1,
            ends_round: true,
            counts: StateCounts { states: 1, seconds: 0.01, ..StateCounts::default() },
            broken: Vec::new(),
            cut: Some(cut),
            elapsed_ns: None,
        }
    }

    #[test]
    fn time_between_power_cuts_is_spent_too() {
        let (place, plan, runner) = (tempfile::tempdir().unwrap(), plan(), SystemRunner::default());
        let folder = CampaignFolder::open(place.path(), &plan).unwrap();
        let start = Instant::now();
        let pause = Duration::from_millis(100);
        let watch = |_: &StateBatch| std::thread::sleep(pause);
        let rounds = Rounds::new(&plan, &folder, &runner, &CutLimits::default()).unwrap();
        std::thread::sleep(pause);
        rounds.run(&watch, &mut |_, round| Ok(batch(round))).unwrap();
        let spent = folder.spent().unwrap();
        assert!(spent >= 3 * pause && spent <= start.elapsed(), "{spent:?}");
        // A record of an earlier version has the time of its power cut.
        let line = serde_json::to_string(&batch(3)).unwrap() + "\n";
        let records = place.path().join("records.jsonl");
        let mut file = std::fs::File::options().append(true).open(records).unwrap();
        std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
        assert_eq!(folder.spent().unwrap(), spent + Duration::from_millis(10));
    }

    /// Three power cuts took some time already.
    #[test]
    fn the_time_of_a_campaign_and_its_broken_promises_count_those_of_earlier_commands() {
        let (place, runner) = (tempfile::tempdir().unwrap(), SystemRunner::default());
        let plan = CampaignPlan { states: None, ..plan() };
        let folder = CampaignFolder::open(place.path(), &plan).unwrap();
        for round in 0..3 {
            std::thread::sleep(Duration::from_millis(50));
            folder.append(&mut batch(round)).unwrap();
        }
        let is_done = |time, broken| {
            let limits = CutLimits { time: Some(Duration::from_millis(time)), broken };
            Rounds::new(&plan, &folder, &runner, &limits).unwrap().are_done()
        };
        assert!(is_done(100, None) && !is_done(100_000, None));
        let mut broken = batch(3);
        broken.counts.broken = 1;
        folder.append(&mut broken).unwrap();
        assert!(is_done(100_000, Some(1)) && !is_done(100_000, Some(2)));
    }

    #[test]
    fn images_that_earlier_commands_kept_count() {
        let (place, runner) = (tempfile::tempdir().unwrap(), SystemRunner::default());
        let plan = plan();
        let folder = CampaignFolder::open(place.path(), &plan).unwrap();
        let label = &plan.setups[0];
        for round in 0..3 {
            folder.append(&mut StateBatch { setup: label.clone(), ..batch(round) }).unwrap();
        }
        // Of another setup, and of a power cut that a kill kept from being recorded.
        for (label, round) in
            [(label.as_str(), 0), (label, 2), (&format!("{label}:x"), 1), (label, 3)]
        {
            std::fs::write(folder.draft_path(), "").unwrap();
            folder.keep_cut(label, round, &[]).unwrap();
        }
        let rounds = Rounds::new(&plan, &folder, &runner, &CutLimits::default()).unwrap();
        assert_eq!(rounds.kept(0, label), 2);
    }

    #[test]
    fn a_campaign_without_records_leaves_a_directory_that_was_there() {
        let (place, plan) = (tempfile::tempdir().unwrap(), plan());
        let folder = CampaignFolder::open(place.path(), &plan).unwrap();
        assert!(CampaignFolder::has_campaign(place.path()));
        folder.abandon_without_records();
        assert!(place.path().exists() && !CampaignFolder::has_campaign(place.path()));
    }
}
