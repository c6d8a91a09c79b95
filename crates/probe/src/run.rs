//! Reading, or reading and writing: the device is opened, probed and closed again.

use flashfit_device::{BlockDev, Bytes, Clock, Device, DeviceLock, Refusal, WriteConsent};
use flashfit_geometry::Probed;
use flashfit_geometry::probed::{ProbeError, ProbeObserver};
use flashfit_geometry::reading::{self, ReadingOptions};
use flashfit_geometry::writing::{self, ProbeEstimate, QuickLook, WritingOptions};
use flashfit_host::calendar::unix_seconds;
use flashfit_target::{InspectedTarget, TargetSource};
use flashfit_twin::DeviceHints;
use flashfit_twin::pattern::file::PatternSet;

use crate::device::TimedDevice;
use crate::document::{ProbeMode, ProbeSettings, ProbedDevice, found_bytes};
use crate::error::ProbeRunError;
use crate::free_space::run_number;
use crate::guarded::GuardedObserver;
use crate::patterns;
use crate::recorded::RecordedDevice;
use crate::region::{DeviceRegion, ExpectedDevice};
use crate::remapped::Remapped;
use crate::stalls::Stalls;
use crate::tested_capacity::CapacityFault;
use crate::twin::{self, RateRoom, TwinMeasurements};

/// A few large reads show how fast the device is.
const LOOKS: u64 = 8;
const LOOK_BYTES: u64 = 1 << 20;

/// The longest time of a probe that writes, unless the user gives another.
const USUAL_TIME_NS: u64 = 15 * 60 * 1_000_000_000;
/// And for what a twin is fitted to, after that; of a time that the user gave, at most a part.
const TWIN_TIME_NS: u64 = 10 * 60 * 1_000_000_000;
const TWIN_TIME_PERCENT: u64 = 60;
/// The part of the time for the probe that reading may take before anything is written.
const READING_TIME_SHARE: u64 = 3;
/// The parts of the time and of the bytes for a twin that rates may take.
const RATES_TIME_PERCENT: u64 = 40;
const RATES_BYTES_PERCENT: u64 = 75;

/// What the user chose.
#[derive(Debug, Clone)]
pub struct ProbeRunOptions {
    /// The target as the user named it.
    pub name: String,
    /// Whether to write, too.
    pub write: bool,
    /// All of the device if `None`.
    pub region: Option<DeviceRegion>,
    /// The most bytes that may be written, those for a twin included.
    pub max_write: Option<Bytes>,
    /// No read starts after this time, in nanoseconds; the usual time if `None`.
    pub max_read_ns: Option<u64>,
    /// The longest time that a probe that writes may take, in nanoseconds; 15 minutes if
    /// `None`, except for a simulated card, whose time costs nobody anything.
    pub max_time_ns: Option<u64>,
    /// The patterns that are timed for a twin, besides rates; `None` without a twin.
    pub twin: Option<PatternSet>,
    pub seed: u64,
    /// The device as it was shown where the user agreed, if that was elsewhere.
    pub expected: Option<ExpectedDevice>,
}

impl ProbeRunOptions {
    /// Of the whole target, with the usual limits and without a twin.
    pub fn usual(name: &str, write: bool) -> Self {
        Self {
            name: name.to_owned(),
            write,
            region: None,
            max_write: None,
            max_read_ns: None,
            max_time_ns: None,
            twin: None,
            seed: 1,
            expected: None,
        }
    }
}

/// The most that may be written, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct WriteBudget {
    pub probe_bytes: u64,
    pub twin_bytes: u64,
}

/// What a probe that writes will cost.
#[derive(Debug, Clone, Copy)]
pub struct WriteEstimate {
    pub probe: ProbeEstimate,
    pub budget: WriteBudget,
    /// When it ends or asks at the latest, in nanoseconds.
    pub max_time_ns: Option<u64>,
}

/// Asks for the data of a device after the user was shown what the probe costs.
pub type AgreeToLoss<'a> = dyn FnMut(&Device, &WriteEstimate) -> Result<WriteConsent, Refusal> + 'a;

/// A probe that can be made.
#[derive(Debug)]
pub struct ProbeRun<'a> {
    options: ProbeRunOptions,
    target: &'a InspectedTarget,
    /// In bytes.
    region: [u64; 2],
}

