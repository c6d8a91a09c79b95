//! The page of one product: its cards, their variation, setups, geometry, wear and power loss.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_device::Bytes;
use flashfit_report::markup::Element;
use flashfit_report::probability;
use flashfit_survey::SourceKind;
use flashfit_survey::metric::MetricGroup;
use flashfit_survey::query::ListedCard;

use crate::SiteData;
use crate::constants::SHOWN_ROWS;
use crate::figures::{self, SourceFigure};
use crate::page::{self, banner, heading, paragraph};
use crate::product::{SiteProduct, card_name};
use crate::table::{SiteCell, SiteTable};
use crate::{plots, shared, speed_section, words};

/// Charts of the cards.
const CARD_CHARTS: usize = 3;

pub fn render(data: &SiteData<'_>, product: &SiteProduct) -> String {
    let title = product.title(data.cards);
    let back = Element::new("a").attr("href", "index.html").text("All products");
    let mut content = vec![
        Element::new("nav").attr("aria-label", "Site").child(back),
        Element::new("h1").text(&title),
    ];
    content.extend(product.is_simulated.then(banner));
    content.extend(page::measured_by_others(data, &[product]));
    content.push(facts(data, product));
    content.extend(marks(data, product));
    content.extend(cards(data, product));
    content.extend(speed_section::section(data, product));
    content.extend(geometry(data, product));
    content.extend(rows(data, product, MetricGroup::Wear, "wear", "Wear"));
    content.extend(rows(data, product, MetricGroup::PowerLoss, "power-loss", "Power loss"));
    content.push(page::how_to_read());
    let simulated = if product.is_simulated { " (simulated)" } else { "" };
    page::render(&format!("{title}{simulated}"), content)
}

fn listed<'a>(
    data: &'a SiteData<'_>,
    product: &'a SiteProduct,
) -> impl Iterator<Item = &'a ListedCard> {
    product.cards.iter().map(|card| &data.cards[*card])
}

/// Each value once.
fn each(values: impl Iterator<Item = String>) -> String {
    let values: BTreeSet<String> = values.filter(|value| !value.is_empty()).collect();
    values.into_iter().collect::<Vec<_>>().join(", ")
}

fn facts(data: &SiteData<'_>, product: &SiteProduct) -> Element {
    let card = &product.example(data.cards).card;
    let individuals = product.individuals(data.cards).count();
    let count = match (product.is_simulated, individuals < product.cards.len()) {
        (true, _) => String::new(),
        (false, true) if individuals == 0 => "any number (*)".to_owned(),
        (false, true) => format!("{individuals}, and any number without a serial number (*)"),
        (false, false) => individuals.to_string(),
    };
    let all = || listed(data, product);
    let sizes = |of: fn(&ListedCard) -> &Vec<u64>| {
        let sizes: BTreeSet<u64> = all().flat_map(|card| of(card).iter().copied()).collect();
        let sizes = sizes.into_iter().map(|size| Bytes(size).to_string());
        sizes.collect::<Vec<_>>().join(", ")
    };
    let total = |kind: SourceKind| all().map(|card| card.count(kind)).sum::<usize>().to_string();
    let list = [
        ("Kind", card.kind.clone()),
        ("Manufacturer", words::joined(&[&card.manufacturer, &card.oem], " ")),
        ("Capacity", card.capacity_bytes.map_or_else(String::new, |bytes| Bytes(bytes).si())),
        ("Cards", count),
        ("Revision", each(all().map(|card| card.card.revision.clone()))),
        ("Made", each(all().map(|card| card.card.manufactured.clone()))),
        ("Erase block", sizes(|card| &card.erase_blocks)),
        ("Write unit", sizes(|card| &card.write_units)),
        ("Runs of workloads", total(SourceKind::Run)),
        ("Probes", total(SourceKind::Probe)),
        ("Readings of wear", total(SourceKind::WearReading)),
        ("Campaigns of power cuts", total(SourceKind::PowerCuts)),
    ];
    let list = list
        .into_iter()
        .filter(|(_, value)| !value.is_empty() && value != "0")
        .flat_map(|(name, value)| [Element::new("dt").text(name), Element::new("dd").text(value)]);
    Element::new("dl").class("facts").children(list)
}

fn marks(data: &SiteData<'_>, product: &SiteProduct) -> Option<Element> {
    let marked = listed(data, product).filter(|card| !card.doubts().is_empty());
    let items: Vec<Element> = marked
        .map(|card| {
            let text = format!(": {}", card.doubts().join("; "));
            let key = Element::new("strong").text(format!("! {}", card_name(card)));
            Element::new("li").child(key).text(text)
        })
        .collect();
    let list = Element::new("ul").class("marks").children(items.clone());
    (!items.is_empty())
        .then(|| Element::new("section").child(heading("marks", "Cards with marks")).child(list))
}

