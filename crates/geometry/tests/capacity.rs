//! The capacity check on devices that lose what is written to parts of them.

use std::collections::BTreeMap;
use std::ops::Range;

use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo, Clock, VirtualClock};
use flashfit_geometry::findings::{QuantityValue, QuantityVerdict};
use flashfit_geometry::probed::{NoObserver, ProbeError, Probed};
use flashfit_geometry::writing::{self, WritingOptions};

const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 256 * MIB;
const BLOCK: u64 = 4096;
const SECTOR: u64 = 512;
/// The beginning of a sector that is kept.
const KEPT: usize = 32;

type BlockDevResult = Result<(), BlockDevError>;

/// A device in memory that loses what is written to some of its bytes.
struct LossyDevice {
    clock: VirtualClock,
    capacity_bytes: u64,
    loses: Range<u64>,
    /// What it refuses to write.
    refuses: Range<u64>,
    /// After so many requests, it refuses all.
    lives: u64,
    requests: u64,
    sectors: BTreeMap<u64, [u8; KEPT]>,
}

impl LossyDevice {
    fn new(loses: Range<u64>) -> Self {
        let (clock, sectors) = (VirtualClock::default(), BTreeMap::new());
        let (refuses, lives, requests) = (0..0, u64::MAX, 0);
        Self { clock, capacity_bytes: CAPACITY, loses, refuses, lives, requests, sectors }
    }

    fn probe(&mut self, change: impl FnOnce(&mut WritingOptions)) -> Probed {
        self.try_probe(change).expect("it never fails")
    }

    fn try_probe(
        &mut self,
        change: impl FnOnce(&mut WritingOptions),
    ) -> Result<Probed, ProbeError> {
        let mut options = WritingOptions::whole(self.capacity_bytes, 1);
        options.only_capacity = true;
        change(&mut options);
        let clock = self.clock.clone();
        writing::probe(self, &clock, &options, None, &mut NoObserver)
    }

    fn served(&mut self, offset: u64, length: u64, refuses: &Range<u64>) -> BlockDevResult {
        self.requests += 1;
        let is_refused = offset < refuses.end && offset + length > refuses.start;
        if is_refused || self.requests > self.lives {
            let source = std::io::Error::from_raw_os_error(5);
            return Err(BlockDevError::Io { offset, length, source });
        }
        Ok(())
    }
}

