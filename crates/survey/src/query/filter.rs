//! Filters of rows by column: `column=value`, with `=`, `!=`, `<`, `<=`, `>`, `>=` and `~`.
//!
//! Numbers are compared as numbers, sizes may have a unit, everything else is compared as text; `~`
//! finds a part of a text, whatever its case. A row without the value matches only `!=`.

use std::cmp::Ordering;

use flashfit_device::Bytes;

use crate::error::SurveyError;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnValue {
    Text(String),
    Number(f64),
    Is(bool),
}

/// The operators; of two that begin alike, the longer comes first.
const OPERATORS: [&str; 7] = ["!=", "<=", ">=", "=", "<", ">", "~"];

/// The columns with [`ColumnValue::Is`].
const TRUE_OR_FALSE: [&str; 3] = ["individual", "simulated", "bundled"];
/// The columns with [`ColumnValue::Number`].
const NUMBERS: [&str; 10] = [
    "capacity_bytes",
    "erase_block_bytes",
    "write_unit_bytes",
    "real_capacity_bytes",
    "runs",
    "probes",
    "wear_readings",
    "power_cut_campaigns",
    "life_used_percent",
    "created_unix_s",
];

/// A condition on one column.
#[derive(Debug, Clone, PartialEq)]
pub struct RowFilter {
    column: String,
    operator: &'static str,
    value: String,
}

impl RowFilter {
    /// Parses a condition on one of these columns.
    ///
    /// # Errors
    /// If it has no operator, or the column is unknown.
    pub fn parse(text: &str, columns: &[&str]) -> Result<Self, SurveyError> {
        let refused = |reason, hint| SurveyError::Filter { text: text.to_owned(), reason, hint };
        let error = |reason: String| refused(reason, None);
        let at = |operator: &&'static str| text.find(*operator).map(|start| (start, *operator));
        let first = OPERATORS.iter().filter_map(at).min_by_key(|(start, operator)| {
            // The longer of those that begin at the same place.
            (*start, usize::MAX - operator.len())
        });
        let (start, operator) =
            first.ok_or_else(|| error("expected COLUMN=VALUE, or one of != < <= > >= ~".into()))?;
        let column = text[..start].trim();
        if !columns.contains(&column) {
            return Err(error(format!(
                "unknown column `{column}`; there are {}",
                columns.join(", ")
            )));
        }
        let value = text[start + operator.len()..].trim().to_owned();
        let filter = Self { column: column.to_owned(), operator, value };
        if TRUE_OR_FALSE.contains(&column) && !["true", "false"].contains(&filter.value.as_str()) {
            let hint = format!("{column}=true or {column}=false");
            return Err(refused("expected true or false".into(), Some(hint)));
        }
        if NUMBERS.contains(&column) && operator != "~" && filter.number().is_none() {
            let (reason, example) = match column.strip_suffix("_bytes") {
                Some(_) => ("expected a number or a size", "32GiB"),
                None => ("expected a number", "1"),
            };
            return Err(refused(reason.into(), Some(format!("{column}>={example}"))));
        }
        Ok(filter)
    }

    pub fn column(&self) -> &str {
        &self.column
    }

    /// Whether a row matches, by its value in the column.
    pub fn matches(&self, found: Option<&ColumnValue>) -> bool {
        let Some(found) = found else { return self.operator == "!=" };
        if self.operator == "~" {
            let text = text_of(found).to_lowercase();
            return text.contains(&self.value.to_lowercase());
        }
        let order = match found {
            ColumnValue::Number(number) => {
                self.number().and_then(|wanted| number.partial_cmp(&wanted))
            }
            other => Some(text_of(other).as_str().cmp(self.value.as_str())),
        };
        match self.operator {
            "=" => order == Some(Ordering::Equal),
            "!=" => order != Some(Ordering::Equal),
            "<" => order == Some(Ordering::Less),
            "<=" => order.is_some_and(Ordering::is_le),
            ">" => order == Some(Ordering::Greater),
            _ => order.is_some_and(Ordering::is_ge),
        }
    }

    fn number(&self) -> Option<f64> {
        let plain = self.value.parse::<f64>().ok().filter(|number| number.is_finite());
        plain.or_else(|| self.value.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64))
    }
}

fn text_of(value: &ColumnValue) -> String {
    match value {
        ColumnValue::Text(text) => text.clone(),
        ColumnValue::Number(number) => number.to_string(),
        ColumnValue::Is(is) => is.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [&str; 3] = ["product", "capacity_bytes", "simulated"];

    fn matches(filter: &str, value: Option<ColumnValue>) -> bool {
        RowFilter::parse(filter, &COLUMNS).unwrap().matches(value.as_ref())
    }

    #[test]
    fn values_that_a_column_cannot_have_are_refused() {
        let refused = |text: &str, wanted: (&str, &str)| {
            let Err(SurveyError::Filter { reason, hint, .. }) = RowFilter::parse(text, &COLUMNS)
            else {
                panic!("{text} is refused")
            };
            assert_eq!((reason.as_str(), hint.as_deref()), (wanted.0, Some(wanted.1)), "{text}");
        };
        for text in ["simulated=no", "simulated!=True", "simulated~tr", "simulated="] {
            refused(text, ("expected true or false", "simulated=true or simulated=false"));
        }
        for text in
            ["capacity_bytes>=big", "capacity_bytes!=nan", "capacity_bytes<", "capacity_bytes=inf"]
        {
            refused(text, ("expected a number or a size", "capacity_bytes>=32GiB"));
        }
        let other = RowFilter::parse("product=no", &COLUMNS);
        assert!(other.is_ok() && RowFilter::parse("capacity_bytes~32", &COLUMNS).is_ok());
    }

    #[test]
    fn numbers_texts_and_sizes_are_compared_as_what_they_are() {
        let number = |number| Some(ColumnValue::Number(number));
        assert!(matches("capacity_bytes>=32GiB", number((32u64 << 30) as f64)));
        assert!(!matches("capacity_bytes>32GiB", number((32u64 << 30) as f64)));
        assert!(matches("capacity_bytes<100", number(99.0)), "not as text");
        let text = |text: &str| Some(ColumnValue::Text(text.to_owned()));
        assert!(matches("product~l32", text("SL32G")) && !matches("product=sl32g", text("SL32G")));
        assert!(matches("product = SL32G", text("SL32G")));
        assert!(matches("product=a=b", text("a=b")), "the first operator counts");
        assert!(matches("simulated=true", Some(ColumnValue::Is(true))));
        assert!(matches("product!=x", None) && !matches("product=x", None));
    }

    #[test]
    fn what_is_not_a_filter_is_refused() {
        for text in ["product", "prodct=x", "", "=x"] {
            assert!(RowFilter::parse(text, &COLUMNS).is_err(), "{text}");
        }
    }
}
