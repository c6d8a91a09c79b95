//! The device under test: timed requests within a region and a write budget.
//!
//! Every write ends with a flush if the device has a volatile cache, and the flush is part of its
//! time. A failed request ends the measurement, and is listed with the others. Limit: only the
//! first [`MOST_SAMPLES`] samples are kept, to bound memory on small boards.

use std::ops::{ControlFlow, Range};

use flashfit_device::random::Random;
use flashfit_device::{BlockDev, BlockDevError, Clock};

use super::WritingOptions;
use super::progress::TimeShare;
use crate::probed::{FailedRequest, ProbeError, ProbeObserver, Probed, Sample, SamplePurpose};
use crate::reading::is_gone;

/// The most samples kept.
pub const MOST_SAMPLES: usize = 1 << 16;
/// The largest single request.
pub const LARGEST_REQUEST: u64 = 1 << 20;
/// Requests between reports to the observer.
const STEP_REQUESTS: u64 = 8;

#[derive(Debug)]
pub enum MeasurementStop {
    /// The write budget is used up.
    Spent,
    /// The time limit is reached.
    OutOfTime,
    Failed(ProbeError),
}

/// A device with its budget and measurements.
pub struct Meter<'a> {
    device: &'a mut dyn BlockDev,
    clock: &'a dyn Clock,
    observer: &'a mut dyn ProbeObserver,
    region: Range<u64>,
    most_written: u64,
    max_time_ns: Option<u64>,
    progress: TimeShare,
    flushes: bool,
    sector_bytes: u64,
    data: Vec<u8>,
    buffer: Vec<u8>,
    begin_ns: u64,
    requests: u64,
    what: &'static str,
    /// The random choices of the probe.
    pub random: Random,
    /// The result of the probe.
    pub probed: Probed,
}

impl<'a> Meter<'a> {
    /// A meter within the region and the budget of `options`.
    pub fn new(
        device: &'a mut dyn BlockDev,
        clock: &'a dyn Clock,
        options: &WritingOptions,
        observer: &'a mut dyn ProbeObserver,
    ) -> Self {
        let description = device.describe();
        let mut random = Random::new(options.seed);
        let words = usize::try_from(LARGEST_REQUEST / 8).expect("a request fits in memory");
        let data = if options.compressible {
            vec![0; words * 8]
        } else {
            (0..words).flat_map(|_| random.next_u64().to_le_bytes()).collect()
        };
        Self {
            flushes: description.volatile_cache,
            sector_bytes: u64::from(description.sector_bytes),
            begin_ns: clock.now_ns(),
            region: options.region.clone(),
            most_written: options.max_write_bytes,
            max_time_ns: options.max_time_ns,
            progress: TimeShare::default(),
            device,
            clock,
            observer,
            data,
            buffer: Vec::new(),
            requests: 0,
            what: "",
            random,
            probed: Probed::default(),
        }
    }

    pub fn region(&self) -> Range<u64> {
        self.region.clone()
    }

    /// The smallest unit of access, in bytes.
    pub fn sector_bytes(&self) -> u64 {
        self.sector_bytes
    }

    /// Whether the device takes discards.
    pub fn discards(&self) -> bool {
        self.device.describe().discard_granularity_bytes > 0
    }

    /// The remaining write budget, in bytes.
    pub fn left_bytes(&self) -> u64 {
        self.most_written.saturating_sub(self.probed.written_bytes)
    }

    /// Time since the probe began, in nanoseconds.
    pub fn elapsed_ns(&self) -> u64 {
        self.clock.now_ns() - self.begin_ns
    }

    /// Reports the current measurement to the observer.
    pub fn now(&mut self, what: &'static str) -> Result<(), MeasurementStop> {
        self.what = what;
        self.progress.begin(what, self.elapsed_ns());
        self.step()
    }

    /// The share of the time that is over.
    fn done(&self) -> f64 {
        self.progress.done(self.elapsed_ns(), self.max_time_ns)
    }

