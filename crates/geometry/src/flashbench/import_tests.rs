//! Files found in practice: logs, other locales, truncated, mixed, and unrelated to flashbench.

use flashfit_device::Bytes;
use proptest::prelude::*;

use super::Imported;
use crate::flashbench::{AccessOrder, OpenBlockTable, TableCell};

const LOG: &str = "$ sudo ./flashbench -a /dev/sdb --blocksize=1024\r\n\
    sched_setscheduler: Operation not permitted\r\n\
    align 4194304\tpre 655µs\ton 731µs\tpost 658µs\tdiff 74.2µs\r\n\
    align 2097152\tpre 655µs\ton 1e+03µ\tpost 649µs\tdiff -412331\r\n\
    \r\n\
    $ flashbench -O --random --open-au-nr=5 /dev/sdb\r\n\
    4MiB    4.43M/s \r\n\
    2MiB    1.586G/\r\n\
    flashbench --open-au --erasesize=4194304 /dev/sdb\r\n\
    4MiB    10.4M/s \r\n\
    ======= find FAT: 1 =======\r\n\
    4MiB    4.11M/s  8.03M/s  4.39M/s\r\n\
    64KiB   4.11M/s  8.03M/s  4.39M/s\r\n";

#[test]
fn a_log_with_all_kinds_of_tables_is_imported() {
    let read = Imported::read(LOG.as_bytes()).unwrap();
    assert_eq!(read.warnings, []);
    let [align] = &read.align[..] else { panic!("{:?}", read.align) };
    assert_eq!(align.rows.len(), 2);
    assert!((align.rows[1].on_ns - 1e6).abs() < 1e-6);
    let [open_erase_blocks] = &read.open_erase_blocks[..] else {
        panic!("{:?}", read.open_erase_blocks)
    };
    assert_eq!(open_erase_blocks.rate(5, AccessOrder::Random, Bytes::mib(2)), Some(1_586_000_000));
    assert_eq!(open_erase_blocks.rate(2, AccessOrder::Linear, Bytes::mib(4)), Some(10_400_000));
    let [fat] = &read.fat[..] else { panic!("{:?}", read.fat) };
    assert_eq!((fat.rows.len(), fat.unit()), (2, Some(Bytes::mib(4))));
}

#[test]
fn latin_1_utf_16_and_decimal_commas_are_accepted() {
    let text = "align 8192\tpre 650,5µs\ton 1,06ms\tpost 658µs\tdiff 74,2µs\n";
    let latin_1: Vec<u8> = text.chars().map(|c| c as u8).collect();
    let utf_16: Vec<u8> = text
        .encode_utf16()
        .fold(vec![0xff, 0xfe], |all, unit| [all, unit.to_le_bytes().to_vec()].concat());
    let plain = Imported::read(text.as_bytes()).unwrap();
    assert!((plain.align[0].rows[0].on_ns - 1.06e6).abs() < 1e-6);
    assert_eq!(Imported::read(&latin_1).unwrap(), plain);
    assert_eq!(Imported::read(&utf_16).unwrap(), plain);
    // A µ that lost its second byte does not affect the other lines.
    let half = [text.as_bytes(), b"align 4096\tpre 9.25e+0\xc2\ton 1ms\tpost 1ms\n"].concat();
    let read = Imported::read(&half).unwrap();
    assert_eq!(read.align[0].rows.len(), 2, "{:?}", read.warnings);
}

#[test]
fn consecutive_runs_are_separate_tables() {
    let run = "align 8192 pre 1ms on 1ms post 1ms diff 0ns\nalign 4096 pre 1ms on 1ms post 1ms\n";
    let read = Imported::read(format!("{run}{run}").as_bytes()).unwrap();
    assert_eq!(read.align.len(), 2);
    let run = "== AU=1, linear access ==\n4MiB 1M/s\n2MiB 1M/s\n";
    let read = Imported::read(format!("{run}{run}").as_bytes()).unwrap();
    assert_eq!(read.open_erase_blocks.len(), 2);
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/flashbench/card-21/align-run-21.1.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let as_printed = Imported::read(text.as_bytes()).unwrap();
    let reversed: Vec<&str> = text.lines().rev().collect();
    let mut shuffled: Vec<&str> = text.lines().collect();
    shuffled.sort_by_key(|line| line.bytes().rev().collect::<Vec<u8>>());
    for lines in [reversed, shuffled] {
        assert_eq!(Imported::read(lines.join("\n").as_bytes()).unwrap(), as_printed);
    }
}

#[test]
fn malformed_rows_are_reported_and_the_rest_is_used() {
    let text = "align 16384 pre 1ms on 0ns post 1ms diff -1ms\n\
                align 8192 pre 1ms on 1ms post 1ms diff 0ns\n\
                align 4096 pre nan on inf post 1ms\n\
                align 2048 pre 1ms o";
    let read = Imported::read(text.as_bytes()).unwrap();
    assert_eq!(read.align[0].rows.len(), 1);
    let lines: Vec<usize> = read.warnings.iter().map(|warning| warning.line).collect();
    assert_eq!(lines, [1, 3, 4]);
}

