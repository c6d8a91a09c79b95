//! Patterns from recorded workloads of file systems.

use flashfit_card::trace::TracedRequest;
use flashfit_device::Bytes;
use flashfit_wear::RecordedTrace;
use flashfit_wear::trace_file::name_of;

use super::file::RecordedPattern;
use super::{Pattern, PatternRequest, divided};

pub(super) fn pattern(
    wanted: &RecordedPattern,
    trace: &RecordedTrace,
    span: Bytes,
) -> Result<Pattern, String> {
    if trace.header.capacity > span {
        let (name, capacity) = (&wanted.name, trace.header.capacity);
        return Err(format!("trace `{name}` needs {capacity}, and the span is {span}"));
    }
    Ok(of_trace(trace, wanted.most, wanted.parts))
}

/// The beginning of a trace, up to `most` written, in about as many parts.
pub fn of_trace(trace: &RecordedTrace, most: Bytes, parts: u32) -> Pattern {
    let header = &trace.header;
    Pattern {
        name: name_of(&header.filesystem, &header.options, &header.workload),
        what: format!("{} under the workload {}", header.filesystem, header.workload),
        parts: divided(beginning(trace, most.0), parts),
    }
}

/// The requests up to so many written bytes, without discards, which not all devices accept.
fn beginning(trace: &RecordedTrace, most_bytes: u64) -> Vec<PatternRequest> {
    let mut requests = Vec::new();
    let mut bytes = 0;
    for request in &trace.requests {
        match *request {
            TracedRequest::Write { length, .. } if bytes + length > most_bytes => break,
            TracedRequest::Write { offset, length } => {
                bytes += length;
                requests.push(PatternRequest::Write { offset, length });
            }
            TracedRequest::Flush => requests.push(PatternRequest::Flush),
            TracedRequest::Discard { .. } | TracedRequest::Mark => {}
        }
    }
    requests
}
