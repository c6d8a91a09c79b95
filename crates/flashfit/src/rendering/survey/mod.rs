//! Surveys: their documents, tables and CSV.

mod bundled;
mod cards;
mod exported;
mod one_card;
mod products;
mod site;
mod wear_table;

pub use bundled::{BundledDocument, bundled_text};
pub use cards::{
    AddedDocument, AddedSource, CardsDocument, MergedDocument, added_text, cards_text, merged_text,
};
pub use exported::{ExportedDocument, exported_text};
pub use one_card::{CardDocument, card_text};
pub use products::{ProductsDocument, products_text};
pub use site::{SiteDocument, site_text};

use flashfit_device::Bytes;
use serde::Serialize;

/// With these, a cell is a formula for a spreadsheet.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Rows as CSV (RFC 4180), with the keys of the JSON document in the first line. Names of products
/// and setups can be a stranger's, so texts that a spreadsheet would compute begin with `'`.
pub fn csv<T: Serialize + Default>(rows: &[T]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // The keys are written before the first row.
    let none = [T::default()];
    let (rows, lines) = if rows.is_empty() { (&none[..], 1) } else { (rows, usize::MAX) };
    for row in rows {
        writer.serialize(row).expect("rows are plain data");
    }
    let plain = writer.into_inner().expect("memory takes everything");
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&*plain);
    for row in reader.records().take(lines) {
        let row = row.expect("it was written here");
        let cells = row.iter().map(|cell| match is_formula(cell) {
            true => format!("'{cell}"),
            false => cell.to_owned(),
        });
        writer.write_record(cells).expect("memory takes everything");
    }
    let bytes = writer.into_inner().expect("memory takes everything");
    String::from_utf8(bytes).expect("rows are text")
}

fn is_formula(cell: &str) -> bool {
    cell.starts_with(FORMULA) && cell.parse::<f64>().is_err()
}

/// A figure with its unit, for people.
fn figure(value: f64, unit: &str) -> String {
    match unit {
        "bytes/s" => format!("{}/s", Bytes(value as u64).si()),
        "bytes" => Bytes(value as u64).to_string(),
        "ns" => format!("{} ms", significant(value / 1e6)),
        "operations/s" => format!("{}/s", significant(value)),
        "count" => rounded(value),
        "percent" => format!("{} %", rounded(value)),
        other => match other.strip_suffix("/run") {
            Some(unit) => format!("{}/run", figure(value, unit)),
            None => format!("{} {other}", significant(value)),
        },
    }
}

/// A whole number as it is, others with three significant digits.
fn rounded(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { significant(value) }
}

/// Three significant digits.
fn significant(value: f64) -> String {
    let digits = if value > 0.0 { value.log10().floor() as i32 } else { 0 };
    let places = usize::try_from(2 - digits).unwrap_or(0);
    format!("{value:.places$}")
}

/// A size, or a dash.
fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(figure(1_234_567.0, "ns"), "1.23 ms");
        assert_eq!(figure(123.4, "operations/s"), "123/s");
        assert_eq!(figure(2.0, "ratio"), "2.00 ratio");
        assert_eq!(figure(4_194_304.0, "bytes"), "4 MiB");
        assert_eq!(figure(4_194_304.0, "bytes/run"), "4 MiB/run");
        assert_eq!(figure(30.0, "percent"), "30 %");
        assert_eq!(figure(14.142135623730955, "percent"), "14.1 %");
        assert_eq!(figure(1.0 / 3.0, "count"), "0.333");
        assert_eq!(figure(1234.0, "count"), "1234");
    }

    #[test]
    fn csv_has_no_formulas() {
        #[derive(Default, Serialize)]
        struct Row {
            name: &'static str,
            difference: f64,
        }
        let rows = ["=cmd|' /C calc'!A0", "@SUM(A1)", "+1+1", "-a", "a=b"]
            .map(|name| Row { name, difference: -1.5 });
        let wanted = "name,difference\n'=cmd|' /C calc'!A0,-1.5\n'@SUM(A1),-1.5\n'+1+1,-1.5\n\
                      '-a,-1.5\na=b,-1.5\n";
        assert_eq!(csv(&rows), wanted);
    }

    #[test]
    fn csv_quotes_what_must_be_quoted() {
        #[derive(Default, Serialize)]
        struct Row {
            name: &'static str,
            size: Option<u64>,
        }
        let rows = [Row { name: "a,\"b\"", size: None }, Row { name: "c", size: Some(1) }];
        assert_eq!(csv(&rows), "name,size\n\"a,\"\"b\"\"\",\nc,1\n");
        assert_eq!(csv::<Row>(&[]), "name,size\n");
    }
}