/// The result of a probe.
#[derive(Debug, Default)]
pub struct ProbeOutcome {
    pub probed: Probed,
    pub twin: TwinMeasurements,
    /// What ended the probe early.
    pub failure: Option<ProbeRunError>,
}

impl<'a> ProbeRun<'a> {
    /// # Errors
    /// If the region is not on the device, or too small for the probe.
    pub fn new(
        target: &'a InspectedTarget,
        options: ProbeRunOptions,
    ) -> Result<Self, ProbeRunError> {
        let (capacity, sector_bytes) = (target.capacity(), target.sector_bytes());
        let region = match options.region {
            // An image can end within a sector.
            None => [0, capacity.0 / sector_bytes * sector_bytes],
            Some(DeviceRegion { start, length }) => {
                let target = || options.name.clone();
                if start.0 % sector_bytes != 0 || length.0 % sector_bytes != 0 {
                    let target = target();
                    return Err(ProbeRunError::Region {
                        start,
                        length,
                        sector_bytes,
                        target,
                        capacity,
                    });
                }
                if start.0.saturating_add(length.0) > capacity.0 {
                    let target = target();
                    return Err(ProbeRunError::RegionBeyondEnd { start, length, target, capacity });
                }
                [start.0, length.0]
            }
        };
        let least = if options.write { writing::MIN_REGION } else { reading::MIN_BYTES };
        if region[1] < least {
            return Err(ProbeError::TooSmall { bytes: region[1], least }.into());
        }
        Ok(Self { options, target, region })
    }

    /// Why writing tests only the capacity: nothing else can be concluded about this target, and no
    /// twin is to be fitted to its rates.
    pub fn only_capacity(&self) -> Option<Remapped> {
        let concludes_more = !self.options.write || self.options.twin.is_some();
        self.target.device().filter(|_| !concludes_more).and_then(Remapped::of)
    }

    /// Start and length of what is probed, in bytes.
    pub fn region(&self) -> [u64; 2] {
        self.region
    }

    /// What its document says about it.
    pub fn settings(&self) -> ProbeSettings {
        let device = self.target.planned();
        ProbeSettings {
            target: self.options.name.clone(),
            mode: if self.options.write { ProbeMode::Write } else { ProbeMode::Read },
            simulated: self.target.is_simulated(),
            seed: self.options.seed,
            region: Some(self.region),
            device: Some(ProbedDevice {
                kind: device.kind,
                identity: device.identity,
                capacity_bytes: device.capacity_bytes,
                sector_bytes: device.sector_bytes,
                partition_start_bytes: device.partition_start_bytes,
            }),
            declared: self.target.declared_facts(),
            created_unix_s: (!self.target.is_simulated()).then(unix_seconds),
        }
    }

    /// How many reads a probe without writing makes at most.
    pub fn most_reads(&self) -> u64 {
        reading::usual_reads(self.region[1])
    }

    /// What writing will cost, from a few reads.
    ///
    /// # Errors
    /// If the device cannot be opened or read.
    pub fn estimate(&self) -> Result<WriteEstimate, ProbeRunError> {
        let estimated = self.estimate_on(&mut self.open_for_reading()?);
        estimated.map_err(|error| error.at(&self.options.name))
    }

    /// Makes the probe; `agree` is called before anything is written to a real device.
    ///
    /// # Errors
    /// If the device cannot be opened, is refused or fails. An interruption is part of the outcome.
    pub fn run(
        &self,
        agree: &mut AgreeToLoss<'_>,
        observer: &mut dyn ProbeObserver,
    ) -> Result<ProbeOutcome, ProbeRunError> {
        let outcome =
            if self.options.write { self.write(agree, observer) } else { self.read(observer) };
        let at_target = |error: ProbeRunError| error.at(&self.options.name);
        let mut outcome = outcome.map_err(at_target)?;
        outcome.failure = outcome.failure.map(at_target);
        if let Some(remapped) = self.target.device().and_then(Remapped::of) {
            remapped.withhold(&mut outcome.probed);
        }
        Ok(outcome)
    }

