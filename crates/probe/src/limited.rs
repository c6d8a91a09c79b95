//! A device whose requests end at a time limit or an interrupt.
//!
//! A measurement for a twin consists of thousands of requests, and a single one may take seconds on
//! a card that copies erase blocks, so its duration cannot be known before.
//!
//! Limit: a request that has begun is awaited.

use std::ops::ControlFlow;

use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo, Clock};
use flashfit_geometry::probed::ProbeObserver;

use crate::error::ProbeRunError;

/// Requests between two looks at the observer.
const STEP_REQUESTS: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutShort {
    Time,
    Interrupt,
}

/// What a measurement reports while it goes on.
#[derive(Debug, Clone, Copy)]
pub struct MeasurementProgress {
    /// The share that is done.
    pub done: f64,
    pub what: &'static str,
}

pub struct LimitedDevice<'a> {
    device: &'a mut dyn BlockDev,
    clock: &'a dyn Clock,
    /// On that clock, in nanoseconds.
    end_ns: u64,
    observer: &'a mut dyn ProbeObserver,
    progress: MeasurementProgress,
    requests: u64,
    cut_short: Option<CutShort>,
}

impl<'a> LimitedDevice<'a> {
    /// `left_ns` is how long requests may be made from now on.
    pub fn new(
        device: &'a mut dyn BlockDev,
        clock: &'a dyn Clock,
        left_ns: Option<u64>,
        observer: &'a mut dyn ProbeObserver,
        progress: MeasurementProgress,
    ) -> Self {
        let end_ns = left_ns.map_or(u64::MAX, |left| clock.now_ns().saturating_add(left));
        Self { device, clock, end_ns, observer, progress, requests: 0, cut_short: None }
    }

    /// What a measurement on this device gives; `None` if the time was not enough for it.
    ///
    /// # Errors
    /// Those of the measurement, or if the observer interrupts.
    pub fn measure<T, E: Into<ProbeRunError>>(
        mut self,
        measurement: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<Option<T>, ProbeRunError> {
        let result = measurement(&mut self);
        match self.cut_short {
            Some(CutShort::Time) => Ok(None),
            Some(CutShort::Interrupt) => Err(ProbeRunError::Interrupted),
            None => result.map(Some).map_err(Into::into),
        }
    }

    fn check(&mut self) -> Result<(), BlockDevError> {
        if self.clock.now_ns() >= self.end_ns {
            self.cut_short = Some(CutShort::Time);
        } else if self.requests % STEP_REQUESTS == 0
            && self.observer.step(self.progress.done, self.progress.what) == ControlFlow::Break(())
        {
            self.cut_short = Some(CutShort::Interrupt);
        }
        self.requests += 1;
        match self.cut_short {
            // `measure` does not look at this error.
            Some(_) => Err(BlockDevError::Disconnected("the measurement was ended".to_owned())),
            None => Ok(()),
        }
    }
}

impl BlockDev for LimitedDevice<'_> {
    fn describe(&self) -> BlockDevInfo {
        self.device.describe()
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.check()?;
        self.device.read(offset, buffer)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        self.check()?;
        self.device.write(offset, data)
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        self.check()?;
        self.device.flush()
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        self.check()?;
        self.device.discard(offset, length)
    }
}

#[cfg(test)]
mod tests {
    use flashfit_device::VirtualClock;
    use flashfit_geometry::probed::NoObserver;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const PROGRESS: MeasurementProgress = MeasurementProgress { done: 0.0, what: "a test" };

    /// Each request takes a second.
    struct Slow(VirtualClock);

    impl BlockDev for Slow {
        fn describe(&self) -> BlockDevInfo {
            BlockDevInfo {
                capacity_bytes: 1 << 20,
                sector_bytes: 512,
                discard_granularity_bytes: 0,
                volatile_cache: false,
            }
        }

        fn read(&mut self, _offset: u64, _buffer: &mut [u8]) -> Result<(), BlockDevError> {
            self.flush()
        }

        fn write(&mut self, _offset: u64, _data: &[u8]) -> Result<(), BlockDevError> {
            self.flush()
        }

        fn flush(&mut self) -> Result<(), BlockDevError> {
            self.0.sleep_ns(SECOND_NS);
            Ok(())
        }

        fn discard(&mut self, _offset: u64, _length: u64) -> Result<(), BlockDevError> {
            Err(BlockDevError::NoDiscard)
        }
    }

    struct Interrupts;

    impl ProbeObserver for Interrupts {
        fn step(&mut self, _done: f64, _what: &str) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }

    fn write_for_ten_seconds(device: &mut LimitedDevice<'_>) -> Result<u64, BlockDevError> {
        (0..10).try_for_each(|_| device.write(0, &[0]))?;
        Ok(10)
    }

    #[test]
    fn a_measurement_ends_with_the_request_that_exceeds_the_time() {
        let clock = VirtualClock::default();
        for (left_ns, expected, took_s) in [
            (None, Some(10), 10),
            (Some(10 * SECOND_NS), Some(10), 10),
            (Some(4 * SECOND_NS - 1), None, 4),
            (Some(0), None, 0),
        ] {
            let mut device = Slow(clock.clone());
            let begin_ns = clock.now_ns();
            let quiet = &mut NoObserver;
            let limited = LimitedDevice::new(&mut device, &clock, left_ns, quiet, PROGRESS);
            let found = limited.measure(write_for_ten_seconds).expect("the device does not fail");
            assert_eq!((found, clock.now_ns() - begin_ns), (expected, took_s * SECOND_NS));
        }
    }

    #[test]
    fn an_interrupt_and_errors_of_the_device_are_errors() {
        let clock = VirtualClock::default();
        let mut device = Slow(clock.clone());
        let (interrupts, quiet) = (&mut Interrupts, &mut NoObserver);
        let limited = LimitedDevice::new(&mut device, &clock, None, interrupts, PROGRESS);
        let ended = limited.measure(write_for_ten_seconds);
        assert!(matches!(ended, Err(ProbeRunError::Interrupted)));
        let limited = LimitedDevice::new(&mut device, &clock, None, quiet, PROGRESS);
        let ended = limited.measure(|device| device.discard(0, 1));
        assert!(matches!(ended, Err(ProbeRunError::Device(BlockDevError::NoDiscard))));
    }
}
