//! `flashfit card`: the simulated cards.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use flashfit_card::Counters;
use flashfit_card::served::CardProcess;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::{ExitClass, capability};
use flashfit_medium::Bytes;
use flashfit_report::{Column, Shorten, Table};

use crate::cli::{CardArgs, CardCommand};
use crate::commands::card_server;
use crate::commands::inspect::card_text;
use crate::failure::Failure;
use crate::output;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub fn run(args: &CardArgs, catalog: Option<&Path>) -> Result<(), Failure> {
    match &args.command {
        CardCommand::List { json } => list(*json, catalog),
        CardCommand::Show { name, json } => {
            let model = flashfit_card::catalogue::load(name, catalog)?;
            if *json { output::json("card", model) } else { output::print(&card_text(&model)) }
        }
        CardCommand::Bench(args) => crate::card_bench::run(args, catalog),
        CardCommand::Serve { name } => serve(name, catalog),
        CardCommand::Stats { device, json } => {
            let counters = flashfit_card::served::stats(device)?;
            if *json {
                output::json("card-counters", counters)
            } else {
                output::print(&counters_text(&counters))
            }
        }
    }
}

fn list(json: bool, catalog: Option<&Path>) -> Result<(), Failure> {
    let cards = flashfit_card::catalogue::all(catalog)?;
    if json {
        return output::json("cards", cards);
    }
    let mut table = Table::new([
        Column::text("CARD"),
        Column::number("SIZE"),
        Column::number("ERASE UNIT"),
        Column::text("WHAT IT IS").shorten(Shorten::End),
    ]);
    for card in &cards {
        let erase_unit = Bytes(card.erase_unit_bytes()).to_string();
        table.row([&card.name, &card.capacity.to_string(), &erase_unit, &card.title]);
    }
    output::print(&table.render(output::width()))
}

fn serve(name: &str, catalog: Option<&Path>) -> Result<(), Failure> {
    if let Some(reason) = capability::missing_for_simulated_cards() {
        return Err(Failure::new(
            ExitClass::Environment,
            format!("a simulated card cannot be attached: {reason}"),
            Some("run it as root, on a machine with FUSE and loop devices"),
        ));
    }
    let interrupt = Interrupt::on_signals().map_err(|error| {
        Failure::new(ExitClass::Environment, format!("cannot catch signals: {error}"), None)
    })?;
    let (program, args) = (card_server::program(), card_server::args(name, catalog));
    let card = CardProcess::start(&program, &args)?;
    output::print(&format!("{}\n", card.device().display()))?;
    card.notes().iter().for_each(|text| output::note(&format!("note: {text}")));
    output::note("simulated card attached; Ctrl-C detaches it");
    while !interrupt.is_raised() {
        std::thread::sleep(POLL_INTERVAL);
    }
    let counters = card.counters();
    card.stop()?;
    if let Ok(counters) = counters {
        output::note(&counters_text(&counters));
    }
    Ok(())
}

/// A card's counters, a fact a line.
fn counters_text(counters: &Counters) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(text, "{name:<22} {value}").expect("a string takes any text");
    };
    let requests = |bytes, count| format!("{} in {count} requests", Bytes(bytes));
    line("host reads", requests(counters.host_read_bytes, counters.host_read_requests));
    line("host writes", requests(counters.host_written_bytes, counters.host_write_requests));
    line("host flushes", counters.host_flushes.to_string());
    line("host discards", Bytes(counters.host_discarded_bytes).to_string());
    line("NAND reads", Bytes(counters.nand_read_bytes).to_string());
    line("NAND programs", Bytes(counters.nand_programmed_bytes).to_string());
    line("write amplification", amplification(counters));
    let erases = &counters.erases_per_unit;
    line(
        "erases",
        format!(
            "{}; by erase unit: least {}, mean {}.{:03}, most {}",
            counters.erases,
            erases.least,
            erases.mean_thousandths / 1000,
            erases.mean_thousandths % 1000,
            erases.most
        ),
    );
    let merges = &counters.merges;
    line(
        "merges",
        format!("{} full, {} partial, {} switch", merges.full, merges.partial, merges.switch),
    );
    line("garbage collections", counters.garbage_collections.to_string());
    text
}

fn amplification(counters: &Counters) -> String {
    counters.write_amplification_thousandths.map_or_else(
        || "nothing was written".to_owned(),
        |thousandths| format!("{}.{:02}", thousandths / 1000, thousandths % 1000 / 10),
    )
}
