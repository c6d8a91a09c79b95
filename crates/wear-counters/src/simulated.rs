//! The counters of a simulated card that is being served as a loop device.
//!
//! Limit: a card model counts what its translation layer does, not what a real card does.

use std::path::Path;

use flashfit_card::Counters;
use flashfit_card_client::{AskError, stats};

use crate::counter::{WearCounter, WearQuantity};
use crate::reading::{Answer, NoAnswer, SourceOutcome, SourceReport};

pub(crate) fn read(place: &Path) -> Answer {
    match stats(place) {
        Ok(counters) => Ok(SourceReport { counters: decode(&counters), ..SourceReport::default() }),
        Err(error @ AskError::NotServed { .. }) => Err(NoAnswer::nothing(error.to_string())),
        Err(error @ AskError::Foreign { .. }) => {
            Err(NoAnswer::new(SourceOutcome::NeedsRoot, error.to_string()))
        }
        Err(error) => Err(NoAnswer::failed(error.to_string())),
    }
}

fn decode(counters: &Counters) -> Vec<WearCounter> {
    use WearQuantity as Q;
    let erases = &counters.erases_per_unit;
    let bytes = [
        ("simulated.host_written", Q::HostWritten, counters.host_written_bytes, "host writes"),
        ("simulated.host_read", Q::HostRead, counters.host_read_bytes, "host reads"),
        ("simulated.host_discarded", Q::HostDiscarded, counters.host_discarded_bytes, "discards"),
        ("simulated.flash_written", Q::FlashWritten, counters.nand_programmed_bytes, "programs"),
    ];
    let counts = [
        ("simulated.erases", Q::ErasesTotal, counters.erases, "erases"),
        ("simulated.erases_most", Q::ErasesMost, erases.most, "erases, most worn block"),
        ("simulated.erases_least", Q::ErasesLeast, erases.least, "erases, least worn block"),
        ("simulated.power_losses", Q::PowerLosses, counters.power_cuts, "power cuts"),
    ];
    let bytes = bytes.into_iter().filter_map(|(id, measures, value, field)| {
        WearCounter::bytes(id, measures, u128::from(value), 1, &source(field))
    });
    let counts = counts.into_iter().filter_map(|(id, measures, value, field)| {
        WearCounter::count(id, measures, u128::from(value), &source(field))
    });
    bytes.chain(counts).map(|counter| WearCounter { is_simulated: true, ..counter }).collect()
}

fn source(field: &str) -> String {
    format!("simulated card, {field}")
}
