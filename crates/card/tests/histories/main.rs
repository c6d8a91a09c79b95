//! Compares cards with a reference model: random histories of requests, idle times, power cuts and
//! reloads on every kind of card, with the behavior allowed for correct devices.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kinds;
mod plain;

use flashfit_card::{Card, CardRequest, CutMoment, CutOptions, EnabledFault, FaultClass};
use flashfit_device::BlockDevError;
use proptest::prelude::*;

use kinds::{Kind, SECTOR, SECTORS, kind};
use plain::Plain;

#[derive(Debug, Clone)]
enum Step {
    Read {
        first: usize,
        count: usize,
    },
    Write {
        first: usize,
        count: usize,
    },
    Discard {
        first: usize,
        count: usize,
    },
    Flush,
    Idle {
        time_ns: u64,
    },
    /// At this share of the remaining work, in thousandths.
    Cut {
        thousandths: u64,
        seed: u64,
    },
    Reload,
}

fn range() -> impl Strategy<Value = (usize, usize)> {
    let first = prop_oneof![0..SECTORS, 0..60_usize];
    let count = prop_oneof![3 => 1..20_usize, 1 => 1..120_usize];
    (first, count).prop_map(|(first, count)| (first, count.min(SECTORS - first)))
}

/// A step, and whether it waits until everything before it is complete.
fn step() -> impl Strategy<Value = (Step, bool)> {
    let step = prop_oneof![
        32 => range().prop_map(|(first, count)| Step::Write { first, count }),
        8 => range().prop_map(|(first, count)| Step::Read { first, count }),
        2 => range().prop_map(|(first, count)| Step::Discard { first, count }),
        4 => Just(Step::Flush),
        2 => (0..2000_u64).prop_map(|time_ns| Step::Idle { time_ns }),
        4 => (0..1001_u64, any::<u64>())
            .prop_map(|(thousandths, seed)| Step::Cut { thousandths, seed }),
        1 => Just(Step::Reload),
    ];
    (step, any::<bool>())
}

fn sector_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(SECTOR / 8)
}

fn values(bytes: &[u8]) -> Vec<u64> {
    let value = |sector: &[u8]| {
        let value = u64::from_le_bytes(sector[..8].try_into().unwrap());
        assert!(sector[8..] == sector[..SECTOR - 8], "a sector of two writes");
        value
    };
    bytes.chunks(SECTOR).map(value).collect()
}

fn saved(card: &Card) -> Vec<u8> {
    let mut bytes = Vec::new();
    card.save(&mut bytes).unwrap();
    bytes
}

/// A card with its reference model.
struct Play {
    card: Card,
    plain: Plain,
    now_ns: u64,
    writes: u64,
    in_file: bool,
}

impl Play {
    fn new(kind: &Kind, in_file: bool) -> Self {
        let model = kind.model();
        let card = if in_file {
            Card::in_file(&model, tempfile::tempfile().unwrap())
        } else {
            Card::new(&model)
        };
        let plain = Plain::new(kind.cache, kind.sectors_per_page());
        Self { card, plain, now_ns: 0, writes: 0, in_file }
    }

