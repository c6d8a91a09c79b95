//! Counters in the JSON documents of other programs: numbers, strings of digits, or two halves of
//! 64 bits. nvme-cli writes all three, by version.

use serde_json::Value;

/// The counter of that name in an object; `None` if it is absent or not a whole number from 0.
pub(crate) fn counter(object: &Value, name: &str) -> Option<u128> {
    number(object.get(name)?)
}

/// A whole number from 0.
pub(crate) fn number(value: &Value) -> Option<u128> {
    match value {
        Value::Number(number) => {
            number.as_u64().map(u128::from).or_else(|| whole(number.as_f64()?))
        }
        Value::String(digits) => digits.trim().parse().ok(),
        Value::Object(halves) => {
            let half = |name: &str| halves.get(name)?.as_u64();
            Some(u128::from(half("hi")?) << 64 | u128::from(half("lo")?))
        }
        _ => None,
    }
}

/// A number above 64 bits, which JSON parsers turn into floating point.
fn whole(number: f64) -> Option<u128> {
    let is_whole = number.fract() == 0.0 && (0.0..1e30).contains(&number);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    is_whole.then_some(number as u128)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_counter_has_one_of_three_forms() {
        for (value, expected) in [
            (json!(103), Some(103)),
            (json!("103"), Some(103)),
            (json!({"hi": 1, "lo": 2}), Some((1 << 64) + 2)),
            (json!(1e20), Some(100_000_000_000_000_000_000)),
            (json!(-1), None),
            (json!(1.5), None),
            (json!("1,000"), None),
            (json!("99999999999999999999999999999999999999999"), None),
            (json!({"hi": 1}), None),
            (json!(null), None),
        ] {
            assert_eq!(number(&value), expected, "{value}");
        }
    }
}
