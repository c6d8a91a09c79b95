//! Measures how fast a card serves sequential requests of 1 MiB and random requests of 4 KiB.
//!
//! The prior state matters: on a card that was written completely, every spare erase block is in
//! use; on a card that was mostly never written, they are not. Published figures are nearly always
//! of the latter kind. Limits: no mixture of reads and writes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flashfit_device::BlockDevError;
use flashfit_device::random::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Card, CardModel, CardRequest};

const SEQUENTIAL_BYTES: u64 = 1 << 20;
const RANDOM_BYTES: u64 = 4 << 10;
/// Enough for a card to show what it does beyond its caches and open erase blocks.
const RANDOM_REQUESTS: u64 = 4096;
const QUEUE_DEPTH: usize = 32;
/// Long enough for whatever a card does by itself.
const IDLE_NS: u64 = 60_000_000_000;

/// What was written, one request behind the other, before the random requests go there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriorState {
    /// The first quarter of the card; the rest was never written. Then a minute without requests.
    Quarter,
    /// All of the card. Then a minute without requests.
    Full,
}

pub const STATES: [PriorState; 2] = [PriorState::Quarter, PriorState::Full];

/// How the random requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessPattern {
    /// Each when the one before it is done.
    Single,
    /// The same, and each write is flushed. Cards with a volatile cache only.
    Synced,
    /// 32 at a time. Cards with a command queue only.
    Queued,
    /// One at a time to the same card without its volatile cache and its command queue. Cards with
    /// one of them only.
    Plain,
}

/// Random requests of 4 KiB in one state and one way.
#[derive(Debug, JsonSchema, Serialize)]
pub struct RandomFigures {
    pub state: PriorState,
    pub way: AccessPattern,
    /// In thousandths of a write a second.
    pub write_rate_thousandths: u64,
    /// What the writes cost in the NAND, in thousandths.
    pub write_amplification_thousandths: Option<u64>,
    /// In thousandths of a read a second.
    pub read_rate_thousandths: u64,
}

/// Requests of 1 MiB over the whole card, one behind the other, from a card as it leaves the
/// factory.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SequentialFigures {
    pub write_bytes_per_second: u64,
    pub read_bytes_per_second: u64,
}

pub fn sequential(model: &CardModel) -> Result<SequentialFigures, BlockDevError> {
    let mut card = Card::counting(model);
    let write_ns = each_mib(&mut card, model.capacity.0, true)?;
    let read_ns = each_mib(&mut card, model.capacity.0, false)?;
    Ok(SequentialFigures {
        write_bytes_per_second: per_second(model.capacity.0, write_ns),
        read_bytes_per_second: per_second(model.capacity.0, read_ns),
    })
}

/// The random figures of a model, in every state and in every way that it has.
pub fn random(model: &CardModel, seed: u64) -> Result<Vec<RandomFigures>, BlockDevError> {
    let mut all = Vec::new();
    for state in STATES {
        for way in ways(model) {
            all.push(in_one_way(model, seed, state, way)?);
        }
    }
    Ok(all)
}

fn ways(model: &CardModel) -> Vec<AccessPattern> {
    let (cache, queue) = (model.cache.is_some(), model.queue.depth > 1);
    let offered = [
        (AccessPattern::Single, true),
        (AccessPattern::Synced, cache),
        (AccessPattern::Queued, queue),
        (AccessPattern::Plain, cache || queue),
    ];
    offered.into_iter().filter_map(|(way, has)| has.then_some(way)).collect()
}

fn in_one_way(
    model: &CardModel,
    seed: u64,
    state: PriorState,
    way: AccessPattern,
) -> Result<RandomFigures, BlockDevError> {
    let mut model = model.clone();
    if way == AccessPattern::Plain {
        model.cache = None;
        model.queue.depth = 1;
    }
    let depth = if way == AccessPattern::Queued { QUEUE_DEPTH } else { 1 };
    let span = match state {
        PriorState::Quarter => model.capacity.0 / 4 / SEQUENTIAL_BYTES * SEQUENTIAL_BYTES,
        PriorState::Full => model.capacity.0,
    };
    let mut card = Card::counting(&model);
    each_mib(&mut card, span, true)?;
    card.idle_until(card.done_ns() + IDLE_NS);
    card.reset_counters();
    let pattern = Pattern { span, depth, flush: way == AccessPattern::Synced, seed };
    let write_ns = pattern.run(&mut card, true)?;
    let amplification = card.counters().write_amplification_thousandths;
    let read_ns = pattern.run(&mut card, false)?;
    Ok(RandomFigures {
        state,
        way,
        write_rate_thousandths: per_second(RANDOM_REQUESTS * 1000, write_ns),
        write_amplification_thousandths: amplification,
        read_rate_thousandths: per_second(RANDOM_REQUESTS * 1000, read_ns),
    })
}

fn per_second(count: u64, time_ns: u64) -> u64 {
    let rate = u128::from(count) * 1_000_000_000 / u128::from(time_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Writes or reads the first `span` bytes and returns how long it took.
fn each_mib(card: &mut Card, span: u64, write: bool) -> Result<u64, BlockDevError> {
    let begin_ns = card.done_ns();
    let mut buffer = vec![0x5a; SEQUENTIAL_BYTES as usize];
    for offset in (0..span).step_by(buffer.len()) {
        card.serve(request(write, offset, &mut buffer))?;
    }
    if write {
        card.serve(CardRequest::Flush)?;
    }
    Ok(card.done_ns() - begin_ns)
}

fn request(write: bool, offset: u64, buffer: &mut [u8]) -> CardRequest<'_> {
    if write {
        CardRequest::Write { offset, data: buffer }
    } else {
        CardRequest::Read { offset, buffer }
    }
}

struct Pattern {
    span: u64,
    depth: usize,
    flush: bool,
    seed: u64,
}

impl Pattern {
    /// A new request is asked as soon as one of those under way is done. What a cache contains of
    /// the writes in the end is flushed.
    fn run(&self, card: &mut Card, write: bool) -> Result<u64, BlockDevError> {
        let mut random = Random::new(self.seed ^ u64::from(write));
        let begin_ns = card.done_ns();
        let mut now_ns = begin_ns;
        let mut under_way = BinaryHeap::new();
        let mut buffer = [0x5a; RANDOM_BYTES as usize];
        for _ in 0..RANDOM_REQUESTS {
            if under_way.len() == self.depth {
                let Reverse(done_ns) = under_way.pop().expect("as many as the depth");
                now_ns = now_ns.max(done_ns);
            }
            let offset = random.below(self.span / RANDOM_BYTES) * RANDOM_BYTES;
            let mut end_ns = card.submit(now_ns, request(write, offset, &mut buffer))?;
            if write && self.flush {
                end_ns = card.submit(end_ns, CardRequest::Flush)?;
            }
            under_way.push(Reverse(end_ns));
        }
        if write {
            card.serve(CardRequest::Flush)?;
        }
        Ok(card.done_ns() - begin_ns)
    }
}
