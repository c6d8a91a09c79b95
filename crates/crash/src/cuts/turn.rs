//! One live power cut: work, cut, power on, look, judge, record.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flashfit_card::{CutReport, FaultClass};
use flashfit_numbers::SplitMix64;

use super::CutCampaign;
use super::bench::{CutBench, CutSetup, WorkDone};
use super::card_remains::CardRemains;
use super::examine::Examination;
use super::machine::Guest;
use super::rounds::JudgedCut;
use crate::CrashError;
use crate::campaign::{StateBatch, round_seed};

/// A power cut this soon after a write meets it in the cache, or under way.
const SOON: Duration = Duration::from_millis(3);
/// How often the writes are counted.
const POLL_INTERVAL: Duration = Duration::from_micros(200);
/// Images that are kept of one setup.
const MOST_KEPT: u64 = 20;

/// A setup with what was learned of it.
pub(super) struct Turn<'a> {
    pub setup: CutSetup<'a>,
    pub kept: u64,
    pub pace: Pace,
}

/// How long all work takes, which depends on what else the computer does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    whole: Duration,
    items: usize,
    /// Writes to the card.
    writes: u64,
}

/// When the power is cut.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CutTrigger {
    /// After a part of the estimated time: most of it, the card is idle.
    Time(Duration),
    /// Soon after a write, the number of which is counted from the start of the work.
    Write { number: u64, delay: Duration },
}

impl Pace {
    pub(crate) fn of(done: &WorkDone, writes: u64) -> Self {
        Self { whole: done.took, items: done.ledger.acknowledged(), writes }
    }

    /// Corrects the estimate by work that was cut short.
    pub(crate) fn learn(&mut self, took: Duration, items: usize) {
        const LEAST_ITEMS: usize = 5;
        const SHARE: f64 = 0.1;
        if items >= LEAST_ITEMS {
            let whole = took.as_secs_f64() * self.items as f64 / items as f64;
            let mixed = self.whole.as_secs_f64() * (1.0 - SHARE) + whole * SHARE;
            self.whole = Duration::from_secs_f64(mixed);
        }
    }