    fn read(&self, observer: &mut dyn ProbeObserver) -> Result<ProbeOutcome, ProbeRunError> {
        let mut opened = self.open_for_reading()?;
        let (device, clock) = (opened.device.as_mut(), opened.clock.as_ref());
        let mut probed = reading::probe(device, clock, &self.reading_options(), observer)?;
        probed.notes.append(&mut opened.notes);
        Ok(ProbeOutcome { failure: interruption(&probed), probed, ..ProbeOutcome::default() })
    }

    fn write(
        &self,
        agree: &mut AgreeToLoss<'_>,
        observer: &mut dyn ProbeObserver,
    ) -> Result<ProbeOutcome, ProbeRunError> {
        // Locked for as long as it is written to.
        let (mut opened, lock) = match &self.target.source {
            TargetSource::Card(model) => (TimedDevice::simulated(model), None),
            TargetSource::Device(device) => {
                let estimate = self.estimate()?;
                let shown = match &self.options.expected {
                    Some(expected) => expected.over(device),
                    None => device.as_ref().clone(),
                };
                let lock = DeviceLock::node(agree(&shown, &estimate)?)?;
                (TimedDevice::writable(lock.consent())?, Some(lock))
            }
        };
        let clock = opened.clock.as_ref();
        let mut recorded = RecordedDevice::new(opened.device.as_mut(), clock);
        let device = &mut recorded;
        let read = reading::probe(device, clock, &self.reading_options(), observer)?;
        if read.interrupted {
            let failure = interruption(&read);
            return Ok(ProbeOutcome { probed: read, failure, ..ProbeOutcome::default() });
        }
        let consent = lock.as_ref().map(DeviceLock::consent);
        let mut guarded = GuardedObserver::new(observer, consent);
        // Reading may have taken minutes.
        if !guarded.check() {
            let failure = guarded.into_refusal().map(ProbeRunError::from);
            return Ok(ProbeOutcome { probed: read, failure, ..ProbeOutcome::default() });
        }
        let mut options = self.writing_options(read.elapsed_ns);
        if !self.target.is_simulated() {
            options.run_number = run_number(self.options.seed, 0);
        }
        let written = writing::probe(device, clock, &options, Some(&read), &mut guarded);
        let (written, failed) = match written {
            Ok(written) => (written, None),
            Err(ProbeError::EndedEarly { error, found }) => (*found, Some((*error).into())),
            Err(error) => return Err(error.into()),
        };
        let mut probed = written.after(&read);
        probed.notes.append(&mut opened.notes);
        probed.notes.extend(self.divided_budget());
        let has_failed = failed.is_some();
        let failure = failed.or_else(|| interruption(&probed)).or_else(|| self.loss(&probed));
        let mut outcome = ProbeOutcome { failure, ..ProbeOutcome::default() };
        outcome.twin.hints = DeviceHints::from_probe(&probed.findings);
        outcome.twin.hints.device = Some(device.describe());
        if let (None, Some(set)) = (&outcome.failure, &self.options.twin) {
            if !self.lacks_capacity(&probed) && guarded.check() {
                // What the probe found is kept where this fails.
                let measured = &mut outcome.twin;
                outcome.failure = self
                    .measure_for_twin(device, clock, set, &mut probed, measured, &mut guarded)
                    .err();
            }
        }
        // What the refusal ended looks like an interruption or the end of the time.
        if let Some(refusal) = guarded.into_refusal().filter(|_| !has_failed) {
            outcome.failure = Some(refusal.into());
        }
        Ok(ProbeOutcome { probed, ..outcome })
    }

    /// Measures what a twin is fitted to, and adds what that cost.
    fn measure_for_twin(
        &self,
        device: &mut RecordedDevice<'_>,
        clock: &dyn Clock,
        set: &PatternSet,
        probed: &mut Probed,
        measured: &mut TwinMeasurements,
        observer: &mut GuardedObserver<'_>,
    ) -> Result<(), ProbeRunError> {
        let (begin_ns, before_bytes) = (clock.now_ns(), device.written_bytes());
        let ended = self.measure_on(device, clock, set, probed, measured, observer);
        probed.elapsed_ns = probed.elapsed_ns.saturating_add(clock.now_ns() - begin_ns);
        probed.written_bytes += device.written_bytes() - before_bytes;
        if let Some(stalls) = Stalls::seen(&device.reads(), &device.measurements()) {
            probed.notes.push(stalls.note());
            measured.even_out(stalls);
        }
        ended
    }

