//! Ages a simulated card by serving requests to it.

use std::sync::LazyLock;

use flashfit_card::model::LayerKind;
use flashfit_card::trace::TracedRequest;
use flashfit_card::{Card, CardModel, CardRequest, Counters};
use flashfit_device::BlockDevError;

use crate::replay::{FillOrder, Replay};

/// The largest request that a host sends at once.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Allocated when needed, so that they are not in the binary.
static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; REQUEST_BYTES_MAX]);

/// Serves a traced request; a card without discard ignores discards.
///
/// # Errors
/// As [`Card::serve`].
pub fn serve(card: &mut Card, request: TracedRequest) -> Result<(), BlockDevError> {
    match request {
        TracedRequest::Write { mut offset, mut length } => {
            while length > 0 {
                let part = usize::try_from(length).unwrap_or(REQUEST_BYTES_MAX);
                let part = part.min(REQUEST_BYTES_MAX);
                card.serve(CardRequest::Write { offset, data: &ZEROS[..part] })?;
                offset += part as u64;
                length -= part as u64;
            }
            Ok(())
        }
        TracedRequest::Discard { offset, length } => {
            match card.serve(CardRequest::Discard { offset, length }) {
                Err(BlockDevError::NoDiscard) => Ok(()),
                served => served.map(drop),
            }
        }
        TracedRequest::Flush => card.serve(CardRequest::Flush).map(drop),
        TracedRequest::Mark => Ok(()),
    }
}

/// A new card in the state before the workloads.
///
/// # Errors
/// As [`Card::serve`].
pub fn filled(model: &CardModel, replay: &mut Replay<'_>) -> Result<Card, BlockDevError> {
    let mut card = Card::counting(model);
    let order = match model.layer.kind {
        LayerKind::PageMapped => FillOrder::Random,
        LayerKind::BlockMapped | LayerKind::LogBlock | LayerKind::UpdateLog => FillOrder::Ascending,
    };
    replay.fill(order, |request| serve(&mut card, request))?;
    Ok(card)
}

/// Replays until the workloads have written `bytes` to the card; returns the counters of that time.
///
/// # Errors
/// As [`Card::serve`].
pub fn replay_bytes(
    card: &mut Card,
    replay: &mut Replay<'_>,
    bytes: u64,
) -> Result<Counters, BlockDevError> {
    card.reset_counters();
    let mut written = 0;
    while written < bytes {
        written += replay.window(|request| serve(card, request))?.1;
    }
    Ok(card.counters())
}