fn cards(data: &SiteData<'_>, product: &SiteProduct) -> Option<Element> {
    if product.is_simulated {
        return None;
    }
    let mut table = SiteTable::new("Cards")
        .texts("Card")
        .texts("Name")
        .texts("Revision")
        .texts("Made")
        .numbers("Erase block")
        .numbers("Write unit")
        .numbers_of("Capacity", "as probed")
        .numbers("Runs")
        .numbers("Probes");
    let size = |sizes: &[u64]| match sizes.last() {
        Some(most) => {
            let texts: Vec<String> = sizes.iter().map(|size| Bytes(*size).to_string()).collect();
            SiteCell::number(texts.join(", "), *most as f64)
        }
        None => SiteCell::default(),
    };
    for card in listed(data, product) {
        let is_marked = !card.doubts().is_empty();
        let star = if card.card.is_individual { "" } else { " *" };
        let mark = if is_marked { " !" } else { "" };
        let name = SiteCell::text(format!("{}{star}{mark}", card_name(card)));
        let own = if data.options.with_names { card.card.name.as_str() } else { "" };
        table.row(vec![
            if is_marked { name.class("mark") } else { name },
            SiteCell::text(own),
            SiteCell::text(&card.card.revision),
            SiteCell::text(&card.card.manufactured),
            size(&card.erase_blocks),
            size(&card.write_units),
            size(&card.real_capacity.into_iter().collect::<Vec<_>>()),
            SiteCell::count(card.count(SourceKind::Run)),
            SiteCell::count(card.count(SourceKind::Probe)),
        ]);
    }
    let section = Element::new("section").child(heading("cards", "Cards"));
    Some(section.children(variation(data, product)).child(table.element()))
}

/// How far the cards vary, in what most of them have in common.
fn variation(data: &SiteData<'_>, product: &SiteProduct) -> Vec<Element> {
    let ways = shared::ways(data, &[product], "rate");
    let broadest = ways.iter().max_by_key(|way| (way.cards, std::cmp::Reverse(way.way)));
    let Some(way) = broadest else { return Vec::new() };
    let spread = way.measures.iter().filter_map(|measure| {
        let figure = data.figures.product(data.cards, product, way.cell(*measure))?;
        let percent = figure.sample.deviation?.exp_m1() * 100.0;
        let what = words::measure(&data.results.measures[*measure]);
        Some(format!("{what} {percent:.1} %"))
    });
    let spread: Vec<String> = spread.take(CARD_CHARTS).collect();
    if spread.is_empty() {
        return Vec::new();
    }
    let text = format!(
        "Standard deviation between cards: {}. Setup: {}.",
        spread.join("; "),
        words::setup(&data.results.setups[way.setup]),
    );
    let charts = way.measures.iter().take(CARD_CHARTS);
    let charts = charts.filter_map(|measure| plots::cards(data, product, way.cell(*measure)));
    vec![paragraph(&text), Element::new("div").class("charts").children(charts)]
}

/// What probes found, each value with the number of cards.
fn geometry(data: &SiteData<'_>, product: &SiteProduct) -> Option<Element> {
    // By measure and value, the cards and the highest confidence.
    let mut found: BTreeMap<(usize, u64), (BTreeSet<i64>, Option<f64>)> = BTreeMap::new();
    for SourceFigure { card, row } in figures::rows(data, product, MetricGroup::Construction) {
        let key = (row.measure, row.value.value.max(0.0) as u64);
        let (cards, confidence) = found.entry(key).or_default();
        cards.insert(card.card.id);
        let own = row.value.confidence;
        *confidence = confidence.map_or(own, |best| Some(own.map_or(best, |own| own.max(best))));
    }
    let mut table = SiteTable::new("Geometry")
        .texts("What")
        .numbers("Value")
        .numbers("Cards")
        .numbers_of("Probability", "of the surest probe");
    for ((measure, value), (cards, confidence)) in found {
        let measure = &data.results.measures[measure];
        table.row(vec![
            SiteCell::text(measure.metric.replace('-', " ")),
            SiteCell::number(words::figure(value as f64, &measure.unit), value as f64),
            SiteCell::count(cards.len()),
            confidence.map_or_else(SiteCell::default, |share| {
                SiteCell::number(probability(share), share)
            }),
        ]);
    }
    let section = || Element::new("section").child(heading("geometry", "Geometry, as probed"));
    (!table.is_empty()).then(|| section().child(table.element()))
}

/// Figures of a group, one row each.
fn rows(
    data: &SiteData<'_>,
    product: &SiteProduct,
    group: MetricGroup,
    anchor: &str,
    title: &str,
) -> Option<Element> {
    let mut table = SiteTable::new(title)
        .texts("What")
        .texts("Setup")
        .texts("Workload")
        .texts("Card")
        .numbers("Value")
        .numbers("95 % interval")
        .numbers("Count");
    let all: Vec<SourceFigure<'_>> = figures::rows(data, product, group).collect();
    for SourceFigure { card, row } in all.iter().take(SHOWN_ROWS) {
        let (measure, value) = (&data.results.measures[row.measure], row.value);
        let setup = &data.results.setups[row.setup];
        let setup = match setup.filesystem.as_str() {
            "" => String::new(),
            _ => words::setup(setup),
        };
        let unit = words::stored_unit(measure);
        let interval = value
            .low
            .zip(value.high)
            .map_or_else(String::new, |(low, high)| words::range(low, high, unit));
        table.row(vec![
            SiteCell::text(words::joined(
                &[&measure.metric.replace('-', " "), &measure.point],
                ": ",
            )),
            SiteCell::text(setup),
            SiteCell::text(words::joined(&[&measure.workload, &measure.stage], ": ")),
            SiteCell::text(if product.is_simulated { String::new() } else { card_name(card) }),
            SiteCell::number(words::figure(value.value, unit), value.value),
            SiteCell::text(interval),
            SiteCell::count(value.count as usize),
        ]);
    }
    let more = all.len().saturating_sub(SHOWN_ROWS);
    let text = format!("{} not shown.", words::counted(more, "more row"));
    let section = || Element::new("section").child(heading(anchor, title));
    (!table.is_empty())
        .then(|| section().child(table.element()).children((more > 0).then(|| paragraph(&text))))
}
