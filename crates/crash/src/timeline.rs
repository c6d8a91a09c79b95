//! The operations and requests around a power cut, in the order in which they happened.

use schemars::JsonSchema;
use serde::Serialize;

use crate::log::{CrashLog, LogEntry};
use crate::state::CrashState;

/// Operations shown before the one that was cut short.
const OPERATIONS_BEFORE: usize = 6;
/// Requests shown before the first that was lost.
const REQUESTS_BEFORE: u32 = 6;

/// What happened at a position of the log.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TimelineEvent {
    pub position: u32,
    pub kind: TimelineKind,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimelineKind {
    Begins,
    Returns,
    /// A request whose effect is there.
    Kept,
    /// One whose effect is lost.
    Lost,
    /// One of which a part is there.
    Torn,
    PowerCut,
}

/// The events around the power cut of a state.
pub fn timeline(log: &CrashLog, state: &CrashState) -> Vec<TimelineEvent> {
    let cut = state.position;
    let begun = log.operations.partition_point(|done| done.begin < cut);
    let operations = &log.operations[begun.saturating_sub(OPERATIONS_BEFORE)..begun];
    let first_lost = state.dropped.first().copied().unwrap_or(cut).min(cut);
    let first_operation = operations.first().map_or(0, |done| done.begin);
    let first = first_lost.saturating_sub(REQUESTS_BEFORE).max(first_operation.min(first_lost));
    let mut events = Vec::new();
    for (number, done) in operations.iter().enumerate() {
        let name = format!("{} {}", done.number, done.operation);
        let failed = done.error.map_or(String::new(), |error| format!(" (error {error})"));
        let begins = TimelineEvent {
            position: done.begin,
            kind: TimelineKind::Begins,
            text: format!("{name}{failed}"),
        };
        events.push((begins.position, 2 * number, begins));
        if done.end <= cut {
            let text = format!("{name} has returned");
            let returns = TimelineEvent { position: done.end, kind: TimelineKind::Returns, text };
            events.push((returns.position, 2 * number + 1, returns));
        }
    }
    let under_way = u32::from(state.torn_under_way().is_some());
    for position in first..cut + under_way {
        let kind = if state.dropped.binary_search(&position).is_ok() {
            TimelineKind::Lost
        } else if state.torn.as_ref().is_some_and(|torn| torn.entry == position) {
            TimelineKind::Torn
        } else {
            TimelineKind::Kept
        };
        let text = request(&log.entries[position as usize]);
        events.push((position, usize::MAX, TimelineEvent { position, kind, text }));
    }
    // At one position, operations come in their order, and the next request after them.
    events.sort_by_key(|(position, order, _)| (*position, *order));
    let mut events: Vec<TimelineEvent> = events.into_iter().map(|(_, _, event)| event).collect();
    let text = match &state.recovery {
        None => "power cut".to_owned(),
        Some(second) => {
            format!("power cut, and again after {} requests of recovery", second.position)
        }
    };
    events.push(TimelineEvent { position: cut, kind: TimelineKind::PowerCut, text });
    events
}

fn request(entry: &LogEntry) -> String {
    match entry {
        LogEntry::Flush => "flush".to_owned(),
        LogEntry::Discard { sector, sectors } => format!("discard {sectors} sectors at {sector}"),
        LogEntry::Write(write) => {
            let how = if write.is_durable { " through the cache" } else { "" };
            format!("write{how} {} sectors at {}", write.sectors, write.sector)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{BlockId, BlockPool};
    use crate::log::LoggedWrite;
    use crate::workload::{LoggedOperation, Operation};

    #[test]
    fn events_are_in_order() {
        let write = |sector| {
            let blocks = vec![BlockId::ZERO];
            LogEntry::Write(LoggedWrite { sector, sectors: 8, blocks, is_durable: false })
        };
        let done = |operation, number, begin, end| LoggedOperation {
            operation,
            number,
            begin,
            end,
            inode: None,
            error: None,
        };
        let log = CrashLog {
            setup: String::new(),
            seed: 0,
            base: vec![BlockId::ZERO; 8],
            pool: BlockPool::default(),
            entries: vec![write(0), LogEntry::Flush, write(8)],
            operations: vec![
                done(Operation::Fsync { path: "f".into() }, 0, 0, 2),
                done(Operation::Unlink { path: "f".into() }, 1, 2, 3),
            ],
        };
        let state = CrashState { dropped: vec![2], ..CrashState::complete(3) };
        let events = timeline(&log, &state);
        let text: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
        assert_eq!(
            text,
            [
                "0 fsync f",
                "write 8 sectors at 0",
                "flush",
                "0 fsync f has returned",
                "1 unlink f",
                "write 8 sectors at 8",
                "1 unlink f has returned",
                "power cut",
            ]
        );
        assert_eq!(events[5].kind, TimelineKind::Lost);
    }
}
