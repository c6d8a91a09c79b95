//! What a command costs, before anybody agrees to it, as text.

use std::time::Duration;

use flashfit_check::{Price, WearPrice};
use flashfit_device::Bytes;
use flashfit_wear::device_life::ASSUMED_AMPLIFICATION;

use super::{duration, two_digits};

/// `20 s to 2 min, 1 to 2 GiB written, 0.03 to 0.2 erases of each erase block (...)`.
pub fn text(price: &Price) -> String {
    let time = |ns| duration(Duration::from_nanos(ns));
    let mut parts = Vec::new();
    match price.time_ns {
        Some([least, _]) if price.is_time_open => {
            parts.push(format!("from about {} on (no longest time is known)", time(least)));
        }
        Some([least, most]) if time(least) == time(most) => {
            parts.push(format!("about {}", time(most)));
        }
        Some([least, most]) => parts.push(format!("{} to {}", time(least), time(most))),
        None => parts.push("unknown time, because the device cannot be read".to_owned()),
    }
    let [least, most] = price.written_bytes;
    parts.push(match least == most {
        true => format!("{} written", Bytes(most)),
        false => format!("{} to {} written", Bytes(least), Bytes(most)),
    });
    if let Some(wear) = &price.wear {
        parts.push(wear_text(wear));
    }
    parts.join(", ")
}

fn wear_text(wear: &WearPrice) -> String {
    let number = |thousandths: u64| two_digits(thousandths as f64 / 1000.0);
    let range = |[least, most]: [u64; 2]| format!("{} to {}", number(least), number(most));
    let rated = rated_text((wear.rated_erases, wear.rated_is_assumed));
    format!(
        "{} erases of each erase block on average, which is {} % of the device's life \
         ({rated}, and 1 to {ASSUMED_AMPLIFICATION} bytes programmed for 1 written)",
        range(wear.erases_thousandths),
        range(wear.life_percent_thousandths),
    )
}

/// `rated for 3000 erases of each`.
pub fn rated_text((erases, is_assumed): (u64, bool)) -> String {
    let rated = if is_assumed { "assuming" } else { "rated for" };
    format!("{rated} {erases} erases of each")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(is_time_open: bool) -> Price {
        Price {
            time_ns: Some([1_000_000_000, 120_000_000_000]),
            is_time_open,
            written_bytes: [1 << 30, 2 << 30],
            wear: Some(WearPrice::of([0.5, 4.0], (3000, false))),
        }
    }

    #[test]
    fn a_price_without_a_limit_names_no_longest_time() {
        let open = text(&price(true));
        assert!(open.starts_with("from about 1 s"), "{open}");
        assert!(open.contains("no longest time is known"), "{open}");
    }

    #[test]
    fn a_price_names_time_bytes_erases_and_life() {
        let text = text(&price(false));
        for part in ["1 s to 2 min", "written, 0.50 to 4.0 erases", "% of the device's life"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
