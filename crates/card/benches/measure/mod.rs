//! Helpers of the in-process benches: time, memory, and random places.

use std::time::{Duration, Instant};

pub const GIB: u64 = 1 << 30;

/// Nanoseconds per item of `work`, which handles `count` items; in CPU time if the kernel provides
/// it, to reduce the influence of other load.
pub fn each_ns(count: u64, work: impl FnOnce()) -> f64 {
    let (begin, begin_cpu) = (Instant::now(), on_cpu());
    work();
    let taken = begin_cpu.and_then(|begin| Some(on_cpu()?.saturating_sub(begin)));
    let taken = taken.unwrap_or_else(|| begin.elapsed());
    taken.as_secs_f64() * 1e9 / count as f64
}

/// CPU time of this thread.
fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

/// Memory of this process in bytes; 0 if unknown.
pub fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    kibibytes.unwrap_or(0_u64) * 1024
}

/// A random number generator (xorshift64*, Vigna 2016, with Lemire's reduction).
pub struct Places(u64);

impl Places {
    /// Uses a fixed seed.
    pub fn new() -> Self {
        Self(1)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let random = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        let place = (u128::from(random) * u128::from(end)) >> 64;
        u64::try_from(place).expect("it is below a number of 64 bits")
    }
}

/// Prints a row of the table and returns its time for comparison.
pub fn print_row(name: &str, gibibytes: u64, each_ns: f64, base_ns: f64, memory: u64, work: &str) {
    println!(
        "{name:34} {gibibytes:5} GiB {:>10.0} {each_ns:>6.0} {:>6.2} {:>6} {work}",
        1e9 / each_ns,
        each_ns / base_ns,
        memory >> 20,
    );
}

/// Prints the header of the table.
pub fn print_header(work: &str) {
    println!(
        "{:34} {:>9} {:>10} {:>6} {:>6} {:>6} {work}",
        "layer", "card", "requests/s", "ns", "ratio", "MiB"
    );
}
