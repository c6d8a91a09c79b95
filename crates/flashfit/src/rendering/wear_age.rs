//! An aged card as text and as a drawing.

use flashfit_device::Bytes;
use flashfit_report::document::{RangeMeaning, SetupRole};
use flashfit_report::figure::{
    BetterDirection, ChartPoint, ChartSeries, FigureGroup, LineChart, ValueScale, XAxis,
};
use flashfit_report::svg::{Drawing, LineStyles};
use flashfit_report::{Chart, Column, FigureUnit, TextTable, text};
use flashfit_wear::UsageModel;
use flashfit_wear::age::{AgeEnd, AgePoint};

use crate::rendering::wear::{capacity, modeled_note, rating, span, years};
use crate::wear::age::AgeDocument;

/// The aged card; `serve` is the command that serves the saved one.
pub fn age_text(
    document: &AgeDocument,
    usage: &UsageModel,
    serve: Option<&str>,
    width: usize,
) -> String {
    let mut out = format!(
        "Simulated aging of the card {} ({}) with {}\n{}\n{:.2} GiB a day written by programs; {}\n\n",
        document.card,
        capacity(Bytes(document.capacity_bytes), Bytes(document.unwritten_bytes)),
        document.setup,
        usage.title,
        document.gib_a_day,
        rating(document.rated_cycles, document.pslc_rated_cycles)
    );
    let mut table = TextTable::new([
        Column::number("YEARS"),
        Column::number("MEAN ERASES"),
        Column::number("MOST"),
        Column::number("CARD WA"),
        Column::number("MB/S"),
        Column::number("FAILED BLOCKS"),
        Column::number("SPARES LEFT"),
    ]);
    for point in &document.points {
        table.row([
            years(point.years),
            format!("{:.0}", point.erases_mean),
            point.erases_most.to_string(),
            format!("{:.2}", point.write_amplification),
            format!("{:.1}", point.written_mb_per_s),
            point.spare_blocks.retired.to_string(),
            point.spare_blocks.left.to_string(),
        ]);
    }
    out += &table.render(width);
    out += "\n";
    let modeled = modeled_note(&document.modeled, usage);
    for line in [ending(document), notes(document)].into_iter().chain(modeled) {
        out += &text::wrap(&line, width).join("\n");
        out += "\n";
    }
    if let Some(serve) = serve {
        out += &format!("Saved. To use it: {serve}\n");
    }
    out
}

fn ending(document: &AgeDocument) -> String {
    let age = span(document.years);
    match document.end {
        AgeEnd::YearsOver => format!("After {age}, the card still accepts writes."),
        AgeEnd::ReadOnly => format!(
            "The card became read-only after {age}: an erase block failed, and no spare block \
             was left to replace it."
        ),
        AgeEnd::Interrupted => format!("Interrupted at an age of {age}."),
    }
}

fn notes(document: &AgeDocument) -> String {
    let spread = document
        .points
        .last()
        .map_or(1.0, |last| f64::from(last.erases_most) / last.erases_mean.max(f64::MIN_POSITIVE));
    format!(
        "At the end, the most worn block had {spread:.1} times the erase count of the mean. CARD WA: \
         bytes that the card programs per byte that it is sent. MB/S: what it was sent by the time \
         that it was busy, in the recorded mix. One seed gives one history; another --seed shows how \
         much depends on chance."
    )
}

