//! A device that records how long each read took, and each request of a measurement. It also counts
//! what is written to it, whether or not a measurement comes to its end.

use std::ops::Range;

use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo, Clock};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimedRequestKind {
    Read,
    Write,
    Flush,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedRequest {
    pub kind: TimedRequestKind,
    pub bytes: u64,
    pub took_ns: u64,
}

pub struct RecordedDevice<'a> {
    device: &'a mut dyn BlockDev,
    clock: &'a dyn Clock,
    requests: Vec<TimedRequest>,
    measuring: bool,
    measurements: Vec<Range<usize>>,
    written_bytes: u64,
}

/// Where a measurement began.
#[derive(Debug, Clone, Copy)]
pub struct Begun(usize);

impl<'a> RecordedDevice<'a> {
    pub fn new(device: &'a mut dyn BlockDev, clock: &'a dyn Clock) -> Self {
        Self {
            device,
            clock,
            requests: Vec::new(),
            measuring: false,
            measurements: Vec::new(),
            written_bytes: 0,
        }
    }

    pub fn begin(&mut self) -> Begun {
        self.measuring = true;
        Begun(self.requests.len())
    }

    /// The requests since then are a measurement.
    pub fn end(&mut self, Begun(first): Begun) {
        self.measuring = false;
        self.measurements.push(first..self.requests.len());
    }

    pub fn reads(&self) -> Vec<TimedRequest> {
        let reads = self.requests.iter().filter(|request| request.kind == TimedRequestKind::Read);
        reads.copied().collect()
    }

    /// The requests of each measurement, in their order.
    pub fn measurements(&self) -> Vec<&[TimedRequest]> {
        self.measurements.iter().map(|of| &self.requests[of.clone()]).collect()
    }

    /// Bytes of writes so far that did not fail.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    fn timed(
        &mut self,
        kind: TimedRequestKind,
        bytes: usize,
        request: impl FnOnce(&mut dyn BlockDev) -> Result<(), BlockDevError>,
    ) -> Result<(), BlockDevError> {
        let begin_ns = self.clock.now_ns();
        request(self.device)?;
        let took_ns = self.clock.now_ns() - begin_ns;
        if self.measuring || kind == TimedRequestKind::Read {
            self.requests.push(TimedRequest { kind, bytes: bytes as u64, took_ns });
        }
        Ok(())
    }
}

impl BlockDev for RecordedDevice<'_> {
    fn describe(&self) -> BlockDevInfo {
        self.device.describe()
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.timed(TimedRequestKind::Read, buffer.len(), |device| device.read(offset, buffer))
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        self.timed(TimedRequestKind::Write, data.len(), |device| device.write(offset, data))?;
        self.written_bytes += data.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        self.timed(TimedRequestKind::Flush, 0, |device| device.flush())
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        self.device.discard(offset, length)
    }
}
