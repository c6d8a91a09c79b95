//! How many requests a second pass through a served card that takes hardly any time itself.
//!
//! Serves a card whose times are a nanosecond each, without and with a command queue, and has fio
//! read and write 4 KiB at random: `--direct=1 --bs=4k --ioengine=libaio --iodepth=1` or 32 on the
//! loop device, and `--ioengine=nbd` on the socket. It also prints the processor time that the
//! card's process used for a request, which other load on the machine hardly changes. Run it with
//! `cargo bench -p flashfit-card --bench served_throughput`, as root; it needs fio.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use flashfit_card::catalog;
use flashfit_card_client::CardProcess;
use flashfit_card_server::{ServeOptions, run};
use flashfit_host::{Program, Runner, SystemRunner};

const CARD: &str = r#"
name = "instant"
title = "a card that takes no time"
source = "none"
capacity = "128MiB"
sector_bytes = 512
[nand]
page = "4KiB"
erase_unit = "1MiB"
read_ns = 1
program_ns = 1
erase_ns = 1
endurance_cycles = 1000000
spare_units = 32
[bus]
command_ns = 1
bytes_per_second = 1_000_000_000_000
[layer]
kind = "page-mapped"
"#;
const REPEATS: usize = 3;
/// What the project promises at depth 1 and 32 on the loop device, in requests a second.
const PROMISED: [(u32, u64); 2] = [(1, 20_000), (32, 100_000)];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "serve") {
        return serve(&args[1..]);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut kept = true;
    for (depth, promised) in PROMISED {
        let card = folder.path().join(format!("depth-{depth}.toml"));
        std::fs::write(&card, format!("{CARD}[queue]\ndepth = {depth}\n")).expect("a file");
        let socket = folder.path().join("socket");
        for nbd in [false, true] {
            let mut args = vec!["serve".into(), card.clone().into_os_string()];
            args.extend(nbd.then(|| socket.clone().into_os_string()));
            let program = std::env::current_exe().expect("a running program");
            let card = match CardProcess::start(&program, &args) {
                Ok(card) => card,
                Err(error) => {
                    println!("skipped: {error}");
                    continue;
                }
            };
            let way = if nbd { "NBD" } else { "loop" };
            for pattern in ["randwrite", "randread"] {
                let before_ns = processor_ns(card.id());
                let measured: Vec<Measured> =
                    (0..REPEATS).filter_map(|_| fio(card.device(), nbd, pattern, depth)).collect();
                let used_ns = processor_ns(card.id()) - before_ns;
                let requests: u64 = measured.iter().map(|measured| measured.requests).sum();
                let mut figures: Vec<u64> =
                    measured.iter().map(|measured| measured.a_second).collect();
                figures.sort_unstable();
                let one_ns = used_ns.checked_div(requests).unwrap_or(0);
                println!(
                    "{way}, depth {depth}, {pattern} of 4 KiB: {figures:?} requests a second, \
                     {one_ns} ns of processor time for one"
                );
                kept &= nbd || figures.get(REPEATS / 2).is_none_or(|&median| median >= promised);
            }
            card.stop().expect("its device is closed");
        }
    }
    println!("{}", if kept { "kept" } else { "not kept" });
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve(args: &[String]) -> ExitCode {
    let model = catalog::load(&args[0], None).expect("a card file");
    let options = ServeOptions { nbd: args.get(1).map(Into::into), ..ServeOptions::default() };
    let served = run(&model, &options, BufReader::new(std::io::stdin()), std::io::stdout());
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a process has run, its ended threads included (proc(5), `utime` and `stime` of `stat`).
fn processor_ns(process: u32) -> u64 {
    /// `USER_HZ` of Linux.
    const TICK_NS: u64 = 10_000_000;
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let (_, after_name) = text.rsplit_once(')').expect("its name is in brackets");
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum::<u64>() * TICK_NS
}

struct Measured {
    requests: u64,
    a_second: u64,
}

/// What fio measures; `None`, and the reason printed, where it cannot.
fn fio(place: &Path, nbd: bool, pattern: &str, depth: u32) -> Option<Measured> {
    let target = if nbd {
        ["--ioengine=nbd".to_owned(), format!("--uri=nbd+unix:///?socket={}", place.display())]
    } else {
        ["--ioengine=libaio".to_owned(), format!("--filename={}", place.display())]
    };
    let fio = Program::new("fio")
        .args(["--name=x", "--bs=4k", "--size=128m", "--direct=1", "--time_based", "--runtime=2"])
        .args(["--randrepeat=1", "--norandommap", "--output-format=json"])
        .args([format!("--rw={pattern}"), format!("--iodepth={depth}")])
        .args(target);
    let outcome = match SystemRunner::default().run_checked(&fio) {
        Ok(outcome) => outcome,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let begin = outcome.stdout.find('{')?;
    let result: serde_json::Value = serde_json::from_str(&outcome.stdout[begin..]).ok()?;
    let side = if pattern == "randread" { "read" } else { "write" };
    let job = &result["jobs"][0][side];
    let (requests, milliseconds) = (job["total_ios"].as_u64()?, job["runtime"].as_u64()?);
    let a_second = (requests * 1000).checked_div(milliseconds)?;
    Some(Measured { requests, a_second })
}