/// Wear, speed and write amplification over the years, and wear by block, one below the other.
pub fn draw(document: &AgeDocument) -> String {
    let over_years = |title: &str, y_label: &str, series: Vec<ChartSeries>| {
        // A label has room for three characters.
        let label = |point: &AgePoint| format!("{:.1}", point.years);
        let labels = document.points.iter().map(label).collect();
        chart(document, title, "age in years", y_label, XAxis::Labels(labels), series)
    };
    let line = |name: &str, of: fn(&AgePoint) -> f64| {
        let points = document.points.iter().zip(0_u32..);
        series(name, points.map(|(point, place)| (f64::from(place), of(point))))
    };
    let erases = vec![
        line("most worn block", |point| f64::from(point.erases_most)),
        line("mean", |point| point.erases_mean),
    ];
    let blocks = document.erases_by_block.len();
    let percents: Vec<usize> = (0..=20).map(|step| step * 5).collect();
    let at = |percent: usize| document.erases_by_block[((blocks - 1) * percent) / 100];
    let by_block = series(
        "erase blocks in ascending order of wear",
        percents
            .iter()
            .zip(0_u32..)
            .map(|(&percent, place)| (f64::from(place), f64::from(at(percent)))),
    );
    let labels = percents.iter().map(|percent| format!("{percent} %")).collect();
    let charts = vec![
        over_years("erase counts", "erases", erases),
        over_years(
            "failed erase blocks",
            "blocks",
            vec![line("failed", |point| f64::from(point.spare_blocks.retired))],
        ),
        over_years(
            "write amplification",
            "bytes programmed per byte",
            vec![line("write amplification", |point| point.write_amplification)],
        ),
        over_years("speed", "MB/s", vec![line("writes", |point| point.written_mb_per_s)]),
        chart(
            document,
            "wear by block at the end",
            "share of the blocks",
            "erases",
            XAxis::Labels(labels),
            vec![by_block],
        ),
    ];
    let groups = [FigureGroup { charts, ..FigureGroup::default() }];
    let drawing = Drawing { simulated: true, styles: LineStyles::of(&groups) };
    drawing.stack(&groups[0].charts)
}

fn series(name: &str, points: impl Iterator<Item = (f64, f64)>) -> ChartSeries {
    let points = points.map(|(x, y)| ChartPoint { x, y, low: y, high: y, n: 1 }).collect();
    ChartSeries { name: name.to_owned(), role: SetupRole::Candidate, points }
}

fn chart(
    document: &AgeDocument,
    title: &str,
    x_label: &str,
    y_label: &str,
    x_axis: XAxis,
    series: Vec<ChartSeries>,
) -> Chart {
    Chart::Lines(LineChart {
        title: format!("{} with {}: {title}", document.card, document.setup),
        x_label: x_label.to_owned(),
        y_label: y_label.to_owned(),
        y_unit: FigureUnit::Number,
        direction: BetterDirection::Neither,
        x_axis,
        y_scale: ValueScale::Linear,
        spread: RangeMeaning::Interval(95),
        series,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashfit_card::SpareBlocks;
    use flashfit_wear::mix::ModeledUsage;

    fn document(end: AgeEnd) -> AgeDocument {
        let point = |years: f64, retired: u32| AgePoint {
            years,
            write_amplification: 2.5,
            written_mb_per_s: 9.0,
            erases_most: (years * 500.0) as u32,
            erases_mean: years * 250.0,
            blocks_past_rating: 0,
            spare_blocks: SpareBlocks { retired, left: 4 - retired, worn_out: retired == 4 },
        };
        AgeDocument {
            card: "usd-a1-pagemap".to_owned(),
            setup: "ext4".to_owned(),
            usage: "kiosk".to_owned(),
            gib_a_day: 2.0,
            capacity_bytes: 8 << 30,
            unwritten_bytes: 0,
            rated_cycles: 3000,
            pslc_rated_cycles: None,
            years: 2.0,
            end,
            modeled: ModeledUsage { changed_percent: 12.5, filled_percent: 50.0 },
            points: vec![point(1.0, 0), point(2.0, 4)],
            erases_by_block: vec![480, 500, 1000],
            simulated: true,
            saved: Some("old.card".to_owned()),
        }
    }

    #[test]
    fn the_end_of_a_card_is_named() {
        let usage = flashfit_wear::usage::load("kiosk", None).unwrap();
        let serve = Some("flashfit card serve mine.toml --state old.card");
        let text = age_text(&document(AgeEnd::ReadOnly), &usage, serve, 80);
        assert!(text.contains("became read-only after 2.0 years"), "{text}");
        assert!(text.contains("2.0 times the erase count"), "{text}");
        assert!(text.contains("--state old.card"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let alive = age_text(&document(AgeEnd::YearsOver), &usage, None, 80);
        assert!(alive.contains("still accepts writes"), "{alive}");
    }

    #[test]
    fn the_drawing_is_marked_as_simulated() {
        let drawn = draw(&document(AgeEnd::YearsOver));
        assert!(drawn.starts_with("<svg ") && drawn.contains("simulated card"), "{drawn}");
        assert!(drawn.contains("wear by block at the end"));
    }
}
