//! The cost of switching between write streams: to another erase block than before, or to another
//! offset than where the last write to the erase block ended.
//!
//! Source: inferred from timing. In the flashbench tables of many cards, small writes that
//! alternate between two erase blocks take some 0.1 ms longer than writes to one, whatever their
//! size.

use std::collections::BTreeMap;

use crate::model::CardModel;

/// The end offset of the last write to each erase block of the address space.
#[derive(Debug, Default)]
pub struct Streams {
    ends: BTreeMap<u64, u64>,
    last: Option<u64>,
}

/// What a write does with the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamStep {
    /// Whether it does not continue where the last one to its erase block ended.
    pub jumps: bool,
    /// Whether it goes to another erase block than the last one.
    pub switches: bool,
}

impl Streams {
    /// Additional time of a write because of earlier ones, in nanoseconds.
    pub fn switch_cost_ns(&mut self, model: &CardModel, offset: u64, length: u64) -> u64 {
        let (jump_ns, switch_ns) = (model.layer.jump_ns, model.layer.switch_ns);
        if jump_ns == 0 && switch_ns == 0 || length == 0 {
            return 0;
        }
        let step = self.step(model.erase_block_bytes(), offset, length);
        u64::from(step.jumps) * jump_ns + u64::from(step.switches) * switch_ns
    }

    /// The next write; `length` must not be 0. All in bytes.
    pub fn step(&mut self, block_bytes: u64, offset: u64, length: u64) -> StreamStep {
        let (block, end) = (offset / block_bytes, offset + length);
        let switches = self.last.is_some_and(|last| last != block);
        let jumps = self.ends.get(&block).map_or(offset % block_bytes != 0, |&last| last != offset);
        // Restarting at the beginning of an erase block counts as continuing.
        let jumps = jumps && offset % block_bytes != 0;
        let last_block = (end - 1) / block_bytes;
        self.last = Some(last_block);
        self.ends.insert(last_block, end);
        StreamStep { jumps, switches }
    }
}
