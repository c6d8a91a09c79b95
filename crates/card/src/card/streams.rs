//! What it costs a card to be written in turns: to another erase block than before, or to another
//! place of a unit than where the last write to it ended.
//!
//! Source: inferred from timing; in the flashbench tables of many cards small writes to two units
//! in turn take some tenths of a millisecond longer than to one, however large they are.

use std::collections::BTreeMap;

use crate::model::CardModel;

/// Where the writes of each erase block of the address space ended, in bytes.
#[derive(Debug, Default)]
pub struct Streams {
    ends: BTreeMap<u64, u64>,
    last: Option<u64>,
}

impl Streams {
    /// What a write takes longer because of those before it, in nanoseconds.
    pub fn turn_ns(&mut self, model: &CardModel, offset: u64, length: u64) -> u64 {
        let (jump_ns, switch_ns) = (model.layer.jump_ns, model.layer.switch_ns);
        if jump_ns == 0 && switch_ns == 0 || length == 0 {
            return 0;
        }
        let unit_bytes = model.erase_unit_bytes();
        let (unit, end) = (offset / unit_bytes, offset + length);
        let switches = self.last.is_some_and(|last| last != unit);
        let jumps = self.ends.get(&unit).map_or(offset % unit_bytes != 0, |&last| last != offset);
        // A unit that is written from its start again goes on too.
        let jumps = jumps && offset % unit_bytes != 0;
        let last_unit = (end - 1) / unit_bytes;
        self.last = Some(last_unit);
        self.ends.insert(last_unit, end);
        let mut time_ns = 0;
        if jumps {
            time_ns += jump_ns;
        }
        if switches {
            time_ns += switch_ns;
        }
        time_ns
    }
}
