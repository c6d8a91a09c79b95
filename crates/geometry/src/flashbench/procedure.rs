//! flashbench's `--open-au` procedure on any block device.
//!
//! For each write size, in halves from the erase block down, every place of several erase blocks is
//! written once: the first place of each block, then the second of each, and so on. The blocks are
//! far apart. Linear runs come first, as in the published tables. The random order is that of
//! flashbench's feedback shift register. It never reaches zero, so places run from the second of a
//! block to the first of the next one.
//!
//! Differences from flashbench: positions stay within the device; with more than 65535 places,
//! where flashbench gives up, the order comes from the seed; a device without a volatile cache gets
//! no flushes, as O_SYNC on a real one sends none. Source: flashbench, `off_rand` and `lfsr` of
//! vm.c, `try_open_au` of flashbench.c.

use flashfit_device::random::Random;
use flashfit_device::{BlockDev, BlockDevError, Bytes, Clock};
use flashfit_user_error::{ExitClass, Hint, UserError};

use super::table::{AccessOrder, OpenBlockTable, TableCell};

/// flashbench starts after the file allocation table.
const FIRST_BYTES: u64 = 16 << 20;
/// Initial state of the shift register, truncated to its number of bits.
const FIRST_STATE: u64 = 0xace1;
/// Number of bits of the smallest shift register.
const MIN_BITS: u32 = 8;
/// Feedback taps by the number of bits, from `MIN_BITS` up.
const FED_BACK: [u64; 9] = [
    0b1_1101,
    0b1_0001,
    0b1001,
    0b101,
    0b1_0000_0111,
    0b10_0111,
    0b1_0000_0000_0111,
    0b11,
    0b10_1101,
];
/// Distance between written erase blocks, in blocks, if the device has room.
const SPACING_UNITS: u64 = 12;

#[derive(Debug, Clone)]
pub struct OpenBlockProcedure {
    /// The assumed erase block size.
    pub erase_block: Bytes,
    pub least_write: Bytes,
    /// The largest number of erase blocks written in turn; the table starts with 1.
    pub most_units: u32,
    /// The seed of the written data.
    pub seed: u64,
}

/// Why a table could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum ProcedureError {
    #[error("the device of {capacity} is too small for {units} erase blocks of {erase_block}")]
    TooSmall { capacity: Bytes, units: u32, erase_block: Bytes },
    #[error("writes of {least_write} do not divide the erase block of {erase_block}")]
    OddWrite { least_write: Bytes, erase_block: Bytes },
    #[error(transparent)]
    Device(#[from] BlockDevError),
}

impl UserError for ProcedureError {
    fn class(&self) -> ExitClass {
        match self {
            Self::TooSmall { .. } | Self::OddWrite { .. } => ExitClass::Usage,
            Self::Device(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::TooSmall { .. } => Some("measure fewer erase blocks".into()),
            Self::OddWrite { .. } => Some("use a write size that divides the erase block".into()),
            Self::Device(error) => error.hint(),
        }
    }
}

impl OpenBlockProcedure {
    /// Overwrites the measured places. `clock` must be the clock that `device` advances.
    ///
    /// # Errors
    /// See [`ProcedureError`].
    pub fn run(
        &self,
        device: &mut (impl BlockDev + ?Sized),
        clock: &(impl Clock + ?Sized),
    ) -> Result<OpenBlockTable, ProcedureError> {
        let data = self.data();
        let mut cells = Vec::new();
        for access in [AccessOrder::Linear, AccessOrder::Random] {
            for units in 1..=self.most_units {
                for write in self.sizes()? {
                    let time_ns =
                        self.time_ns(device, clock, (units, access), part_of(&data, write))?;
                    let bytes = u128::from(units) * u128::from(self.erase_block.0);
                    let rate = bytes * 1_000_000_000 / u128::from(time_ns.max(1));
                    let bytes_per_second = u64::try_from(rate).unwrap_or(u64::MAX);
                    cells.push(TableCell { units, access, write, bytes_per_second });
                }
            }
        }
        Ok(OpenBlockTable { cells })
    }

    /// Incompressible data of the size of an erase block.
    pub fn data(&self) -> Vec<u8> {
        incompressible(self.erase_block.0, self.seed)
    }

