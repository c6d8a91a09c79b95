//! Common multiples and divisors of sizes.

/// The greatest common divisor; that of 0 and `b` is `b`.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The least common multiple; `None` where it is over 64 bits or one of the two is 0.
pub fn lcm(a: u64, b: u64) -> Option<u64> {
    if a == 0 || b == 0 { None } else { (a / gcd(a, b)).checked_mul(b) }
}

/// The largest power of two that divides `n`, which is not 0.
pub fn power_in(n: u64) -> u64 {
    1 << n.trailing_zeros().min(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_and_divisors() {
        assert_eq!(lcm(4 << 20, 12 << 20), Some(12 << 20));
        assert_eq!(lcm(3 << 20, 2 << 20), Some(6 << 20));
        assert_eq!(lcm(u64::MAX, 2), None);
        assert_eq!(lcm(0, 2), None);
        assert_eq!(power_in(12 << 20), 4 << 20);
        assert_eq!(gcd(12, 18), 6);
    }
}
