//! Patterns of requests of one size.

use flashfit_device::Bytes;
use flashfit_device::random::Random;

use super::file::{MadePattern, PatternOrder};
use super::{Pattern, PatternRequest, divided};

/// More would take too much memory, and far longer than a probe may.
const MOST_REQUESTS: u64 = 1 << 20;
/// The same places on every device.
const SEED: u64 = 14;

pub(super) fn pattern(made: &MadePattern, span: Bytes) -> Result<Pattern, String> {
    let (bytes, streams) = (made.bytes.0, u64::from(made.streams));
    let large = made.large.map_or(0, |large| large.0);
    let count = u64::from(made.count);
    if !(1..=MOST_REQUESTS).contains(&count) {
        let name = &made.name;
        return Err(format!("pattern `{name}` has {count} requests, not 1 to {MOST_REQUESTS}"));
    }
    let end = made.within.0.saturating_add(count.saturating_mul(large));
    if bytes == 0 || streams == 0 || end > span.0 {
        return Err(format!("pattern `{}` does not fit into {span}", made.name));
    }
    let stream_bytes = made.within.0 / streams;
    let places = stream_bytes / bytes;
    if places == 0 {
        return Err(format!("pattern `{}` has no place for {}", made.name, made.bytes));
    }
    let mut random = Random::new(SEED);
    let mut requests = Vec::new();
    for at in 0..count {
        let place = match made.order {
            PatternOrder::Same => 0,
            PatternOrder::Linear => at / streams % places,
            PatternOrder::Random => random.below(places),
        };
        let offset = at % streams * stream_bytes + place * bytes;
        requests.push(match made.reads {
            true => PatternRequest::Read { offset, length: bytes },
            false => PatternRequest::Write { offset, length: bytes },
        });
        if made.sync {
            requests.push(PatternRequest::Flush);
        }
        if large > 0 {
            let offset = made.within.0 + at * large;
            requests.push(PatternRequest::Write { offset, length: large });
            if made.sync {
                requests.push(PatternRequest::Flush);
            }
        }
    }
    let parts = divided(requests, made.parts);
    Ok(Pattern { name: made.name.clone(), what: made.what.clone(), parts })
}