    /// Writes some erase blocks in turn, in one order and with one of the [sizes](Self::sizes), and
    /// returns the total time in nanoseconds. `write` is a prefix of [`Self::data`].
    ///
    /// # Errors
    /// See [`ProcedureError`].
    ///
    /// # Panics
    /// If `units` exceeds `most_units`.
    pub fn time_ns(
        &self,
        device: &mut (impl BlockDev + ?Sized),
        clock: &(impl Clock + ?Sized),
        (units, access): (u32, AccessOrder),
        write: &[u8],
    ) -> Result<u64, ProcedureError> {
        let starts = self.starts(device)?;
        let starts = &starts[..units as usize];
        Ok(self.write_in_turn(device, clock, starts, access, write)?)
    }

    /// The write sizes: the erase block and its halves down to the smallest.
    ///
    /// # Errors
    /// [`ProcedureError::OddWrite`].
    pub fn sizes(&self) -> Result<Vec<Bytes>, ProcedureError> {
        let odd = ProcedureError::OddWrite {
            least_write: self.least_write,
            erase_block: self.erase_block,
        };
        if self.least_write.0 == 0 || self.erase_block.0 % self.least_write.0 != 0 {
            return Err(odd);
        }
        let halves = std::iter::successors(Some(self.erase_block.0), |size| {
            (size % 2 == 0).then_some(size / 2)
        });
        let divides = |size: &u64| size % self.least_write.0 == 0;
        Ok(halves
            .take_while(|size| *size >= self.least_write.0)
            .filter(divides)
            .map(Bytes)
            .collect())
    }

    /// The largest number of erase blocks that fit on a device of this capacity.
    pub fn room(capacity: Bytes, erase_block: Bytes) -> u32 {
        u32::try_from(Self::place_and_room(capacity, erase_block).1).unwrap_or(u32::MAX)
    }

    /// The first erase block, and how many follow. Random orders extend into one more.
    fn place_and_room(capacity: Bytes, erase_block: Bytes) -> (u64, u64) {
        let units = capacity.0 / erase_block.0.max(1);
        let first = FIRST_BYTES.div_ceil(erase_block.0.max(1)).min(units / 4);
        (first, units.saturating_sub(first + 1))
    }

    /// Start offsets of the erase blocks that are written in turn.
    fn starts(&self, device: &(impl BlockDev + ?Sized)) -> Result<Vec<u64>, ProcedureError> {
        let capacity = Bytes(device.describe().capacity_bytes);
        let (first, room) = Self::place_and_room(capacity, self.erase_block);
        let wanted = u64::from(self.most_units);
        if wanted == 0 || room < wanted {
            return Err(ProcedureError::TooSmall {
                capacity,
                units: self.most_units,
                erase_block: self.erase_block,
            });
        }
        let spacing = SPACING_UNITS.min(room / wanted);
        Ok((0..wanted).map(|unit| (first + unit * spacing) * self.erase_block.0).collect())
    }

    fn write_in_turn(
        &self,
        device: &mut (impl BlockDev + ?Sized),
        clock: &(impl Clock + ?Sized),
        starts: &[u64],
        access: AccessOrder,
        write: &[u8],
    ) -> Result<u64, BlockDevError> {
        let flush = device.describe().volatile_cache;
        let write_bytes = write.len() as u64;
        let count = self.erase_block.0 / write_bytes;
        let places = match access {
            AccessOrder::Linear => (0..count).collect(),
            AccessOrder::Random => mixed(count, self.seed),
        };
        let units = mixed(starts.len() as u64, self.seed);
        let order: Vec<u64> = units.into_iter().map(|unit| starts[unit as usize - 1]).collect();
        let begin_ns = clock.now_ns();
        for place in places {
            for start in &order {
                device.write(start + place * write_bytes, write)?;
                if flush {
                    device.flush()?;
                }
            }
        }
        Ok(clock.now_ns() - begin_ns)
    }
}

/// The numbers from 1 to `count` in the order of a feedback shift register.
fn mixed(count: u64, seed: u64) -> Vec<u64> {
    let bits = (u64::BITS - count.leading_zeros()).max(MIN_BITS);
    let Some(fed_back) = FED_BACK.get((bits - MIN_BITS) as usize) else {
        let mut order: Vec<u64> = (1..=count).collect();
        Random::new(seed).shuffle(&mut order);
        return order;
    };
    let first = FIRST_STATE & ((1 << bits) - 1);
    let next = |state: &u64| {
        let bit = u64::from((state & fed_back).count_ones() % 2);
        Some((state >> 1) | (bit << (bits - 1)))
    };
    let states = std::iter::successors(next(&first), next);
    let count_of = usize::try_from(count).expect("it has fewer than 17 bits");
    states.filter(|&state| state <= count).take(count_of).collect()
}

/// The prefix of the data that one write needs.
pub fn part_of(data: &[u8], write: Bytes) -> &[u8] {
    &data[..usize::try_from(write.0).expect("a write is held in memory")]
}

fn incompressible(length: u64, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut data = vec![0; usize::try_from(length).expect("a write is held in memory")];
    for word in data.chunks_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes()[..word.len()]);
    }
    data
}

