//! Numbers for estimates, which are not known better than this.

/// With two significant digits, or all before the point: `0.034`, `1.9`, `163`.
pub fn two_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (1.0 - value.max(1e-6).log10().floor()).clamp(0.0, 6.0);
    format!("{value:.*}", digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_show_the_size_of_an_estimate() {
        let shown = [0.0, 0.034, 0.2, 1.94, 57.4, 163.0].map(two_digits);
        assert_eq!(shown, ["0", "0.034", "0.20", "1.9", "57", "163"]);
    }
}