    fn measure_on(
        &self,
        device: &mut RecordedDevice<'_>,
        clock: &dyn Clock,
        set: &PatternSet,
        probed: &mut Probed,
        measured: &mut TwinMeasurements,
        observer: &mut GuardedObserver<'_>,
    ) -> Result<(), ProbeRunError> {
        let begin_ns = clock.now_ns();
        let [start, length] = self.region;
        let (twin_bytes, seed) = (self.budget().twin_bytes, self.options.seed);
        let rates_bytes = twin_bytes / 100 * RATES_BYTES_PERCENT;
        // More time for the probe, and that of the answer, is not taken from the twin.
        let asked_ns = probed.elapsed_ns.saturating_add(self.twin_time_ns());
        let most_ns = |most: u64| if observer.has_asked() { most.max(asked_ns) } else { most };
        let max_time_ns = self.max_time_ns().map(most_ns);
        let rates_end_ns =
            max_time_ns.map(|most| most - self.twin_time_ns() / 100 * (100 - RATES_TIME_PERCENT));
        let room = |left_bytes, elapsed_ns, max_time_ns, asks| RateRoom {
            region: start..start + length,
            left_bytes,
            elapsed_ns,
            max_time_ns,
            asks,
        };
        let declared = self.target.declared_geometry().erase_block.map(|known| known.bytes);
        let declared = declared.filter(|_| !self.target.is_simulated());
        let unit = found_bytes(&probed.findings.erase_block).or(declared);
        let rates_room = room(rates_bytes, probed.elapsed_ns, rates_end_ns, false);
        let (table, lacks_bytes) = twin::measure(device, clock, unit, rates_room, observer, seed)?;
        measured.tables.push(table);
        measured.lacked_bytes = lacks_bytes.then_some(Bytes(twin_bytes));
        let elapsed_ns = probed.elapsed_ns.saturating_add(clock.now_ns() - begin_ns);
        let patterns_room = room(twin_bytes - rates_bytes, elapsed_ns, max_time_ns, true);
        let found = patterns::measure(device, clock, set, patterns_room, observer, seed)?;
        if found.is_none() {
            probed.notes.push(format!(
                "No patterns of file systems were timed for the twin: they need {} of the region, \
                 the time to fill them, and as many bytes more.",
                set.span
            ));
        }
        measured.patterns = found;
        Ok(())
    }

    /// The failure of a device that does not keep what is written to it.
    fn loss(&self, probed: &Probed) -> Option<ProbeRunError> {
        probed.loses_data.then(|| {
            let (target, reason) = (self.options.name.clone(), &probed.findings.capacity.reason);
            CapacityFault::LosesData { target, reason: reason.clone() }.into()
        })
    }

    /// What the user's limit for writing leaves for the probe and for the twin.
    fn divided_budget(&self) -> Option<String> {
        let WriteBudget { probe_bytes, twin_bytes } = self.budget();
        let most = self.options.max_write.filter(|_| twin_bytes > 0)?;
        Some(format!(
            "of the {most} that may be written, {} are for the probe and {} for the twin",
            Bytes(probe_bytes),
            Bytes(twin_bytes)
        ))
    }

    /// A device that lacks capacity is a fake: there is nothing to fit a twin to.
    fn lacks_capacity(&self, probed: &Probed) -> bool {
        let announced = self.target.capacity().0;
        found_bytes(&probed.findings.capacity)
            .is_some_and(|real| announced.saturating_sub(real.0) >= self.target.sector_bytes())
    }

    fn open_for_reading(&self) -> Result<TimedDevice, ProbeRunError> {
        match &self.target.source {
            TargetSource::Card(model) => TimedDevice::used(model),
            TargetSource::Device(device) => TimedDevice::read_only(device),
        }
    }