    fn submit(&mut self, request: CardRequest<'_>) -> u64 {
        self.plain.pass_to(self.now_ns);
        self.card.submit(self.now_ns, request).unwrap()
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Read { first, count } => {
                let mut buffer = vec![0xee; count * SECTOR];
                let offset = (first * SECTOR) as u64;
                self.submit(CardRequest::Read { offset, buffer: &mut buffer });
                assert_eq!(values(&buffer), self.plain.now()[first..first + count]);
            }
            Step::Write { first, count } => {
                self.writes += 1;
                let (data, offset) =
                    (sector_of(self.writes).repeat(count), (first * SECTOR) as u64);
                let done_ns = self.submit(CardRequest::Write { offset, data: &data });
                self.plain.write(first, count, self.writes, done_ns);
            }
            Step::Discard { first, count } => {
                let (offset, length) = ((first * SECTOR) as u64, (count * SECTOR) as u64);
                self.submit(CardRequest::Discard { offset, length });
                self.plain.discard(first, count);
            }
            Step::Flush => {
                let done_ns = self.submit(CardRequest::Flush);
                self.plain.flush(done_ns);
            }
            Step::Idle { time_ns } => {
                self.now_ns = self.card.done_ns().max(self.now_ns) + time_ns;
                self.card.idle_until(self.now_ns);
            }
            Step::Cut { thousandths, seed } => self.cut(thousandths, seed),
            Step::Reload => self.reload(),
        }
    }

    fn cut(&mut self, thousandths: u64, seed: u64) {
        let left_ns = self.card.done_ns().saturating_sub(self.now_ns);
        let at_ns = self.now_ns + left_ns * thousandths / 1000;
        let report = self.card.power_cut(&CutOptions::honest(seed).at(CutMoment::At(at_ns)));
        let barrier = report.flushed_entries_lost > 0;
        assert!(report.is_honest() != barrier && report.absent.is_empty(), "{report:?}");
        let refused = self.card.submit(self.now_ns, CardRequest::Flush);
        assert!(matches!(refused, Err(BlockDevError::Disconnected(_))));
        self.card.power_on().unwrap();
        self.plain.cut(at_ns, self.everything());
        self.now_ns = self.card.done_ns().max(at_ns);
    }

    fn reload(&mut self) {
        let bytes = saved(&self.card);
        self.card = if self.in_file {
            Card::load_in_file(&bytes[..], tempfile::tempfile().unwrap()).unwrap()
        } else {
            Card::load(&bytes[..]).unwrap()
        };
        assert!(saved(&self.card) == bytes, "a loaded card is not the saved one");
    }

    fn everything(&self) -> Vec<u64> {
        let mut bytes = vec![0xee; SECTORS * SECTOR];
        self.card.peek(0, &mut bytes).unwrap();
        values(&bytes)
    }
}

/// Runs a history and checks every read and every power cut; returns the card.
fn play(kind: &Kind, steps: &[(Step, bool)], in_file: bool) -> Card {
    let mut play = Play::new(kind, in_file);
    for (step, waits) in steps {
        if *waits {
            play.now_ns = play.card.done_ns().max(play.now_ns);
        }
        play.step(step);
    }
    assert_eq!(play.everything(), play.plain.now());
    play.card
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn reads_return_the_last_write_and_power_cuts_leave_what_is_allowed(
        kind in kind(),
        steps in prop::collection::vec(step(), 1..100),
    ) {
        play(&kind, &steps, false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn one_history_gives_identical_states_in_memory_and_in_a_file(
        kind in kind(),
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let bytes = saved(&play(&kind, &steps, false));
        prop_assert!(saved(&play(&kind, &steps, false)) == bytes);
        prop_assert!(saved(&play(&kind, &steps, true)) == bytes);
    }
}

fn faults() -> impl Strategy<Value = Vec<EnabledFault>> {
    let class = prop::sample::select(FaultClass::ALL.to_vec());
    let fault = (class, prop::option::of(0..1000_u64))
        .prop_map(|(class, value)| EnabledFault { class, value });
    prop::collection::vec(fault, 1..4)
}

/// A card that records its history, after some steps.
fn played(kind: &Kind, steps: &[(Step, bool)]) -> Card {
    let mut play = Play::new(kind, false);
    play.card.record_history(1);
    steps.iter().for_each(|(step, _)| play.step(step));
    play.card
}

/// Cuts the power with faults; returns the card unless it is broken.
fn damaged(mut card: Card, seed: u64, faults: &[EnabledFault]) -> Option<Card> {
    let options = CutOptions { seed, moment: CutMoment::DuringLast, faults: faults.to_vec() };
    let report = card.power_cut(&options);
    let happened: Vec<FaultClass> = report.happened.iter().map(|damage| damage.class).collect();
    assert!(happened.is_sorted(), "{happened:?}");
    assert!(report.absent.iter().all(|absent| !absent.class.is_honest()));
    let broken = card.power_on().is_err();
    assert_eq!(broken, report.count(FaultClass::Brick) > 0);
    (!broken).then_some(card)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_damaged_card_accepts_new_data_and_the_damage_repeats_by_seed(
        kind in kind(),
        steps in prop::collection::vec(step(), 1..60),
        seed in any::<u64>(),
        faults in faults(),
    ) {
        let left = || damaged(played(&kind, &steps), seed, &faults);
        let Some(mut card) = left() else { return Ok(()) };
        prop_assert!(saved(&card) == saved(&left().unwrap()));
        for round in 1..3 {
            let data = sector_of(round).repeat(SECTORS);
            card.serve(CardRequest::Write { offset: 0, data: &data }).unwrap();
        }
        let mut bytes = vec![0xee; SECTORS * SECTOR];
        card.serve(CardRequest::Read { offset: 0, buffer: &mut bytes }).unwrap();
        prop_assert!(bytes == sector_of(2).repeat(SECTORS));
    }
}
