//! flashbench's alignment table: the time of reads before, across and after boundaries.
//!
//! `flashbench -a` prints one row per alignment, in halves from the largest down. The time across
//! is compared with the mean of the other two. That difference is recomputed here because the
//! printed one may be truncated.

use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

use super::number;

/// One row. Each time is a mean over seven places of the minimum over the repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AlignRow {
    /// The boundaries are odd multiples of this, as far as the device reaches.
    pub align: Bytes,
    /// A read that ends at the boundary, in nanoseconds.
    pub pre_ns: f64,
    /// A read across the boundary, in nanoseconds.
    pub on_ns: f64,
    /// A read that begins at the boundary, in nanoseconds.
    pub post_ns: f64,
}

impl AlignRow {
    /// The extra time of a read across the boundary, in nanoseconds.
    pub fn extra_ns(&self) -> f64 {
        self.on_ns - self.adjacent_ns()
    }

    /// The mean time of the reads before and after the boundary, in nanoseconds.
    pub fn adjacent_ns(&self) -> f64 {
        (self.pre_ns + self.post_ns) / 2.0
    }

    /// The resolution of the difference in nanoseconds; times are printed with three digits.
    pub fn grain_ns(&self) -> f64 {
        let grain = |time: f64| 10f64.powf(time.abs().max(1.0).log10().floor() - 2.0);
        let (pre, on, post) = (grain(self.pre_ns), grain(self.on_ns), grain(self.post_ns));
        // Rounding errors are uniformly distributed.
        ((on * on + (pre * pre + post * post) / 4.0) / 12.0).sqrt()
    }
}

/// One run's rows, the largest alignment first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AlignTable {
    pub rows: Vec<AlignRow>,
}

/// Parses a row from the words after `align`. The printed difference may be truncated or missing.
pub(super) fn parse(words: &[&str]) -> Result<AlignRow, String> {
    let [align, "pre", pre, "on", on, "post", post, ..] = words else {
        return Err("the row is truncated".to_owned());
    };
    let align = align.parse().ok().or_else(|| number::size_bytes(align));
    let align = align.filter(|&bytes| bytes > 0).ok_or("the alignment is not a valid size")?;
    let time = |name: &str, text: &str| match number::time_ns(text) {
        Some(0.0) => Err(format!("`{name} {text}` is a failed read")),
        Some(time) if time > 0.0 => Ok(time),
        _ => Err(format!("`{name} {text}` is not a valid time")),
    };
    Ok(AlignRow {
        align: Bytes(align),
        pre_ns: time("pre", pre)?,
        on_ns: time("on", on)?,
        post_ns: time("post", post)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Result<AlignRow, String> {
        parse(&text.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn the_difference_is_recomputed() {
        let row = row("4194304 pre 655µs on 1.05ms post 645µs diff -9").unwrap();
        assert_eq!(row.align, Bytes::mib(4));
        assert!((row.extra_ns() - 400_000.0).abs() < 1e-6);
        assert!((2_800.0..3_200.0).contains(&row.grain_ns()), "{}", row.grain_ns());
    }

    #[test]
    fn unusable_rows_are_rejected_with_a_reason() {
        assert!(row("4194304 pre 655µs on").unwrap_err().contains("truncated"));
        assert!(row("4194304 pre 655µs on 0ns post 1µs").unwrap_err().contains("failed"));
        assert!(row("4194304 pre nan on 1µs post 1µs").unwrap_err().contains("not a valid time"));
        assert!(row("0 pre 1µs on 1µs post 1µs").is_err());
    }
}
