//! How busy this machine's processors are, and the size of their pages.
//!
//! Source: the first line of `/proc/stat` (Documentation/filesystems/proc.rst, 1.7), the sum over
//! all processors in units of 10 ms. Limits: waiting for I/O counts as idle; time stolen by a
//! hypervisor is not counted; over less than about 100 ms the share is coarse.

use serde::{Deserialize, Serialize};

const TICK_NS: u64 = 10_000_000;
/// Fields of the line: user, nice, system, idle, iowait, irq, softirq.
const COUNTED: usize = 7;
const IDLE: [usize; 2] = [3, 4];

/// The size of a page of this machine's memory, which some file systems depend on.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Time of all processors together in nanoseconds, since boot or within a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorTime {
    /// Time spent working.
    pub busy_ns: u64,
    pub all_ns: u64,
}

impl ProcessorTime {
    /// Time since boot; `None` if `/proc/stat` cannot be parsed.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            all_ns: self.all_ns.saturating_sub(earlier.all_ns),
        }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { busy_ns: self.busy_ns + other.busy_ns, all_ns: self.all_ns + other.all_ns }
    }

    /// The busy share, 0 to 1; `None` for an empty period.
    pub fn share(self) -> Option<f64> {
        (self.all_ns > 0).then(|| self.busy_ns as f64 / self.all_ns as f64)
    }

    fn parse(text: &str) -> Option<Self> {
        let all = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Option<Vec<u64>> =
            all.split_whitespace().take(COUNTED).map(|field| field.parse().ok()).collect();
        let ticks = ticks.filter(|ticks| ticks.len() == COUNTED)?;
        let total: u64 = ticks.iter().sum();
        let idle: u64 = IDLE.iter().map(|&field| ticks[field]).sum();
        Some(Self { busy_ns: (total - idle) * TICK_NS, all_ns: total * TICK_NS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_io_is_idle_time() {
        let before = ProcessorTime::parse("cpu  10 0 20 100 5 1 2 0 0 0\ncpu0 1 2\n").unwrap();
        let after = ProcessorTime::parse("cpu  20 0 25 120 45 1 2 9 0 0\n").unwrap();
        let span = after.since(before);
        assert_eq!(span, ProcessorTime { busy_ns: 150_000_000, all_ns: 750_000_000 });
        assert_eq!(span.share(), Some(0.2));
        assert_eq!(ProcessorTime::default().share(), None);
    }

    #[test]
    fn malformed_lines_are_rejected() {
        for text in ["", "cpu0 1 2 3 4 5 6 7\n", "cpu  1 2 3\n", "cpu  1 2 x 4 5 6 7\n"] {
            assert_eq!(ProcessorTime::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn this_machine_has_processor_times() {
        let now = ProcessorTime::now().expect("Linux has /proc/stat");
        assert!(now.busy_ns > 0 && now.busy_ns <= now.all_ns);
    }
}