#[test]
fn a_file_without_a_usable_row_is_an_error_with_line_and_reason() {
    let error = |bytes: &[u8]| Imported::read(bytes).unwrap_err().to_string();
    assert_eq!(error(b""), "line 1: the file is empty");
    assert_eq!(error(b"\n \r\n"), "line 1: the file is empty");
    assert!(error(b"Dear all,\nplease find attached").contains("no flashbench output"));
    assert!(error(&[0, 159, 146, 150, 10, 255]).contains("no flashbench output"));
    let untitled = error(b"\n4MiB 5M/s\n");
    assert!(untitled.starts_with("line 2: unknown number of units"), "{untitled}");
    let failed = error(b"align 8192 pre 0ns on 0ns post 0ns diff 0ns\n");
    assert!(failed.contains("failed"), "{failed}");
}

#[test]
fn absurd_numbers_of_units_are_not_imported() {
    for title in ["=== AU=4294967295, linear access ===", "flashbench -O --open-au-nr=4294967295"] {
        let absurd = format!("{title}\n4MiB 4.43M/s\n2MiB 4.4M/s\n").repeat(3);
        let error = Imported::read(absurd.as_bytes()).unwrap_err();
        assert_eq!((error.line, error.reason.contains("4294967295")), (1, true), "{error}");
        let read = Imported::read(format!("{LOG}\n{absurd}").as_bytes()).unwrap();
        assert!(read.warnings.iter().any(|of| of.reason.contains("units: 4294967295")));
    }
}

/// The tables that a command line announces, by a row after it; none if it has a warning.
fn announced(command: &str) -> Option<(u32, AccessOrder)> {
    let read = Imported::read(format!("{LOG}{command}\n128KiB 4.43M/s\n").as_bytes()).unwrap();
    let mut cells = read.open_erase_blocks.iter().flat_map(|table| &table.cells);
    let found = cells.find(|cell| cell.write == Bytes::kib(128));
    assert_eq!(found.is_none(), !read.warnings.is_empty(), "{command}: {:?}", read.warnings);
    found.map(|cell| (cell.units, cell.access))
}

#[test]
fn command_lines_are_read_as_flashbench_reads_them() {
    use AccessOrder::{Linear, Random};
    for (options, expected) in [
        ("-O -r --open-au-nr=3", (3, Random)),
        ("-Or --open-au-nr=3 /dev/sdb", (3, Random)),
        ("-O --rand --open-au-nr 3 /dev/sdb", (3, Random)),
        ("--open-au-nr 3 /dev/sdb --open-au", (3, Linear)),
        ("--open-au --open-au-n=5 --blocksize 1024 /dev/sdb", (5, Linear)),
        ("-O -e 4194304 -b1024 --open-au-nr=1 --open-au-nr=4", (4, Linear)),
        // The letters of values are not options.
        ("-O -oerror.txt --open-au-nr=3 /dev/sdb", (3, Linear)),
        ("-O -o -r --open-au-nr=3 /dev/sdb", (3, Linear)),
        ("-O /dev/sdb | tee -r", (2, Linear)),
        ("-O -- -r", (2, Linear)),
    ] {
        assert_eq!(announced(&format!("# ./flashbench {options}")), Some(expected), "{options}");
    }
}

#[test]
fn an_unreadable_number_of_units_is_reported() {
    for options in ["--open-au-nr=three", "--open-au-nr=0", "--open-au-nr", "--open-au-nr /dev/sdb"]
    {
        assert_eq!(announced(&format!("flashbench -O {options}")), None, "{options}");
        let text = format!("{LOG}flashbench -O {options}\n128KiB 4.43M/s\n");
        let read = Imported::read(text.as_bytes()).unwrap();
        let [number, row] = &read.warnings[..] else { panic!("{:?}", read.warnings) };
        assert_eq!((number.line, row.line), (14, 15));
        assert!(number.reason.contains("number of units"), "{}", number.reason);
    }
}

/// Numbers of units are listed, not counted up to.
#[test]
fn the_numbers_of_units_of_a_table_may_have_gaps() {
    let cell = |write| TableCell {
        units: u32::MAX,
        access: AccessOrder::Linear,
        write: Bytes(write),
        bytes_per_second: 4_430_000,
    };
    let table = OpenBlockTable { cells: vec![cell(4 << 20), cell(2 << 20)] };
    let imported = Imported { open_erase_blocks: vec![table; 3], ..Imported::default() };
    let probed = crate::flashbench::inference::infer(&imported);
    assert_eq!(probed.findings.small_write_log.value, None);
}

#[test]
fn every_published_table_is_imported_without_warnings() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/flashbench");
    let mut files = 0;
    for card in std::fs::read_dir(folder).unwrap() {
        let card = card.unwrap().path();
        for file in card.is_dir().then(|| std::fs::read_dir(&card).unwrap()).into_iter().flatten() {
            let path = file.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let read = Imported::read(&bytes).unwrap();
            assert_eq!(read.warnings, [], "{}", path.display());
            let used: usize = read.align.iter().map(|table| table.rows.len()).sum::<usize>()
                + read.open_erase_blocks.iter().map(|table| table.cells.len()).sum::<usize>()
                + read.fat.iter().map(|table| table.rows.len()).sum::<usize>();
            let text = String::from_utf8(bytes).unwrap();
            let rows = text.lines().filter(|line| !line.starts_with("==") && !line.is_empty());
            assert_eq!(used, rows.count(), "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 100, "only {files}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Imported::read(&bytes);
    }

    #[test]
    fn truncated_files_do_not_panic(at in 0..600_usize, with in any::<u8>()) {
        let mut bytes = LOG.as_bytes().to_vec();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = with;
        }
        bytes.truncate(at + 20);
        let _ = Imported::read(&bytes);
    }
}
