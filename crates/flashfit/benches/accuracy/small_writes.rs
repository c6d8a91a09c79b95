//! Section 7: the log for small writes, and the special zone at the start.

use flashfit_card::model::LayerKind;

use crate::trials::{Answers, HEAD, Trial, bytes};

/// The largest log request that the probe can tell from none, in bytes.
const LARGEST_LOG_REQUEST: u64 = 32 << 10;
/// The most erase blocks of a zone that the probe looks at, less one.
const MOST_ZONE_UNITS: u64 = 5;

/// The section, as Markdown.
pub fn section(trials: &[Trial]) -> String {
    let mut text = format!(
        "\n## 7. Small-write log and special zone\n\nThe cards of section 1. A log takes writes \
         of up to a size; an answer is correct if it is that size. The probe sees a log whose \
         writes have up to {} KiB, and both only where other scattered writes cause merges \
         (all layers but page-mapped ones).\n\n{HEAD}",
        LARGEST_LOG_REQUEST >> 10
    );
    let log = |wanted: fn(Option<u64>) -> bool| {
        let cards = trials.iter().filter(move |t| wanted(t.small_write_log()));
        Answers::of(cards.map(|t| {
            let found = bytes(&t.written.findings.small_write_log);
            (found, found.is_some() && found == t.small_write_log())
        }))
    };
    let within = |size: Option<u64>| size.is_some_and(|size| size <= LARGEST_LOG_REQUEST);
    text += &log(within).row("log of writes of up to 32 KiB", "95 % correct");
    let beyond = |size: Option<u64>| size.is_some_and(|size| size > LARGEST_LOG_REQUEST);
    text += &log(beyond).row("log of larger writes", "");
    text += &log(|size| size.is_none()).row("log, cards without one", "none");
    let zone = |wanted: &dyn Fn(&Trial) -> bool| {
        let cards = trials.iter().filter(|t| wanted(t));
        Answers::of(cards.map(|t| {
            let found = bytes(&t.written.findings.special_zone);
            (found, found.is_some() && found == t.zone())
        }))
    };
    let merges = |t: &Trial| t.kind() != LayerKind::PageMapped;
    let seen = zone(&|t| t.zone().is_some() && merges(t) && fits(t));
    text += &seen.row("zone, layers that merge", "95 % correct");
    text += &zone(&|t| t.zone().is_some() && !merges(t)).row("zone, page-mapped", "");
    text += &zone(&|t| t.zone().is_none()).row("zone, cards without one", "none");
    text
}

fn fits(trial: &Trial) -> bool {
    trial.zone().is_some_and(|zone| zone / trial.erase_block() <= MOST_ZONE_UNITS)
}
