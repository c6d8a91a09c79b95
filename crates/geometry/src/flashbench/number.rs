//! Parses flashbench's times, rates and sizes.
//!
//! flashbench prints a number with three digits into a buffer of eight bytes, so longer ones are
//! truncated: `1e+03µ` is 1000 µs, `1.586G/` is a rate, `-22669n` and `-412331` are nanoseconds.
//! The two-byte `µ` may lose a byte or use another encoding. Some locales have a decimal comma.
//! Source: flashbench, `flashbench.c` (`format_ns`, `format_rate`).

/// One hour; flashbench times are shorter.
const MAX_NS: f64 = 3.6e12;
/// Above any device's rate, and exactly representable.
const MAX_BYTES_PER_SECOND: f64 = 1e15;
/// Above any device's size.
const MAX_BYTES: f64 = 1e18;

/// Nanoseconds of `750µs`, `1.06ms`, `1e+03µ`, `-4834ns` or `-412331`; `None` if the text is not a
/// finite time.
pub fn time_ns(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    let factor = match unit.chars().next() {
        None | Some('n') => 1.0,
        // Half of a two-byte `µ`, read as Latin-1, is an `Â` or an `Î`.
        Some('µ' | 'μ' | 'u' | 'Â' | 'Î' | '\u{fffd}') => 1e3,
        Some('m') => 1e6,
        Some('s') => 1e9,
        Some(_) => return None,
    };
    Some(number * factor).filter(|time| time.abs() <= MAX_NS)
}

/// Bytes per second of `4.43M/s`, `586K/s`, `1.586G/` or `1e+03M`, with decimal prefixes.
pub fn bytes_per_second(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit.chars().next()? {
        'K' | 'k' => 1e3,
        'M' => 1e6,
        'G' => 1e9,
        'B' | '/' => 1.0,
        _ => return None,
    };
    let rate = number * factor;
    (0.0..MAX_BYTES_PER_SECOND).contains(&rate).then(|| rate.round() as u64)
}

/// Bytes of `4MiB`, `1.5MiB`, `64KiB` or `512B`, with binary prefixes; `None` for 0.
pub fn size_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = number * factor;
    (1.0..MAX_BYTES).contains(&bytes).then(|| bytes.round() as u64)
}

/// A finite number and the rest of the text.
fn split(text: &str) -> Option<(f64, &str)> {
    let bytes = text.as_bytes();
    let mut end = 0;
    while let Some(&byte) = bytes.get(end) {
        let exponent = matches!(byte, b'e' | b'E')
            && end > 0
            && bytes.get(end + 1).is_some_and(|next| b"+-0123456789".contains(next));
        let sign =
            matches!(byte, b'+' | b'-') && (end == 0 || matches!(bytes[end - 1], b'e' | b'E'));
        if !(byte.is_ascii_digit() || matches!(byte, b'.' | b',') || exponent || sign) {
            break;
        }
        end += 1;
    }
    let (number, unit) = text.split_at(end);
    let number: f64 = number.replace(',', ".").parse().ok()?;
    number.is_finite().then_some((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_times_are_parsed() {
        let all = [
            ("750µs", 750e3),
            ("750μs", 750e3),
            ("750us", 750e3),
            ("1e+03µ", 1e6),
            ("1e+03Â", 1e6),
            ("1.06ms", 1.06e6),
            ("1,06ms", 1.06e6),
            ("2s", 2e9),
            ("57ns", 57.0),
            ("-4834ns", -4834.0),
            ("-22669n", -22669.0),
            ("-412331", -412_331.0),
            ("0ns", 0.0),
        ];
        for (text, ns) in all {
            assert!((time_ns(text).unwrap() - ns).abs() < 1e-6, "{text}");
        }
    }

    #[test]
    fn truncated_rates_and_sizes_are_parsed() {
        assert_eq!(bytes_per_second("4.43M/s"), Some(4_430_000));
        assert_eq!(bytes_per_second("4,43M/s"), Some(4_430_000));
        assert_eq!(bytes_per_second("1.586G/"), Some(1_586_000_000));
        assert_eq!(bytes_per_second("1e+03K"), Some(1_000_000));
        assert_eq!(bytes_per_second("308B/s"), Some(308));
        assert_eq!(size_bytes("1.5MiB"), Some(3 << 19));
        assert_eq!(size_bytes("512B"), Some(512));
    }

    #[test]
    fn invalid_numbers_are_rejected() {
        for text in ["", "-", "nan", "-nan", "inf", "infM/s", "µs", "e+03µ", "1e+µs", "1.2.3ms"]
        {
            assert_eq!(time_ns(text), None, "{text}");
            assert_eq!(bytes_per_second(text), None, "{text}");
        }
        for text in ["1e999ms", "1e30s", "3 bananas", "12h"] {
            assert_eq!(time_ns(text), None, "{text}");
        }
        for text in ["5", "-1M/s", "1e30M/s", "12ms"] {
            assert_eq!(bytes_per_second(text), None, "{text}");
        }
        for text in ["0B", "4", "4M", "-4KiB", "1e30GiB"] {
            assert_eq!(size_bytes(text), None, "{text}");
        }
    }
}
