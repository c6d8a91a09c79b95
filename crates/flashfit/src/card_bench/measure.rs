//! The figures of a card model: simple patterns, and flashbench's open-block table on a card that
//! was written completely once.

use flashfit_card::patterns::{self, RandomFigures, SequentialFigures};
use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_device::{BlockDev, BlockDevError, Bytes, VirtualClock};
use flashfit_geometry::flashbench::{OpenBlockProcedure, OpenBlockTable};
use flashfit_user_error::ExitClass;
use schemars::JsonSchema;
use serde::Serialize;

use crate::command_error::CommandError;

const PIECE: Bytes = Bytes::mib(1);

/// All simulated.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CardFigures {
    pub sequential: SequentialFigures,
    /// In every prior state and access pattern.
    pub random: Vec<RandomFigures>,
    #[serde(rename = "open_units")]
    pub open_erase_blocks: OpenBlockTable,
}

pub fn figures(
    model: &CardModel,
    most_units: u32,
    least_write: Bytes,
    seed: u64,
) -> Result<CardFigures, CommandError> {
    Ok(CardFigures {
        sequential: patterns::sequential(model)?,
        random: patterns::random(model, seed)?,
        open_erase_blocks: open_erase_blocks(model, most_units, least_write, seed)?,
    })
}

fn open_erase_blocks(
    model: &CardModel,
    most_units: u32,
    least_write: Bytes,
    seed: u64,
) -> Result<OpenBlockTable, CommandError> {
    let sector = Bytes(model.sector_bytes.into());
    if least_write.0 % sector.0 != 0 {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("--least {least_write}: the card has sectors of {sector}"),
            Some(&format!("use --least {} or a multiple of it", sector.0)),
        ));
    }
    let mut device = used(model)?;
    let procedure =
        OpenBlockProcedure { erase_block: model.nand.erase_block, least_write, most_units, seed };
    let clock = device.clock().clone();
    Ok(procedure.run(&mut device, &clock)?)
}

/// A card that was written completely once. Its data is not kept: only times and counts matter.
fn used(model: &CardModel) -> Result<InProcessCard<VirtualClock>, BlockDevError> {
    let mut device = InProcessCard::new(Card::counting(model), VirtualClock::default());
    let capacity = device.describe().capacity_bytes;
    let piece = vec![0x5a; PIECE.0 as usize];
    for offset in (0..capacity).step_by(piece.len()) {
        device.write(offset, &piece[..(capacity - offset).min(PIECE.0) as usize])?;
    }
    device.flush()?;
    Ok(device)
}
