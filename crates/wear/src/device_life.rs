//! The share of a device's life that writing takes, without a model of the device.
//!
//! Limit: hardly any device reports its rated erases or what it programs for a byte written; both
//! are assumed, on the safe side for cheap cards.

/// The assumed erases that an erase block bears, and bytes programmed per byte written.
pub const ASSUMED_ERASES: u64 = 1000;
pub const ASSUMED_AMPLIFICATION: u64 = 4;

/// How often each erase block is erased on average while so much is programmed.
pub fn erases_of_each_block(programmed_bytes: u64, capacity_bytes: u64) -> f64 {
    programmed_bytes as f64 / capacity_bytes.max(1) as f64
}

/// The share of the device's life, in thousandths of a percent.
pub fn life_thousandths(erases_of_each_block: f64, rated_erases: u64) -> u64 {
    (erases_of_each_block / rated_erases.max(1) as f64 * 100_000.0).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_device_is_one_erase_of_each_block() {
        let erases = erases_of_each_block(4 << 30, 4 << 30);
        assert!((erases - 1.0).abs() < f64::EPSILON);
        assert_eq!(life_thousandths(erases, ASSUMED_ERASES), 100);
        assert_eq!(life_thousandths(0.0, 0), 0);
    }
}
