//! Executes the reads of a probe: times them, records them and counts them against the budget.

use std::ops::ControlFlow;

use flashfit_device::{BlockDev, BlockDevError, Clock};

use crate::probed::{FailedRequest, ProbeError, ProbeObserver, Probed, Sample, SamplePurpose};

/// Failed reads before a device counts as unreadable.
const FAILURES: usize = 16;
/// Kernel errors of a removed device: ENXIO, ENODEV, ENOMEDIUM.
const GONE: [i32; 3] = [6, 19, 123];

pub struct ReadSession<'a> {
    device: &'a mut dyn BlockDev,
    clock: &'a dyn Clock,
    observer: &'a mut dyn ProbeObserver,
    buffer: Vec<u8>,
    /// Length of a read across a boundary, in bytes.
    across_bytes: usize,
    /// Offset of this block device on the physical device, in bytes.
    origin: u64,
    begin_ns: u64,
    max_reads: u64,
    max_time_ns: u64,
    pub probed: Probed,
}

impl<'a> ReadSession<'a> {
    /// Starts the clock; `length_bytes` is the length of reads across a boundary.
    pub fn new(
        device: &'a mut dyn BlockDev,
        clock: &'a dyn Clock,
        observer: &'a mut dyn ProbeObserver,
        length_bytes: usize,
        origin: u64,
    ) -> Self {
        let begin_ns = clock.now_ns();
        Self {
            device,
            clock,
            observer,
            buffer: vec![0; length_bytes],
            across_bytes: length_bytes,
            origin,
            begin_ns,
            max_reads: u64::MAX,
            max_time_ns: u64::MAX,
            probed: Probed::default(),
        }
    }

    /// Sets the total budget.
    pub fn set_budget(&mut self, max_reads: u64, max_time_ns: u64) {
        self.max_reads = max_reads;
        self.max_time_ns = max_time_ns;
    }

    pub fn elapsed_ns(&self) -> u64 {
        self.clock.now_ns() - self.begin_ns
    }

    /// The remaining reads; 0 after the time limit.
    pub fn reads_left(&self) -> u64 {
        let in_time = self.elapsed_ns() < self.max_time_ns;
        if in_time { self.max_reads.saturating_sub(self.probed.reads) } else { 0 }
    }

    /// Reports the current step to the observer.
    ///
    /// # Errors
    /// [`ProbeError::Interrupted`].
    pub fn report(&mut self, what: &str) -> Result<(), ProbeError> {
        let done = self.probed.reads as f64 / self.max_reads as f64;
        match self.observer.step(done.min(1.0), what) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ProbeError::Interrupted),
        }
    }

    /// Reads across a place and returns the time in nanoseconds, or `None` for a failed read, which
    /// is recorded.
    ///
    /// # Errors
    /// If the device disappears or hardly any read succeeds.
    pub fn read_across(
        &mut self,
        center: u64,
        purpose: SamplePurpose,
    ) -> Result<Option<u64>, ProbeError> {
        self.read(center - self.across_bytes as u64 / 2, self.across_bytes, purpose)
    }

    /// Reads `length` bytes from a place on.
    ///
    /// # Errors
    /// See [`ReadSession::read_across`].
    pub fn read(
        &mut self,
        start: u64,
        length: usize,
        purpose: SamplePurpose,
    ) -> Result<Option<u64>, ProbeError> {
        let offset = start - self.origin;
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let begin_ns = self.elapsed_ns();
        let result = self.device.read(offset, &mut self.buffer[..length]);
        let elapsed_ns = self.elapsed_ns() - begin_ns;
        let length_bytes = u32::try_from(length).expect("less than a megabyte");
        self.probed.reads += 1;
        self.probed.read_bytes += u64::from(length_bytes);
        match result {
            Ok(()) => {
                let sample = Sample { purpose, offset, length_bytes, begin_ns, elapsed_ns };
                self.probed.evidence.samples.push(sample);
                Ok(Some(elapsed_ns))
            }
            Err(source) if is_gone(&source) => {
                Err(ProbeError::Vanished { requests: self.probed.reads - 1, source })
            }
            Err(source) => {
                self.probed.errors.push(FailedRequest::new(offset, length_bytes.into(), &source));
                let (failed, good) = (self.probed.errors.len(), self.probed.evidence.samples.len());
                if failed >= FAILURES && failed > good {
                    let (failed, requests) = (failed as u64, self.probed.reads);
                    return Err(ProbeError::Unreadable { failed, requests, offset, source });
                }
                Ok(None)
            }
        }
    }
}

/// Whether an error means that the device was removed.
pub fn is_gone(error: &BlockDevError) -> bool {
    match error {
        BlockDevError::Disconnected(_) => true,
        BlockDevError::Io { source, .. } => {
            source.raw_os_error().is_some_and(|code| GONE.contains(&code))
        }
        BlockDevError::OutOfBounds { .. } | BlockDevError::NoDiscard | BlockDevError::WornOut => {
            false
        }
    }
}