    /// A moment of the work, drawn evenly from the time.
    pub(crate) fn time(&self, random: &mut SplitMix64) -> Duration {
        self.whole.mul_f64((random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// A moment of the work: one half is drawn evenly from the time, the other from the writes.
    fn moment(&self, random: &mut SplitMix64) -> CutTrigger {
        let by_write = random.next_u64() % 2 == 0 && self.writes > 0;
        let share = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        if by_write {
            let delay = SOON.mul_f64(share);
            return CutTrigger::Write { number: 1 + random.next_u64() % self.writes, delay };
        }
        CutTrigger::Time(self.whole.mul_f64(share))
    }
}

/// The end of one round of work.
struct PowerCut {
    done: WorkDone,
    report: CutReport,
    /// The machine after the power is back, or why the card does not answer.
    guest: Result<Guest, String>,
}

impl CutCampaign<'_> {
    /// One power cut. `guest` is a machine that waits for work; the one that is returned does, too.
    pub(super) fn cut(
        &self,
        bench: &CutBench<'_>,
        turn: &mut Turn<'_>,
        round: u32,
        guest: Option<Guest>,
    ) -> Result<(StateBatch, Option<Guest>), CrashError> {
        let start = Instant::now();
        let image = self.folder.draft_path();
        let PowerCut { done, report, guest } = self.pull(bench, turn, round, guest, &image)?;
        turn.pace.learn(done.took, done.ledger.acknowledged());
        let setup = turn.setup.setup;
        let examination = Examination { workload: bench.workload, setup, ledger: &done.ledger };
        let (found, guest) = match guest {
            Err(why) => (examination.of_dead(why), None),
            Ok(guest) => {
                let (setup, guest) = (&turn.setup, Some(guest));
                let mut remains = CardRemains::new(bench, setup, &image, guest);
                (examination.of(&mut remains)?, remains.guest)
            }
        };
        // After damage, the kernel of the machine may be in a bad state.
        let guest = guest.filter(|_| found.violations.is_empty());
        let judged = JudgedCut {
            setup,
            round,
            ledger: &done.ledger,
            after: done.took,
            report: Some(report),
            found: &found,
            took: start.elapsed(),
        };
        if judged.is_broken() && turn.kept < MOST_KEPT && image.exists() {
            self.folder.keep_cut(&setup.label, round, &found.operations)?;
            turn.kept += 1;
        }
        Ok((judged.batch(), guest))
    }

    /// Works until a random moment and pulls the plug of machine and card. What the card contains
    /// then is written to `image`. The next machine is restored meanwhile; it does nothing before
    /// the first one is dead.
    fn pull(
        &self,
        bench: &CutBench<'_>,
        turn: &Turn<'_>,
        round: u32,
        guest: Option<Guest>,
        image: &Path,
    ) -> Result<PowerCut, CrashError> {
        let seed = round_seed(self.plan.seed, round);
        let mut random = SplitMix64::new(seed);
        let mut guest = match guest {
            Some(guest) => guest,
            None => bench.restore()?,
        };
        bench.begin(&mut guest, &turn.setup, seed)?;
        std::thread::scope(|scope| {
            let spare = scope.spawn(|| bench.restore());
            let trigger = turn.pace.moment(&mut random);
            let (is_cut, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
            let cut_seed = random.next_u64();
            let cut = || {
                // Before the cut, so that nothing is acknowledged that came after it.
                is_cut.store(true, Ordering::SeqCst);
                bench.card.cut(cut_seed, self.card.faults.clone())
            };
            let (done, report) = std::thread::scope(|scope| {
                let (time, watching) = match trigger {
                    CutTrigger::Time(time) => (time, None),
                    CutTrigger::Write { number, delay } => {
                        let from = bench.card.writes();
                        let (cut, is_over) = (&cut, &is_over);
                        let watch = move || {
                            while bench.card.writes() < from + number {
                                if is_over.load(Ordering::SeqCst) {
                                    return None;
                                }
                                std::thread::sleep(POLL_INTERVAL);
                            }
                            std::thread::sleep(delay);
                            Some(cut())
                        };
                        (turn.pace.whole * 2, Some(scope.spawn(watch)))
                    }
                };
                let done = bench.work(&mut guest, seed, Some(time), &is_cut);
                is_over.store(true, Ordering::SeqCst);
                let report = watching.and_then(|it| it.join().expect("watching does not panic"));
                // The write may never come.
                (done, report.unwrap_or_else(cut))
            });
            guest.kill();
            let spare = spare.join().expect("restoring does not panic")?;
            let done = done?;
            let guest = if report.count(FaultClass::Brick) > 0 {
                // Nothing can be read of it.
                let _ = std::fs::remove_file(image);
                Err(bench.card.power_on().err().unwrap_or_default())
            } else {
                bench.card.image(image)?;
                bench.card.power_on().map(|()| spare)
            };
            Ok(PowerCut { done, report, guest })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl CutTrigger {
        fn time(self) -> Option<Duration> {
            match self {
                Self::Time(time) => Some(time),
                Self::Write { .. } => None,
            }
        }
    }

    #[test]
    fn the_estimate_follows_the_load_of_the_computer_slowly() {
        let mut pace = Pace { whole: Duration::from_secs(1), items: 100, writes: 9 };
        pace.learn(Duration::from_secs(1), 2);
        assert_eq!(pace.whole, Duration::from_secs(1));
        for _ in 0..50 {
            pace.learn(Duration::from_secs(1), 50);
        }
        assert!((1.98..2.0).contains(&pace.whole.as_secs_f64()), "{pace:?}");
        let mut random = SplitMix64::new(1);
        let triggers: Vec<CutTrigger> = (0..400).map(|_| pace.moment(&mut random)).collect();
        let moments: Vec<Duration> = triggers.iter().filter_map(|it| it.time()).collect();
        let early = moments.iter().filter(|moment| **moment < pace.whole / 2).count();
        assert!(moments.iter().all(|moment| *moment < pace.whole) && (70..130).contains(&early));
        for wanted in 1..=9 {
            let count = triggers
                .iter()
                .filter(|it| matches!(it, CutTrigger::Write { number, .. } if *number == wanted))
                .count();
            assert!((5..45).contains(&count), "write {wanted}: {count}");
        }
    }
}
