//! The time of day and the date, in UTC, as they are written into files and names.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: u64 = 86_400;

/// Seconds since 1970; 0 on a machine whose clock is before that.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A time as a part of a file's name: `20250301-143000`, in UTC.
pub fn stamp(unix_s: u64) -> String {
    let (year, month, day) = date(unix_s / DAY_S);
    let second = unix_s % DAY_S;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{:02}", second % 60)
}

/// The day of a time, such as `2026-11-25`.
pub fn day(unix_s: u64) -> String {
    let (year, month, day) = date(unix_s / DAY_S);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The date of a day counted from 1970-01-01. Source: the proleptic Gregorian calendar, counted
/// from the first of March of the year 0, so that the leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    let from_march = days + 719_468;
    let era = from_march / 146_097;
    let of_era = from_march % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_that_are_known() {
        assert_eq!(stamp(0), "19700101-000000");
        assert_eq!(stamp(951_782_400), "20000229-000000");
        assert_eq!(stamp(1_709_210_096), "20240229-123456");
        assert_eq!(stamp(4_102_444_799), "20991231-235959");
        assert_eq!(day(951_782_400), "2000-02-29");
        assert_eq!(day(1_795_640_104), "2026-11-25");
        assert_eq!(day(4_107_542_399), "2100-02-28");
        assert_eq!(day(4_107_542_400), "2100-03-01");
    }
}
