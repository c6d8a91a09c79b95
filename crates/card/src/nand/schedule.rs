//! Schedules operations on the dies, in nanoseconds of the card's time.
//!
//! An operation starts when its request allows it and its die is free. A program operation also
//! waits for the data that was read for it. Limits: no erase suspend, no contention between dies
//! and controller.

use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct DieSchedule {
    free_ns: Vec<u64>,
    /// Earliest start of this request's operations.
    earliest_ns: u64,
    /// Earliest start of program operations.
    data_ready_ns: u64,
    finished_ns: u64,
}

impl DieSchedule {
    pub fn new(dies: u32) -> Self {
        Self { free_ns: vec![0; dies as usize], earliest_ns: 0, data_ready_ns: 0, finished_ns: 0 }
    }

    pub fn begin(&mut self, at_ns: u64) {
        self.earliest_ns = at_ns;
        self.data_ready_ns = at_ns;
        self.finished_ns = at_ns;
    }

    pub fn not_before(&mut self, at_ns: u64) {
        self.earliest_ns = self.earliest_ns.max(at_ns);
        self.data_ready_ns = self.data_ready_ns.max(at_ns);
        self.finished_ns = self.finished_ns.max(at_ns);
    }

    /// Later program operations do not wait for earlier reads.
    pub fn independent(&mut self) {
        self.data_ready_ns = self.earliest_ns;
    }

    /// Later operations wait for earlier reads.
    pub fn wait_for_data(&mut self) {
        self.earliest_ns = self.earliest_ns.max(self.data_ready_ns);
    }

    pub fn finished_ns(&self) -> u64 {
        self.finished_ns
    }

    pub fn read(&mut self, write_unit: u32, time_ns: u64) {
        let end_ns = self.on_die(write_unit, self.earliest_ns, time_ns);
        self.data_ready_ns = self.data_ready_ns.max(end_ns);
    }

    pub fn program(&mut self, write_unit: u32, time_ns: u64) {
        self.on_die(write_unit, self.data_ready_ns, time_ns);
    }

    pub fn dies(&self) -> usize {
        self.free_ns.len()
    }

    pub fn on_same_die(&self, one: u32, other: u32) -> bool {
        let dies = self.free_ns.len();
        dies == 1 || one as usize % dies == other as usize % dies
    }

    /// Copies `count` consecutive write units from `first`, each read and programmed on one die.
    pub fn copies(&mut self, first: u32, count: u32, read_ns: u64, program_ns: u64) {
        let dies = u32::try_from(self.free_ns.len()).expect("dies are counted in 32 bits");
        let each_ns = read_ns + program_ns;
        self.independent();
        for at in 0..dies.min(count) {
            let on_this_die = (count - at).div_ceil(dies);
            let time_ns = each_ns * u64::from(on_this_die);
            let end_ns = self.on_die(first + at, self.earliest_ns, time_ns);
            if at == (count - 1) % dies {
                self.data_ready_ns = end_ns - program_ns;
            }
        }
    }

    fn on_die(&mut self, write_unit: u32, from_ns: u64, time_ns: u64) -> u64 {
        let dies = self.free_ns.len();
        let die = if dies == 1 { 0 } else { write_unit as usize % dies };
        let end_ns = self.free_ns[die].max(from_ns) + time_ns;
        self.free_ns[die] = end_ns;
        self.finished_ns = self.finished_ns.max(end_ns);
        end_ns
    }

    pub fn on_all_dies(&mut self, time_ns: u64) {
        for free_ns in &mut self.free_ns {
            *free_ns = (*free_ns).max(self.earliest_ns) + time_ns;
            self.finished_ns = self.finished_ns.max(*free_ns);
        }
    }

    /// Delays all later operations until `time_ns` after all earlier ones.
    pub fn wait(&mut self, time_ns: u64) {
        let until_ns = self.finished_ns + time_ns;
        self.not_before(until_ns);
    }
}
