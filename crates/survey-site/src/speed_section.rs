//! The speed of one product: for each way of measuring and workload, its setups.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_report::markup::Element;
use flashfit_survey::query::cells::SurveyCell;

use crate::SiteData;
use crate::constants::{SHOWN_SETUPS, SHOWN_WAYS};
use crate::figures::ProductFigure;
use crate::page::{folded, heading, paragraph};
use crate::product::SiteProduct;
use crate::standing::{ProductSetup, SetupPlace, SetupRanking, rank};
use crate::table::{SiteCell, SiteTable};
use crate::words;

/// Setups that are named in a sentence.
const NAMED: usize = 3;

/// A way in which a product was measured.
struct ProductWay {
    way: usize,
    cards: BTreeSet<usize>,
    /// By workload, the measures; rates first.
    workloads: BTreeMap<String, Vec<usize>>,
}

/// The ways of a product, that with the most cards and then the most measures first.
fn ways(data: &SiteData<'_>, product: &SiteProduct) -> Vec<ProductWay> {
    let mut ways: BTreeMap<usize, (BTreeSet<usize>, BTreeSet<usize>)> = BTreeMap::new();
    for (cell, cards) in data.figures.cells(product) {
        let way = ways.entry(cell.way).or_default();
        way.0.extend(cards.keys());
        way.1.insert(cell.measure);
    }
    // One in which only wear was measured says nothing about speed.
    let is_rate = |measure: &usize| data.results.measures[*measure].metric == "rate";
    ways.retain(|_, (_, measures)| measures.iter().any(is_rate));
    let mut ways: Vec<ProductWay> = ways
        .into_iter()
        .map(|(way, (cards, measures))| {
            let mut workloads: BTreeMap<String, Vec<usize>> = BTreeMap::new();
            for measure in measures {
                let name = data.results.measures[measure].workload.clone();
                workloads.entry(name).or_default().push(measure);
            }
            ProductWay { way, cards, workloads }
        })
        .collect();
    ways.sort_by_key(|way| (std::cmp::Reverse((way.cards.len(), way.workloads.len())), way.way));
    ways
}

/// The rates of each workload.
fn rates(data: &SiteData<'_>, way: &ProductWay) -> Vec<Vec<usize>> {
    let is_rate = |measure: &usize| data.results.measures[*measure].metric == "rate";
    let rates = way
        .workloads
        .values()
        .map(|measures| measures.iter().copied().filter(is_rate).collect::<Vec<usize>>());
    rates.filter(|measures| !measures.is_empty()).collect()
}

/// All workloads of the way in which most was measured, and how its setups compare.
pub fn overall(data: &SiteData<'_>, product: &SiteProduct) -> Option<(usize, SetupRanking)> {
    let ways = ways(data, product);
    let way = ways.first()?;
    let ranking = rank(data, product, way.way, &rates(data, way));
    (!ranking.0.is_empty()).then_some((way.way, ranking))
}

pub fn section(data: &SiteData<'_>, product: &SiteProduct) -> Option<Element> {
    let ways = ways(data, product);
    if ways.is_empty() {
        return None;
    }
    let more = ways.len().saturating_sub(SHOWN_WAYS);
    let shown = ways.iter().take(SHOWN_WAYS).enumerate();
    let shown = shown.map(|(index, way)| {
        let title = format!(
            "Measured with {} ({})",
            words::way(&data.figures.ways[way.way], data.options),
            words::counted(way.cards.len(), "card"),
        );
        folded(&title, index == 0, way_content(data, product, way))
    });
    let note = "Setups with the highest mean speed first. The highest of many means is biased, so \
                read which setups are tied with it, and take gains from the report of a run.";
    let section = Element::new("section")
        .child(heading("speed", "Speed by workload"))
        .child(paragraph(note))
        .children(shown);
    let text = format!("{more} more ways of measuring are not shown.");
    Some(section.children((more > 0).then(|| paragraph(&text))))
}

fn way_content(data: &SiteData<'_>, product: &SiteProduct, way: &ProductWay) -> Vec<Element> {
    let mut content = Vec::new();
    let rates = rates(data, way);
    if rates.len() > 1 {
        let ranking = rank(data, product, way.way, &rates);
        content.push(Element::new("h3").text("All workloads"));
        content.push(paragraph(&verdict(data, &ranking)));
    }
    for (workload, measures) in &way.workloads {
        let is_rate = |measure: &usize| data.results.measures[*measure].metric == "rate";
        let own: Vec<usize> = measures.iter().copied().filter(is_rate).collect();
        if own.is_empty() {
            continue;
        }
        let ranking = rank(data, product, way.way, &[own]);
        content.push(Element::new("h3").text(workload));
        content.push(paragraph(&verdict(data, &ranking)));
        let (table, more) = setups(data, product, (way.way, workload, measures), &ranking);
        content.push(table.element());
        if more > 0 {
            let text = format!("{} not shown.", words::counted(more, "more setup"));
            content.push(paragraph(&text));
        }
    }
    content
}