    fn estimate_on(&self, opened: &mut TimedDevice) -> Result<WriteEstimate, ProbeRunError> {
        let ([start, length], sector) = (self.region, self.target.sector_bytes());
        let size = LOOK_BYTES.min(length) / sector * sector;
        let mut buffer = vec![0; usize::try_from(size).expect("at most a look")];
        let (mut looks, mut took_ns, mut failed) = (0, 0, None);
        for look in 0..LOOKS {
            let offset = start + (length - size) / LOOKS * look / sector * sector;
            let begin_ns = opened.clock.now_ns();
            match opened.device.read(offset, &mut buffer) {
                Ok(()) => {
                    looks += 1;
                    took_ns += opened.clock.now_ns() - begin_ns;
                }
                Err(error) if reading::is_gone(&error) => return Err(error.into()),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed.filter(|_| looks == 0) {
            return Err(error.into());
        }
        let rate = u128::from(looks * size) * 1_000_000_000 / u128::from(took_ns.max(1));
        let first = QuickLook { read_bytes_per_second: u64::try_from(rate).unwrap_or(u64::MAX) };
        let options = self.writing_options(0);
        let mut probe = writing::estimate(&opened.device.describe(), &options, &first);
        // Reading comes first.
        let read_ns = self.reading_options().max_time_ns;
        // And ends sooner where that finds everything, so the least time is without it.
        probe.usual_ns = probe.usual_ns.saturating_add(read_ns);
        probe.most_ns = probe.most_ns.saturating_add(read_ns);
        Ok(WriteEstimate { probe, budget: self.budget(), max_time_ns: self.max_time_ns() })
    }

    fn max_time_ns(&self) -> Option<u64> {
        let usual = USUAL_TIME_NS + self.options.twin.as_ref().map_or(0, |_| TWIN_TIME_NS);
        self.options.max_time_ns.or((!self.target.is_simulated()).then_some(usual))
    }

    /// The part of the time that is kept for what a twin is fitted to.
    fn twin_time_ns(&self) -> u64 {
        match (&self.options.twin, self.options.max_time_ns) {
            (None, _) => 0,
            (Some(_), None) => TWIN_TIME_NS,
            (Some(_), Some(most)) => TWIN_TIME_NS.min(most / 100 * TWIN_TIME_PERCENT),
        }
    }

    /// The most that writing may write, and for what.
    pub fn budget(&self) -> WriteBudget {
        let usual = twin::USUAL_BYTES + patterns::USUAL_BYTES;
        let wanted = self.options.twin.as_ref().map_or(0, |_| usual);
        match self.options.max_write {
            None => WriteBudget {
                probe_bytes: writing::default_max_write_bytes(self.region[1]),
                twin_bytes: wanted,
            },
            Some(Bytes(most)) => {
                let twin_bytes = wanted.min(most / 2);
                WriteBudget { probe_bytes: most - twin_bytes, twin_bytes }
            }
        }
    }

    fn reading_options(&self) -> ReadingOptions {
        let [start, length] = self.region;
        let usual = ReadingOptions::default();
        let usual_ns = self.options.max_read_ns.unwrap_or(usual.max_time_ns);
        let part_ns = |most: u64| most.saturating_sub(self.twin_time_ns()) / READING_TIME_SHARE;
        let most_ns = self.max_time_ns().filter(|_| self.options.write).map(part_ns);
        ReadingOptions {
            seed: self.options.seed,
            region: Some(start..start + length),
            origin_bytes: self.target.partition_start().map_or(0, |start| start.0),
            max_time_ns: usual_ns.min(most_ns.unwrap_or(u64::MAX)),
            ..usual
        }
    }

    /// What is left for writing after so long.
    fn writing_options(&self, elapsed_ns: u64) -> WritingOptions {
        let [start, length] = self.region;
        WritingOptions {
            seed: self.options.seed,
            region: start..start + length,
            max_write_bytes: self.budget().probe_bytes,
            max_time_ns: self
                .max_time_ns()
                .map(|most| most.saturating_sub(self.twin_time_ns()).saturating_sub(elapsed_ns)),
            check_capacity: true,
            only_capacity: self.only_capacity().is_some(),
            run_number: self.options.seed,
            compressible: self.target.is_simulated(),
        }
    }
}

/// The failure of a probe that was ended early.
fn interruption(probed: &Probed) -> Option<ProbeRunError> {
    probed.interrupted.then_some(ProbeRunError::Interrupted)
}
