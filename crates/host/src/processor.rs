//! How busy this machine's processors are.
//!
//! Source: `/proc/stat` (Documentation/filesystems/proc.rst, 1.7), whose first line adds up what
//! all processors did, in hundredths of a second. Limits: what waits for I/O counts as idle, time
//! that a hypervisor took as neither; over a few hundredths of a second a share is coarse.

use serde::{Deserialize, Serialize};

const TICK_NS: u64 = 10_000_000;
/// Places on the line: user, nice, system, idle, iowait, irq, softirq.
const COUNTED: usize = 7;
const IDLE: [usize; 2] = [3, 4];

/// Time of all processors together, in nanoseconds: since the machine started, or over a span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorTime {
    /// In which they worked.
    pub busy_ns: u64,
    pub all_ns: u64,
}

impl ProcessorTime {
    /// Since the machine started; `None` where the kernel does not tell.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// From an earlier reading to this one.
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

    /// The share in which they worked, 0 to 1; `None` of no time at all.
    pub fn share(self) -> Option<f64> {
        (self.all_ns > 0).then(|| self.busy_ns as f64 / self.all_ns as f64)
    }

    fn parse(text: &str) -> Option<Self> {
        let all = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Option<Vec<u64>> =
            all.split_whitespace().take(COUNTED).map(|field| field.parse().ok()).collect();
        let ticks = ticks.filter(|ticks| ticks.len() == COUNTED)?;
        let whole: u64 = ticks.iter().sum();
        let idle: u64 = IDLE.iter().map(|&place| ticks[place]).sum();
        Some(Self { busy_ns: (whole - idle) * TICK_NS, all_ns: whole * TICK_NS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_medium_is_not_work() {
        let before = ProcessorTime::parse("cpu  10 0 20 100 5 1 2 0 0 0\ncpu0 1 2\n").unwrap();
        let after = ProcessorTime::parse("cpu  20 0 25 120 45 1 2 9 0 0\n").unwrap();
        let span = after.since(before);
        assert_eq!(span, ProcessorTime { busy_ns: 150_000_000, all_ns: 750_000_000 });
        assert_eq!(span.share(), Some(0.2));
        assert_eq!(ProcessorTime::default().share(), None);
    }

    #[test]
    fn what_is_no_such_line_tells_nothing() {
        for text in ["", "cpu0 1 2 3 4 5 6 7\n", "cpu  1 2 3\n", "cpu  1 2 x 4 5 6 7\n"] {
            assert_eq!(ProcessorTime::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn this_machine_tells() {
        let now = ProcessorTime::now().expect("Linux has /proc/stat");
        assert!(now.busy_ns > 0 && now.busy_ns <= now.all_ns);
    }
}
