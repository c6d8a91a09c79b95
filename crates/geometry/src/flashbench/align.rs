//! flashbench's alignment table: how long reads take before, across and behind boundaries.
//!
//! As `flashbench -a` prints it, a row for each alignment from the largest down by halves. The time
//! across is compared with the mean of the other two, which is recomputed here: what is printed
//! for it can be cut off.

use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

use super::number;

/// One row. Each time is a mean over seven places of the least over the repeats there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AlignRow {
    /// The boundaries lie at odd multiples of it, as far as the device reaches.
    pub align: Bytes,
    /// A read that ends at the boundary, in nanoseconds.
    pub pre_ns: f64,
    /// A read across the boundary, in nanoseconds.
    pub on_ns: f64,
    /// A read that begins at the boundary, in nanoseconds.
    pub post_ns: f64,
}

impl AlignRow {
    /// What a read across the boundary takes longer than those beside it, in nanoseconds.
    pub fn extra_ns(&self) -> f64 {
        self.on_ns - self.beside_ns()
    }

    /// What a read beside the boundary takes, in nanoseconds.
    pub fn beside_ns(&self) -> f64 {
        (self.pre_ns + self.post_ns) / 2.0
    }

    /// How finely the difference is known, in nanoseconds: times are printed with three digits.
    pub fn grain_ns(&self) -> f64 {
        let grain = |time: f64| 10f64.powf(time.abs().max(1.0).log10().floor() - 2.0);
        let (pre, on, post) = (grain(self.pre_ns), grain(self.on_ns), grain(self.post_ns));
        // The rounding errors of the three are uniform.
        ((on * on + (pre * pre + post * post) / 4.0) / 12.0).sqrt()
    }
}

/// One run's rows, the largest alignment first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AlignTable {
    /// The rows that could be used.
    pub rows: Vec<AlignRow>,
}

/// Reads a row from the words behind `align`. The printed difference may be cut off or missing.
pub(super) fn parse(words: &[&str]) -> Result<AlignRow, String> {
    let [align, "pre", pre, "on", on, "post", post, ..] = words else {
        return Err("the row is cut off".to_owned());
    };
    let align = align.parse().ok().or_else(|| number::size_bytes(align));
    let align = align.filter(|&bytes| bytes > 0).ok_or("the alignment is no size")?;
    let time = |name: &str, text: &str| match number::time_ns(text) {
        Some(0.0) => Err(format!("`{name} {text}` is a read that failed")),
        Some(time) if time > 0.0 => Ok(time),
        _ => Err(format!("`{name} {text}` is no time")),
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
    fn what_cannot_be_used_says_why() {
        assert!(row("4194304 pre 655µs on").unwrap_err().contains("cut off"));
        assert!(row("4194304 pre 655µs on 0ns post 1µs").unwrap_err().contains("failed"));
        assert!(row("4194304 pre nan on 1µs post 1µs").unwrap_err().contains("no time"));
        assert!(row("0 pre 1µs on 1µs post 1µs").is_err());
    }
}
