//! flashbench's numbers: times, rates and sizes.
//!
//! A number is printed with three digits into a buffer of eight bytes, so the end of what is longer
//! is lost: `1e+03µ` are 1000 µs, `1.586G/` is a rate, `-22669n` and `-412331` are nanoseconds. The
//! `µ` has two bytes and can lose one of them, or arrive in another encoding. In a locale with a
//! decimal comma there is one. Source: flashbench, `flashbench.c` (`format_ns`, `format_rate`).

/// Nothing takes longer than an hour; more is no time of flashbench's.
const MOST_NS: f64 = 3.6e12;
/// Beyond it is no device's rate, and a cast would not be exact.
const MOST_BYTES_PER_SECOND: f64 = 1e15;
/// Beyond it is no device's size.
const MOST_BYTES: f64 = 1e18;

/// `750µs`, `1.06ms`, `1e+03µ`, `-4834ns`, `-412331`: nanoseconds; `None` for what is no time,
/// `nan` and `inf` among it.
pub fn time_ns(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    let factor = match unit.chars().next() {
        None | Some('n') => 1.0,
        // Half of the two bytes of a `µ`, read as Latin-1, is an `Â` or an `Î`.
        Some('µ' | 'μ' | 'u' | 'Â' | 'Î' | '\u{fffd}') => 1e3,
        Some('m') => 1e6,
        Some('s') => 1e9,
        Some(_) => return None,
    };
    Some(number * factor).filter(|time| time.abs() <= MOST_NS)
}

/// `4.43M/s`, `586K/s`, `1.586G/`, `1e+03M`: bytes a second, in powers of ten.
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
    (0.0..MOST_BYTES_PER_SECOND).contains(&rate).then(|| rate.round() as u64)
}

/// `4MiB`, `1.5MiB`, `64KiB`, `512B`, in powers of two; 0 is no size.
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
    (1.0..MOST_BYTES).contains(&bytes).then(|| bytes.round() as u64)
}

/// A finite number and what stands behind it.
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
    fn times_are_read_however_they_were_cut() {
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
    fn rates_and_sizes_are_read_however_they_were_cut() {
        assert_eq!(bytes_per_second("4.43M/s"), Some(4_430_000));
        assert_eq!(bytes_per_second("4,43M/s"), Some(4_430_000));
        assert_eq!(bytes_per_second("1.586G/"), Some(1_586_000_000));
        assert_eq!(bytes_per_second("1e+03K"), Some(1_000_000));
        assert_eq!(bytes_per_second("308B/s"), Some(308));
        assert_eq!(size_bytes("1.5MiB"), Some(3 << 19));
        assert_eq!(size_bytes("512B"), Some(512));
    }

    #[test]
    fn what_is_no_number_is_none() {
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