    fn step(&mut self) -> Result<(), MeasurementStop> {
        let done = self.done();
        match self.observer.step(done, self.what) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(MeasurementStop::Failed(ProbeError::Interrupted)),
        }
    }

    fn check_budget(&mut self) -> Result<(), MeasurementStop> {
        self.requests += 1;
        let elapsed_ns = self.elapsed_ns();
        if self.max_time_ns.is_some_and(|most| elapsed_ns >= most) {
            let Some(more_ns) = self.observer.extend(elapsed_ns) else {
                // The answer may have been an interrupt.
                self.step()?;
                return Err(MeasurementStop::OutOfTime);
            };
            self.max_time_ns = Some(self.elapsed_ns().saturating_add(more_ns));
        }
        if self.requests % STEP_REQUESTS == 0 { self.step() } else { Ok(()) }
    }

    fn failed(&mut self, offset: u64, length: u64, error: BlockDevError) -> MeasurementStop {
        self.probed.errors.push(FailedRequest::new(offset, length, &error));
        let requests = self.requests.saturating_sub(1);
        MeasurementStop::Failed(match error {
            source if is_gone(&source) => ProbeError::Vanished { requests, source },
            other => ProbeError::Device(other),
        })
    }

    /// Writes `length` bytes at `offset` in one request and returns the time in nanoseconds.
    ///
    /// # Panics
    /// If the range exceeds the region.
    pub fn write(
        &mut self,
        purpose: SamplePurpose,
        offset: u64,
        length: u64,
    ) -> Result<f64, MeasurementStop> {
        self.write_stamped(purpose, offset, length, None)
    }

    /// Like [`Meter::write`], but the first bytes are those of `stamp`.
    pub fn write_stamped(
        &mut self,
        purpose: SamplePurpose,
        offset: u64,
        length: u64,
        stamp: Option<&[u8]>,
    ) -> Result<f64, MeasurementStop> {
        if let Some(stamp) = stamp {
            self.data[..stamp.len()].copy_from_slice(stamp);
        }
        let size = usize::try_from(length.min(LARGEST_REQUEST)).expect("it is held in memory");
        let data = std::mem::take(&mut self.data);
        let written = self.write_repeated(purpose, offset, length, &data[..size]);
        self.data = data;
        written
    }

    /// Writes this data at `offset`.
    pub fn write_data(
        &mut self,
        purpose: SamplePurpose,
        offset: u64,
        data: &[u8],
    ) -> Result<f64, MeasurementStop> {
        self.write_repeated(purpose, offset, data.len() as u64, data)
    }

    fn write_repeated(
        &mut self,
        purpose: SamplePurpose,
        offset: u64,
        length: u64,
        data: &[u8],
    ) -> Result<f64, MeasurementStop> {
        let inside = self.region.start <= offset && offset + length <= self.region.end;
        assert!(inside && length > 0, "{length} bytes at {offset} lie outside {:?}", self.region);
        if length > self.left_bytes() {
            return Err(MeasurementStop::Spent);
        }
        self.check_budget()?;
        let from_ns = self.clock.now_ns();
        let mut at = offset;
        while at < offset + length {
            let left = usize::try_from(offset + length - at).unwrap_or(data.len());
            let part = &data[..data.len().min(left)];
            let size = part.len() as u64;
            if let Err(error) = self.device.write(at, part) {
                return Err(self.failed(at, size, error));
            }
            at += size;
        }
        if self.flushes {
            if let Err(error) = self.device.flush() {
                return Err(self.failed(offset, length, error));
            }
        }
        let elapsed_ns = self.clock.now_ns() - from_ns;
        self.probed.written_bytes += length;
        self.keep(purpose, offset, length, from_ns, elapsed_ns);
        Ok(elapsed_ns as f64)
    }

    /// Reads `length` bytes at `offset` into [`Meter::read_bytes`] and returns the time in
    /// nanoseconds.
    pub fn read(&mut self, offset: u64, length: u64) -> Result<f64, MeasurementStop> {
        self.check_budget()?;
        self.buffer.resize(usize::try_from(length).expect("it is held in memory"), 0);
        let from_ns = self.clock.now_ns();
        if let Err(error) = self.device.read(offset, &mut self.buffer) {
            return Err(self.failed(offset, length, error));
        }
        let elapsed_ns = self.clock.now_ns() - from_ns;
        self.probed.reads += 1;
        self.probed.read_bytes += length;
        self.keep(SamplePurpose::Read, offset, length, from_ns, elapsed_ns);
        Ok(elapsed_ns as f64)
    }

    /// The result of the last read.
    pub fn read_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Runs a read-only probe on the device; its reads and samples count here.
    pub fn read_only<P>(&mut self, probe: P) -> Result<Probed, MeasurementStop>
    where
        P: FnOnce(
            &mut dyn BlockDev,
            &dyn Clock,
            &mut dyn ProbeObserver,
        ) -> Result<Probed, ProbeError>,
    {
        let begin_ns = self.elapsed_ns();
        let mut observer = Steady { done: self.done(), observer: self.observer };
        let probed =
            probe(self.device, self.clock, &mut observer).map_err(MeasurementStop::Failed)?;
        self.probed.reads += probed.reads;
        self.probed.read_bytes += probed.read_bytes;
        self.probed.errors.extend(probed.errors.iter().cloned());
        let room = MOST_SAMPLES.saturating_sub(self.probed.evidence.samples.len());
        let samples = probed.evidence.samples.iter().take(room);
        let later = samples.map(|of| Sample { begin_ns: begin_ns + of.begin_ns, ..*of });
        self.probed.evidence.samples.extend(later);
        if probed.interrupted {
            return Err(MeasurementStop::Failed(ProbeError::Interrupted));
        }
        Ok(probed)
    }

    /// Flushes even if the device reports no volatile cache.
    pub fn flush(&mut self) -> Result<(), MeasurementStop> {
        self.device.flush().map_err(|error| self.failed(self.region.start, 0, error))
    }

    /// Discards a range of the region; `false` if the device does not support it.
    pub fn discard(&mut self, range: Range<u64>) -> Result<bool, MeasurementStop> {
        match self.device.discard(range.start, range.end - range.start) {
            Ok(()) => Ok(true),
            Err(error @ BlockDevError::Disconnected(_)) => {
                Err(self.failed(range.start, range.end - range.start, error))
            }
            Err(_) => Ok(false),
        }
    }

    fn keep(
        &mut self,
        purpose: SamplePurpose,
        offset: u64,
        length: u64,
        from_ns: u64,
        elapsed_ns: u64,
    ) {
        if self.probed.evidence.samples.len() < MOST_SAMPLES {
            self.probed.evidence.samples.push(Sample {
                purpose,
                offset,
                length_bytes: u32::try_from(length).unwrap_or(u32::MAX),
                begin_ns: from_ns - self.begin_ns,
                elapsed_ns,
            });
        }
    }

    /// Writes a range sequentially in large requests; returns the length and time of each.
    pub fn fill(&mut self, range: Range<u64>) -> Result<Vec<(u64, f64)>, MeasurementStop> {
        let mut at = range.start;
        let mut times = Vec::new();
        while at < range.end {
            let end = (at / LARGEST_REQUEST * LARGEST_REQUEST + LARGEST_REQUEST).min(range.end);
            times.push((end - at, self.write(SamplePurpose::WriteLinear, at, end - at)?));
            at = end;
        }
        Ok(times)
    }
}

/// An observer that reports constant progress.
struct Steady<'a> {
    done: f64,
    observer: &'a mut dyn ProbeObserver,
}

impl ProbeObserver for Steady<'_> {
    fn step(&mut self, _: f64, what: &str) -> ControlFlow<()> {
        self.observer.step(self.done, what)
    }
}
