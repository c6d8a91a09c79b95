//! Records the requests of a served card into a trace file ([`flashfit_card::trace`]).
//!
//! Each time the card's counters are read, a mark is recorded, so that a trace shows where a
//! trial's workload began and ended. A failure, such as a full disk, ends the recording and is
//! reported when the card stops.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use flashfit_card::CardRequest;
use flashfit_card::trace::{TraceWriter, TracedRequest};

#[derive(Debug)]
pub struct TraceRecorder {
    writer: Result<TraceWriter<BufWriter<File>>, std::io::Error>,
}

impl TraceRecorder {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// From the file system.
    pub fn create(file: &Path) -> std::io::Result<Self> {
        let file = File::options().write(true).create_new(true).open(file)?;
        Ok(Self { writer: Ok(TraceWriter::new(BufWriter::new(file))?) })
    }

    /// Records a request that changes the card; ignores reads.
    pub fn record(&mut self, request: &CardRequest<'_>) {
        match request {
            CardRequest::Write { offset, data } => {
                self.push(TracedRequest::Write { offset: *offset, length: data.len() as u64 });
            }
            CardRequest::Discard { offset, length } => {
                self.push(TracedRequest::Discard { offset: *offset, length: *length });
            }
            CardRequest::Flush => self.push(TracedRequest::Flush),
            CardRequest::Read { .. } => {}
        }
    }

    pub fn mark(&mut self) {
        self.push(TracedRequest::Mark);
    }

    fn push(&mut self, request: TracedRequest) {
        let Ok(writer) = &mut self.writer else { return };
        if let Err(error) = writer.push(request) {
            self.writer = Err(error);
        }
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The first failure since the file was created.
    pub fn finish(self) -> std::io::Result<()> {
        self.writer?.finish().map(drop)
    }
}