/// What may be said of the setups.
fn verdict(data: &SiteData<'_>, ranking: &SetupRanking) -> String {
    let name = |row: &ProductSetup| words::setup(&data.results.setups[row.setup]);
    let Some(highest) = ranking.0.first() else {
        return "No setup was measured at all points.".to_owned();
    };
    if ranking.0.len() == 1 {
        return format!("Only {} was measured.", name(highest));
    }
    let mut text = format!("Highest mean of {} setups: {}.", ranking.0.len(), name(highest));
    let of = |place: SetupPlace| ranking.0.iter().filter(move |row| row.place == place);
    let tied: Vec<String> = of(SetupPlace::Tied).take(NAMED).map(name).collect();
    let more = ranking.count(SetupPlace::Tied).saturating_sub(tied.len());
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    match (tied.is_empty(), ranking.count(SetupPlace::Unknown)) {
        (false, _) => text.push_str(&format!(" Tied with it: {}{more}.", tied.join("; "))),
        (true, 0) => text.push_str(" All others are lower."),
        (true, _) => {}
    }
    let unknown = ranking.count(SetupPlace::Unknown);
    if unknown > 0 {
        text.push_str(&format!(
            " Uncertain, because the noise is unknown after one measurement: {unknown}."
        ));
    }
    text
}

/// The highest setups and the default one, with the number of those left out.
fn setups(
    data: &SiteData<'_>,
    product: &SiteProduct,
    (way, workload, measures): (usize, &str, &[usize]),
    ranking: &SetupRanking,
) -> (SiteTable, usize) {
    let mut table = SiteTable::new(workload).texts("Setup").texts("Result").numbers("Cards");
    let of = |metric: &str| -> Vec<usize> {
        let is_it = |measure: &&usize| data.results.measures[**measure].metric == metric;
        measures.iter().filter(is_it).copied().collect()
    };
    let shown = ["rate", "latency-p99", "write-amplification"].map(of).concat();
    for measure in &shown {
        let measure = &data.results.measures[*measure];
        let title = match measure.metric.as_str() {
            "rate" => "Speed",
            "latency-p99" => "99th percentile",
            _ => "Write amplification",
        };
        table = table.numbers_of(title, &words::part(measure));
    }
    let is_default = |row: &ProductSetup| data.results.setups[row.setup].options.is_empty();
    let rows: Vec<&ProductSetup> = ranking
        .0
        .iter()
        .enumerate()
        .filter(|(index, row)| *index < SHOWN_SETUPS || is_default(row))
        .map(|(_, row)| row)
        .collect();
    for row in &rows {
        let mut cells = vec![
            SiteCell::text(words::setup(&data.results.setups[row.setup])),
            SiteCell::text(place_name(row.place)).class(class(row.place)),
            SiteCell::count(row.cards),
        ];
        for measure in &shown {
            let cell = SurveyCell { way, setup: row.setup, measure: *measure };
            let unit = &data.results.measures[*measure].unit;
            let figure = data.figures.product(data.cards, product, cell);
            cells.push(figure.map_or_else(SiteCell::default, |figure| {
                figure_cell(&figure, figure.any_interval(), unit)
            }));
        }
        table.row(cells);
    }
    (table, ranking.0.len() - rows.len())
}

pub fn figure_cell(figure: &ProductFigure, interval: Option<(f64, f64)>, unit: &str) -> SiteCell {
    let value = figure.sample.mean.exp();
    let small =
        interval.map_or_else(String::new, |(low, high)| words::range(low.exp(), high.exp(), unit));
    SiteCell::number(words::figure(value, unit), value).small(small)
}

pub fn place_name(place: SetupPlace) -> &'static str {
    match place {
        SetupPlace::Highest => "highest",
        SetupPlace::Tied => "tied",
        SetupPlace::Unknown => "uncertain",
        SetupPlace::Lower => "lower",
    }
}

pub fn class(place: SetupPlace) -> &'static str {
    match place {
        SetupPlace::Highest => "highest",
        SetupPlace::Tied => "tied",
        SetupPlace::Unknown => "unknown",
        SetupPlace::Lower => "lower",
    }
}
