//! Tables that were read more than once: a file that was named twice, or a table and the log that
//! contains it. Each would count as another measurement.
//!
//! A measurement is repeated if all its figures are equal. Limits: two measurements of a few
//! figures can agree by chance; then one of them is lost.

use flashfit_device::Bytes;

use super::{AccessOrder, Imported, OpenBlockTable, TableCell};

impl Imported {
    /// Drops what is also in another table.
    pub fn drop_repeated(&mut self) {
        let mut dropped = drop_within(&mut self.align, |one, other| {
            one.rows.iter().all(|row| other.rows.contains(row))
        });
        dropped += drop_within(&mut self.fat, |one, other| {
            one.rows.iter().all(|row| other.rows.contains(row))
        });
        dropped += drop_within(&mut self.open_erase_blocks, |one, other| {
            runs(one).iter().all(|run| other.has(run))
        });
        dropped += drop_runs(&mut self.open_erase_blocks);
        self.repeated += dropped;
    }
}

/// Drops each table that is within another one; of equal ones the first stays.
fn drop_within<T>(tables: &mut Vec<T>, is_within: impl Fn(&T, &T) -> bool) -> usize {
    let before = tables.len();
    let mut at = 0;
    while at < tables.len() {
        let is_repeated = (0..tables.len()).any(|other| {
            let (one, other_one) = (&tables[at], &tables[other]);
            // Of equal ones only the later one counts as repeated.
            let is_equal_and_first = other > at && is_within(other_one, one);
            other != at && is_within(one, other_one) && !is_equal_and_first
        });
        if is_repeated {
            tables.remove(at);
        } else {
            at += 1;
        }
    }
    before - tables.len()
}

/// Drops from each table the runs that an earlier one has.
fn drop_runs(tables: &mut Vec<OpenBlockTable>) -> usize {
    let mut dropped = 0;
    for at in 1..tables.len() {
        let (earlier, later) = tables.split_at_mut(at);
        let table = &mut later[0];
        let repeated = runs(table).into_iter().filter(|run| earlier.iter().any(|of| of.has(run)));
        for run in repeated {
            table.cells.retain(|cell| (cell.units, cell.access) != (run.units, run.access));
            dropped += 1;
        }
    }
    tables.retain(|table| !table.cells.is_empty());
    dropped
}

/// The rates of one call of flashbench.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    units: u32,
    access: AccessOrder,
    /// Write size and rate.
    rates: Vec<(Bytes, u64)>,
}

fn runs(table: &OpenBlockTable) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &TableCell { units, access, write, bytes_per_second } in &table.cells {
        let known = runs.iter_mut().find(|run| (run.units, run.access) == (units, access));
        match known {
            Some(run) => run.rates.push((write, bytes_per_second)),
            None => runs.push(Run { units, access, rates: vec![(write, bytes_per_second)] }),
        }
    }
    runs.iter_mut().for_each(|run| run.rates.sort_unstable());
    runs
}

impl OpenBlockTable {
    fn has(&self, run: &Run) -> bool {
        runs(self).contains(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "== AU=3, linear access ==\n4MiB 9M/s\n2MiB 8M/s\n";
    const FOUR: &str = "== AU=4, linear access ==\n4MiB 7M/s\n2MiB 6M/s\n";
    const FIVE: &str = "== AU=5, random access ==\n4MiB 1M/s\n2MiB 2M/s\n";
    const ALIGN: &str = "align 8192 pre 1ms on 2ms post 1ms\nalign 4096 pre 1ms on 1ms post 1ms\n";

    fn imported(files: &[&str]) -> Imported {
        let mut all = Imported::default();
        files.iter().for_each(|file| all.add(Imported::read(file.as_bytes()).unwrap()));
        all.drop_repeated();
        all
    }

    fn same(files: &[&str], repeated: usize, once: &str) {
        let found = imported(files);
        assert_eq!(found.repeated, repeated, "{files:?}");
        let expected = Imported::read(once.as_bytes()).unwrap();
        assert_eq!(Imported { repeated: 0, ..found }, expected, "{files:?}");
    }

    #[test]
    fn a_table_that_is_read_again_counts_once() {
        let log = format!("{ALIGN}{THREE}{FOUR}");
        same(&[&log], 0, &log);
        same(&[&log, &log, &log], 4, &log);
        same(&[&format!("{log}{log}")], 2, &log);
        same(&[THREE, &log, ALIGN], 2, &log);
        same(&[&log, FOUR, THREE], 2, &log);
    }

    #[test]
    fn other_measurements_stay() {
        let again = THREE.replace("8M/s", "8.1M/s");
        assert_eq!(imported(&[THREE, &again]).open_erase_blocks.len(), 2);
        let found = imported(&[&format!("{THREE}{FOUR}"), &format!("{THREE}{FIVE}")]);
        let tables: Vec<usize> = found.open_erase_blocks.iter().map(|of| of.cells.len()).collect();
        assert_eq!((tables, found.repeated), (vec![4, 2], 1));
    }
}
