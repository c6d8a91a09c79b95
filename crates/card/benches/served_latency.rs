//! What the way through the kernel adds to a request's modelled time, at queue depth 1.
//!
//! Serves the page-mapped card of the catalogue, reads and writes 4 KiB with `O_DIRECT`, and prints
//! the median of measured minus modelled, of several repeats, with the interquartile range. The
//! modelled time of a request is the difference of the card's `busy_ns` around it, asked for
//! outside the timed section. Run it with `cargo bench -p flashfit-card`, as root.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::fs::{File, OpenOptions};
use std::io::BufReader;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::ExitCode;
use std::time::Instant;

use flashfit_card::catalogue;
use flashfit_card::served::{CardProcess, ServeOptions, run};

const CARD: &str = "usd-a1-pagemap";
const REPEATS: usize = 5;
const REQUESTS: u64 = 400;
const REQUEST_BYTES: usize = 4096;
/// What the project promises, in nanoseconds.
const LIMIT_NS: i64 = 100_000;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        let model = catalogue::load(CARD, None).expect("a card of the catalogue");
        let control = BufReader::new(std::io::stdin());
        let served = run(&model, &ServeOptions::default(), control, std::io::stdout());
        return if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let program = std::env::current_exe().expect("a running program");
    let card = match CardProcess::start(&program, &["serve".to_owned()]) {
        Ok(card) => card,
        Err(error) => {
            println!("skipped: {error}");
            return ExitCode::SUCCESS;
        }
    };
    let kept = measure(&card);
    card.stop().expect("its device is closed");
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure(card: &CardProcess) -> bool {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(card.device())
        .expect("the card's device");
    let mut kept = true;
    for (name, writes) in [("write", true), ("read", false)] {
        for repeat in 1..=REPEATS {
            let [quarter, median, three_quarters] = added_ns(card, &file, writes);
            println!(
                "{CARD} {name} 4 KiB, repeat {repeat}: {REQUESTS} requests, added median \
                 {median} ns, interquartile range {quarter} to {three_quarters} ns"
            );
            kept &= median <= LIMIT_NS;
        }
    }
    println!("at most {LIMIT_NS} ns at the median: {}", if kept { "kept" } else { "not kept" });
    kept
}

/// The quartiles of measured minus modelled time.
fn added_ns(card: &CardProcess, file: &File, writes: bool) -> [i64; 3] {
    let mut aligned = vec![0_u8; 2 * REQUEST_BYTES];
    let start = aligned.as_ptr().align_offset(REQUEST_BYTES);
    let buffer = &mut aligned[start..start + REQUEST_BYTES];
    let busy_ns = || card.counters().expect("the card answers").busy_ns;
    let mut added: Vec<i64> = (0..REQUESTS)
        .map(|number| {
            let offset = number * 7919 % 8192 * REQUEST_BYTES as u64;
            let before_ns = busy_ns();
            let begin = Instant::now();
            let done =
                if writes { file.write_at(buffer, offset) } else { file.read_at(buffer, offset) };
            let measured_ns = begin.elapsed().as_nanos();
            assert_eq!(done.expect("the card serves"), REQUEST_BYTES);
            let modelled_ns = busy_ns() - before_ns;
            i64::try_from(measured_ns).expect("short") - i64::try_from(modelled_ns).expect("short")
        })
        .collect();
    added.sort_unstable();
    [1, 2, 3].map(|quarter| added[added.len() * quarter / 4])
}