#[cfg(test)]
mod tests {
    use flashfit_device::{BlockDevInfo, VirtualClock};

    use super::*;

    /// Takes a microsecond per write and records the offsets.
    struct Recorder {
        clock: VirtualClock,
        writes: Vec<(u64, u64)>,
    }

    impl BlockDev for Recorder {
        fn describe(&self) -> BlockDevInfo {
            BlockDevInfo {
                capacity_bytes: 64 << 20,
                sector_bytes: 512,
                discard_granularity_bytes: 0,
                volatile_cache: false,
            }
        }

        fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), BlockDevError> {
            Ok(())
        }

        fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
            self.writes.push((offset, data.len() as u64));
            self.clock.sleep_ns(1000);
            Ok(())
        }

        fn flush(&mut self) -> Result<(), BlockDevError> {
            panic!("a device without a volatile cache must not be flushed")
        }

        fn discard(&mut self, _: u64, _: u64) -> Result<(), BlockDevError> {
            Ok(())
        }
    }

    fn procedure() -> OpenBlockProcedure {
        OpenBlockProcedure {
            erase_block: Bytes::mib(1),
            least_write: Bytes(64 << 10),
            most_units: 3,
            seed: 1,
        }
    }

    fn measure(procedure: &OpenBlockProcedure) -> (OpenBlockTable, Vec<(u64, u64)>) {
        let clock = VirtualClock::default();
        let mut recorder = Recorder { clock: clock.clone(), writes: Vec::new() };
        (procedure.run(&mut recorder, &clock).unwrap(), recorder.writes)
    }

    #[test]
    fn each_row_writes_every_place_of_its_erase_blocks_once() {
        let (table, writes) = measure(&procedure());
        assert_eq!(table.cells.len(), 3 * 2 * 5);
        let row = |count: usize| &writes[writes.len() - count..];
        let mut last: Vec<u64> = row(48).iter().map(|(offset, _)| *offset).collect();
        last.sort_unstable();
        last.dedup();
        assert_eq!(last.len(), 48);
        // The random order does not include the first place.
        assert_eq!(last[0] % (1 << 20), 64 << 10);
        assert!(row(48).iter().all(|(offset, size)| offset + size <= 64 << 20));
        // 64 KiB in a microsecond each.
        let rate = table.rate(3, AccessOrder::Random, Bytes(64 << 10)).unwrap();
        assert_eq!(rate, 65_536_000_000);
    }

    #[test]
    fn an_erase_block_of_three_times_a_power_of_two_is_halved_while_divisible() {
        let odd = OpenBlockProcedure {
            erase_block: Bytes::mib(3),
            least_write: Bytes(24 << 10),
            ..procedure()
        };
        let sizes: Vec<u64> = odd.sizes().unwrap().iter().map(|size| size.0 >> 10).collect();
        assert_eq!(sizes, [3072, 1536, 768, 384, 192, 96, 48, 24]);
    }

    #[test]
    fn the_random_order_matches_flashbench() {
        assert_eq!(mixed(1, 1), [1]);
        assert_eq!(mixed(4, 1), [2, 1, 3, 4]);
        assert_eq!(mixed(16, 1), [8, 12, 6, 10, 15, 11, 5, 2, 1, 16, 14, 7, 3, 9, 4, 13]);
        for count in [3, 255, 256, 1024, 65535, 65536, 100_000] {
            let mut order = mixed(count, 1);
            assert_eq!(order.len() as u64, count);
            order.sort_unstable();
            assert!(order.into_iter().eq(1..=count), "{count}");
        }
    }

    #[test]
    fn too_small_a_device_is_rejected() {
        let clock = VirtualClock::default();
        let mut recorder = Recorder { clock: clock.clone(), writes: Vec::new() };
        let wide = OpenBlockProcedure { erase_block: Bytes::mib(32), ..procedure() };
        let error = wide.run(&mut recorder, &clock).unwrap_err();
        assert!(matches!(error, ProcedureError::TooSmall { .. }), "{error}");
        assert!(recorder.writes.is_empty());
    }
}
