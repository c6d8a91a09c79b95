//! `flashfit card`: the simulated cards.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_report::{Column, Shorten, TextTable};

use crate::command_error::CommandError;
use crate::commands::card_args::{CardArgs, CardCommand};
use crate::commands::{card_power, card_serve, card_stats};
use crate::output;
use crate::rendering::inspect::card_text;

pub fn run(args: &CardArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    match &args.command {
        CardCommand::List { json } => list(*json, catalog),
        CardCommand::Show { name, file: true, .. } => {
            output::print_utf8(&flashfit_card::catalog::entry(name, catalog)?.text)
        }
        CardCommand::Show { name, json, .. } => {
            let model = flashfit_card::catalog::load(name, catalog)?;
            if *json { output::json(model) } else { output::print(&card_text(&model)) }
        }
        CardCommand::Bench(args) => crate::card_bench::run(args, catalog),
        CardCommand::Serve(args) => card_serve::run(args, catalog),
        CardCommand::Stats { device, reset, json } => card_stats::run(device, *reset, *json),
        CardCommand::Cut(args) => card_power::cut(args),
        CardCommand::PowerOn { device } => card_power::on(device),
    }
}

fn list(json: bool, catalog: Option<&Path>) -> Result<(), CommandError> {
    let cards = flashfit_card::catalog::all(catalog)?;
    if json {
        return output::json(cards);
    }
    let mut table = TextTable::new([
        Column::text("CARD"),
        Column::number("SIZE"),
        Column::number("ERASE BLOCK"),
        Column::text("WHAT IT IS").shorten(Shorten::End),
    ]);
    for card in &cards {
        let erase_block = Bytes(card.erase_block_bytes()).to_string();
        table.row([&card.name, &card.capacity.to_string(), &erase_block, &card.title]);
    }
    output::print(&table.render(output::width()))
}