impl BlockDev for LossyDevice {
    fn describe(&self) -> BlockDevInfo {
        BlockDevInfo {
            capacity_bytes: self.capacity_bytes,
            sector_bytes: 512,
            discard_granularity_bytes: 0,
            volatile_cache: false,
        }
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.served(offset, buffer.len() as u64, &(0..0))?;
        self.clock.sleep_ns(40_000 + buffer.len() as u64 * 10);
        for (sector, part) in (offset / SECTOR..).zip(buffer.chunks_mut(SECTOR as usize)) {
            part[..KEPT].copy_from_slice(self.sectors.get(&sector).unwrap_or(&[0; KEPT]));
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        self.served(offset, data.len() as u64, &self.refuses.clone())?;
        self.clock.sleep_ns(40_000 + data.len() as u64 * 10);
        for (sector, part) in (offset / SECTOR..).zip(data.chunks(SECTOR as usize)) {
            if !self.loses.contains(&(sector * SECTOR)) {
                self.sectors.insert(sector, part[..KEPT].try_into().expect("a sector"));
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        Ok(())
    }

    fn discard(&mut self, _: u64, _: u64) -> Result<(), BlockDevError> {
        Err(BlockDevError::NoDiscard)
    }
}

/// A card that is worn out silently drops every write.
#[test]
fn stamps_of_an_earlier_probe_do_not_count() {
    let mut device = LossyDevice::new(0..0);
    let first = device.probe(|options| options.run_number = 1);
    assert_eq!(first.findings.capacity.value, Some(QuantityValue::Bytes(CAPACITY)));
    device.loses = 0..CAPACITY;
    let second = device.probe(|options| options.run_number = 2);
    let capacity = &second.findings.capacity;
    assert_eq!((capacity.verdict, capacity.value), (QuantityVerdict::Inconclusive, None));
    assert!(second.loses_data && capacity.reason.contains("was read back"), "{capacity:?}");
    // A fake whose border was elsewhere in the first probe.
    device.loses = 100 * MIB..CAPACITY;
    let third = device.probe(|options| options.run_number = 3);
    let Some(QuantityValue::Bytes(real)) = third.findings.capacity.value else {
        panic!("{:?}", third.findings.capacity)
    };
    assert!(real.abs_diff(100 * MIB) <= MIB && !third.loses_data, "{real}");
}

#[test]
fn the_border_behind_which_all_is_lost_is_found_to_the_sector() {
    for real in [100 * MIB, 60 * MIB, 60 * MIB + 3 * SECTOR, CAPACITY - 2 * MIB - BLOCK] {
        let probed = LossyDevice::new(real..CAPACITY).probe(|_| {});
        let capacity = &probed.findings.capacity;
        assert_eq!(capacity.value, Some(QuantityValue::Bytes(real)), "{capacity:?}");
        assert!(!probed.loses_data);
    }
}

#[test]
fn a_place_that_loses_data_is_not_the_end_of_the_capacity() {
    let places =
        [128 * MIB..128 * MIB + BLOCK, 0..BLOCK, CAPACITY - BLOCK..CAPACITY, 60 * MIB..200 * MIB];
    for lost in places {
        let probed = LossyDevice::new(lost.clone()).probe(|_| {});
        let capacity = &probed.findings.capacity;
        assert_eq!((capacity.verdict, capacity.value), (QuantityVerdict::Inconclusive, None));
        assert!(probed.loses_data, "{lost:?}: {capacity:?}");
        assert!(capacity.reason.contains("does not keep"), "{capacity:?}");
        let first = probed.errors.first().expect("places are listed");
        assert!(lost.contains(&first.offset), "{lost:?}: {first:?}");
        for other in [&probed.findings.write_unit, &probed.findings.erase_block] {
            assert!(other.reason.contains("does not keep"), "{other:?}");
        }
    }
}

/// Some fakes answer requests beyond their capacity with an error.
#[test]
fn refused_marks_are_lost_marks() {
    for real in [100 * MIB, 60 * MIB] {
        let mut device = LossyDevice::new(0..0);
        device.refuses = real..CAPACITY;
        let probed = device.probe(|_| {});
        let capacity = &probed.findings.capacity;
        assert_eq!(capacity.value, Some(QuantityValue::Bytes(real)), "{capacity:?}");
        assert!(probed.errors.iter().any(|failed| failed.offset >= real));
    }
    let mut device = LossyDevice::new(0..0);
    device.refuses = 128 * MIB..128 * MIB + BLOCK;
    let probed = device.probe(|_| {});
    assert!(probed.loses_data && !probed.errors.is_empty(), "{:?}", probed.findings.capacity);
}

#[test]
fn a_device_that_fails_has_no_verdict_on_its_capacity() {
    let mut requests = LossyDevice::new(0..0);
    requests.probe(|_| {});
    let most = requests.requests;
    for lives in [0, 1, 20, 60, most / 2, most - 1] {
        let mut device = LossyDevice::new(0..0);
        device.lives = lives;
        let error = device.try_probe(|_| {}).unwrap_err();
        let ProbeError::EndedEarly { error, found } = error else { panic!("{error}") };
        assert!(matches!(*error, ProbeError::Device(BlockDevError::Io { .. })), "{error}");
        assert_eq!(found.findings.capacity.value, None);
        assert!(!found.errors.is_empty() && !found.loses_data, "{lives}");
    }
}

#[test]
fn a_failed_write_keeps_what_was_found() {
    let mut device = LossyDevice::new(0..0);
    device.probe(|_| {});
    let for_capacity = device.requests;
    let mut device = LossyDevice::new(0..0);
    device.lives = for_capacity + 100;
    let error = device.try_probe(|options| options.only_capacity = false).unwrap_err();
    let ProbeError::EndedEarly { found, .. } = error else { panic!("{error}") };
    assert_eq!(found.findings.capacity.value, Some(QuantityValue::Bytes(CAPACITY)));
    assert_eq!(found.errors.len(), 1);
    assert!(found.written_bytes > 0);
    let unknown = &found.findings.open_erase_blocks_linear.reason;
    assert!(unknown.contains("the device failed"), "{unknown}");
}

#[test]
fn the_capacity_behind_a_region_stays_unknown() {
    let mut device = LossyDevice::new(0..0);
    let probed = device.probe(|options| options.region = 0..64 * MIB);
    let capacity = &probed.findings.capacity;
    assert_eq!((capacity.verdict, capacity.value), (QuantityVerdict::Inconclusive, None));
    assert!(capacity.reason.contains("the tested 64 MiB are there"), "{capacity:?}");
    assert!(!probed.loses_data);
    // The rest of the probe follows.
    let probed = device.probe(|options| {
        options.region = 0..64 * MIB;
        options.only_capacity = false;
    });
    assert_ne!(probed.findings.erase_block.reason, "not measured");
    // A part that is missing is a fake all the same.
    device.loses = 32 * MIB..CAPACITY;
    let probed = device.probe(|options| options.region = 0..64 * MIB);
    let Some(QuantityValue::Bytes(real)) = probed.findings.capacity.value else {
        panic!("{:?}", probed.findings.capacity)
    };
    assert!(real.abs_diff(32 * MIB) <= MIB, "{real}");
}

/// The last bytes of an image are less than a sector.
#[test]
fn a_device_that_ends_within_a_sector_is_tested_as_a_whole() {
    let mut device = LossyDevice::new(0..0);
    device.capacity_bytes += 1;
    let probed = device.probe(|options| options.region = 0..CAPACITY);
    assert_eq!(probed.findings.capacity.verdict, QuantityVerdict::Found);
}

#[test]
fn the_capacity_alone_costs_what_is_estimated() {
    let mut device = LossyDevice::new(0..0);
    for max_write_bytes in [100 * MIB, u64::MAX] {
        let look = writing::QuickLook { read_bytes_per_second: 100_000_000 };
        let mut estimate = None;
        let description = device.describe();
        let probed = device.probe(|options| {
            options.max_write_bytes = max_write_bytes;
            estimate = Some(writing::estimate(&description, options, &look));
        });
        let estimate = estimate.unwrap();
        let written = probed.written_bytes;
        assert!(
            estimate.least_bytes <= written && written <= estimate.most_bytes,
            "{written} {estimate:?}"
        );
        assert!(estimate.most_bytes <= 16 * MIB, "{estimate:?}");
    }
}

#[test]
fn a_spent_budget_is_the_reason_for_what_was_not_measured() {
    let probed = LossyDevice::new(0..0).probe(|options| {
        options.only_capacity = false;
        options.max_write_bytes = 0;
    });
    let findings = &probed.findings;
    for finding in [
        &findings.capacity,
        &findings.write_unit,
        &findings.erase_block,
        &findings.open_erase_blocks_linear,
    ] {
        assert!(finding.reason.contains("write budget"), "{finding:?}");
    }
}
