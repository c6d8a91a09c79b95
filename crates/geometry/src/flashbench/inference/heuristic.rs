//! The geometry guessed by the CELF methodology from an alignment table.
//!
//! Quoted: "finding two rows in the 'flashbench -a' output with the biggest (Drow+1-Drow)/Drow,
//! where Di is the value of the last output column, and printing corresponding block sizes". The
//! difference decreases from row to row, so the absolute jump is used. The larger of the two sizes
//! is the erase block. This method always gives an answer. Source: eMMC/SSD File System Tuning
//! Methodology 1.0 (CELF, 2013), section 3.4.1.

use flashfit_device::Bytes;

use crate::flashbench::AlignTable;

/// The erase block and the page according to the methodology; `None` for fewer than three rows.
pub fn methodology(table: &AlignTable) -> Option<(Bytes, Bytes)> {
    let mut jumps: Vec<(f64, Bytes)> = table
        .rows
        .windows(2)
        .map(|of| {
            let (this, next) = (of[0].extra_ns(), of[1].extra_ns());
            // A row with difference 0 counts as the largest jump.
            let jump = if this == 0.0 { f64::INFINITY } else { ((next - this) / this).abs() };
            (jump, of[0].align)
        })
        .collect();
    jumps.sort_by(|one, other| other.0.total_cmp(&one.0));
    let [(_, one), (_, other), ..] = jumps[..] else { return None };
    Some((one.max(other), one.min(other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flashbench::Imported;

    /// From flashbench's README, quoted by the methodology.
    const EXAMPLE: &str = "\
        align 134217728 pre 735µs on 1.08ms post 780µs\n\
        align 67108864 pre 736µs on 1.05ms post 763µs\n\
        align 33554432 pre 722µs on 1.04ms post 763µs\n\
        align 16777216 pre 727µs on 1.05ms post 772µs\n\
        align 8388608 pre 724µs on 1.04ms post 768µs\n\
        align 4194304 pre 741µs on 1.08ms post 788µs\n\
        align 2097152 pre 745µs on 950µs post 811µs\n\
        align 1048576 pre 745µs on 945µs post 807µs\n\
        align 524288 pre 743µs on 936µs post 799µs\n\
        align 262144 pre 746µs on 948µs post 809µs\n\
        align 131072 pre 737µs on 935µs post 804µs\n\
        align 65536 pre 735µs on 925µs post 796µs\n\
        align 32768 pre 735µs on 925µs post 800µs\n\
        align 16384 pre 745µs on 911µs post 781µs\n\
        align 8192 pre 785µs on 808µs post 725µs\n\
        align 4096 pre 784µs on 788µs post 779µs\n\
        align 2048 pre 787µs on 793µs post 789µs\n";

    #[test]
    fn the_methodology_does_not_reproduce_its_own_example() {
        let table = &Imported::read(EXAMPLE.as_bytes()).unwrap().align[0];
        let (erase_block, page) = methodology(table).unwrap();
        // The published answer is 4 MiB and 16 KiB; the largest jumps are at the pages.
        assert_eq!((erase_block, page), (Bytes::kib(16), Bytes::kib(8)));
        assert_eq!(methodology(&AlignTable::default()), None);
    }
}
