//! The first page: products compared, real and simulated ones apart.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_device::Bytes;
use flashfit_report::DotEmphasis;
use flashfit_report::markup::Element;
use flashfit_survey::SourceKind;
use flashfit_survey::metric::MetricGroup;

use crate::SiteData;
use crate::constants::{SHOWN_WAYS, SPEED_CHARTS, TABLE_MEASURES};
use crate::page::{banner, folded, heading, paragraph};
use crate::product::SiteProduct;
use crate::shared::{self, SharedWay};
use crate::standing::SetupPlace;
use crate::table::{SiteCell, SiteTable};
use crate::{figures, page, plots, speed_section, words};

const TITLE: &str = "Flash cards, measured";

pub fn render(data: &SiteData<'_>) -> String {
    let of = |is_simulated: bool| -> Vec<&SiteProduct> {
        data.products.iter().filter(|product| product.is_simulated == is_simulated).collect()
    };
    let (real, simulated) = (of(false), of(true));
    let mut content = vec![Element::new("h1").text(TITLE), paragraph(&summary(data, &real))];
    let links = [
        ("cards", "Cards", !real.is_empty()),
        ("simulated", "Simulated cards", !simulated.is_empty()),
        ("reading", "How to read this", true),
    ];
    let links = links.into_iter().filter(|(_, _, is_there)| *is_there).map(|(anchor, title, _)| {
        let link = Element::new("a").attr("href", format!("#{anchor}")).text(title);
        Element::new("li").child(link)
    });
    let list = Element::new("ul").children(links);
    content.push(Element::new("nav").attr("aria-label", "Contents").child(list));
    if !real.is_empty() {
        content.push(section(data, &real, heading("cards", "Cards"), None));
    }
    if !simulated.is_empty() {
        let title = heading("simulated", "Simulated cards");
        content.push(section(data, &simulated, title, Some(banner())));
    }
    content.push(page::how_to_read());
    page::render(TITLE, content)
}

fn summary(data: &SiteData<'_>, real: &[&SiteProduct]) -> String {
    let cards = real.iter().flat_map(|product| &product.cards).map(|card| &data.cards[*card]);
    let count = |kind: SourceKind| cards.clone().map(|card| card.count(kind)).sum::<usize>();
    let simulated = data.products.len() - real.len();
    let sources = [
        (count(SourceKind::Run), "run of workloads", "runs of workloads"),
        (count(SourceKind::Probe), "probe", "probes"),
        (count(SourceKind::WearReading), "reading of wear", "readings of wear"),
        (count(SourceKind::WearMeasurement), "measurement of wear", "measurements of wear"),
        (count(SourceKind::PowerCuts), "campaign of power cuts", "campaigns of power cuts"),
    ];
    let sources = sources.into_iter().filter(|(count, _, _)| *count > 0);
    let sources: Vec<String> = sources
        .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
        .collect();
    let mut text = format!(
        "{} of {}",
        words::counted(cards.clone().count(), "card"),
        words::counted(real.len(), "product"),
    );
    if !sources.is_empty() {
        text.push_str(&format!(", measured in {}", sources.join(", ")));
    }
    text.push('.');
    let marked: usize = real.iter().map(|product| product.marked(data.cards)).sum();
    if marked > 0 {
        let is = if marked == 1 { "is" } else { "are" };
        text.push_str(&format!(
            " {} {is} marked with !: possibly counterfeit, worn or of another revision.",
            words::counted(marked, "card")
        ));
    }
    let bundled: usize = real.iter().map(|product| product.bundled(data.cards)).sum();
    if bundled > 0 {
        let have = if bundled == 1 { "has" } else { "have" };
        text.push_str(&format!(
            " {} {have} a +: others measured them, and their figures are claims.",
            words::counted(bundled, "card")
        ));
    }
    if simulated > 0 {
        text.push_str(&format!(" Also {}.", words::counted(simulated, "simulated card model")));
    }
    text
}

fn section(
    data: &SiteData<'_>,
    products: &[&SiteProduct],
    title: Element,
    note: Option<Element>,
) -> Element {
    let ways = shared::ways(data, products, "rate");
    let mut section = Element::new("section").child(title).children(note);
    if let Some(way) = ways.first() {
        section = section.child(paragraph(&how(data, way)));
    }
    section = section.children(page::measured_by_others(data, products));
    let charts = charts(data, products, ways.first());
    if !charts.is_empty() {
        section = section.child(Element::new("div").class("charts").children(charts));
    }
    section = section.child(product_table(data, products, ways.first()).element());
    section = section.children(filesystems(data, products));
    let others = ways.iter().skip(1).take(SHOWN_WAYS);
    let others: Vec<Element> = others.map(|way| other_way(data, products, way)).collect();
    let more = ways.len().saturating_sub(1 + others.len());
    if !others.is_empty() {
        let title = Element::new("h3").text("Measured in other ways");
        section = section.child(title).children(others);
    }
    if more > 0 {
        let text = format!("{more} more ways of measuring are on the pages of the products.");
        section = section.child(paragraph(&text));
    }
    section
}

fn how(data: &SiteData<'_>, way: &SharedWay) -> String {
    format!(
        "Speeds and latencies: {}, measured with {}. Means of the cards with 95 % interval; a \
         tinted figure is the best of its column or tied with it.",
        words::setup(&data.results.setups[way.setup]),
        words::way(&data.figures.ways[way.way], data.options),
    )
}

fn charts(data: &SiteData<'_>, products: &[&SiteProduct], way: Option<&SharedWay>) -> Vec<Element> {
    let mut charts = Vec::new();
    if let Some(way) = way {
        let speeds = way.measures.iter();
        let speeds =
            speeds.filter_map(|measure| plots::measure(data, products, way.cell(*measure)));
        charts.extend(speeds.take(SPEED_CHARTS));
        let latency = latency_measure(data, way).map(|measure| way.cell(measure));
        charts.extend(latency.and_then(|cell| plots::measure(data, products, cell)));
    }
    charts.extend(plots::erase_blocks(data, products));
    let wear = shared::ways(data, products, "write-amplification");
    let wear = wear.first().and_then(|way| Some(way.cell(*way.measures.first()?)));
    charts.extend(wear.and_then(|cell| plots::measure(data, products, cell)));
    charts.extend(plots::power_cuts(data, products));
    charts
}

/// The latency of the first measure that writes, or of the first one.
fn latency_measure(data: &SiteData<'_>, way: &SharedWay) -> Option<usize> {
    let measures = &data.results.measures;
    let writes = way.measures.iter().filter(|measure| measures[**measure].direction == "write");
    let random = writes.clone().find(|measure| measures[**measure].workload.contains("random"));
    let rate = &measures[*random.or(writes.clone().next()).or(way.measures.first())?];
    measures.iter().position(|other| {
        let place = |of: &flashfit_survey::record::SurveyMeasure| {
            [&of.workload, &of.point, &of.stage, &of.direction, &of.length].map(String::clone)
        };
        other.metric == "latency-p99" && place(other) == place(rate)
    })
}

fn product_table(
    data: &SiteData<'_>,
    products: &[&SiteProduct],
    way: Option<&SharedWay>,
) -> SiteTable {
    let measures = columns(data, way);
    let mut table = SiteTable::new("Products")
        .texts("Product")
        .texts("Manufacturer")
        .texts("Kind")
        .numbers("Capacity")
        .numbers("Cards")
        .numbers("With !")
        .numbers_of("Erase block", "as probed");
    table = measure_columns(data, table, &measures)
        .texts("Highest mean setup")
        .numbers_of("Write amplification", "all workloads and setups")
        .numbers_of("Life used", "according to the device")
        .numbers_of("Broken promises", "after power cuts");
    let figures = figure_cells(data, products, way, &measures);
    for (product, figures) in products.iter().zip(figures) {
        let card = &product.example(data.cards).card;
        let marked = product.marked(data.cards);
        let capacity = card.capacity_bytes.map_or_else(SiteCell::default, |bytes| {
            SiteCell::number(Bytes(bytes).si(), bytes as f64)
        });
        let mut row = vec![
            SiteCell::text(product.name(data.cards)).link(&product.file),
            SiteCell::text(words::joined(&[&card.manufacturer, &card.oem], " ")),
            SiteCell::text(&card.kind),
            capacity,
            cards_cell(data, product),
            if marked > 0 { SiteCell::count(marked).class("mark") } else { SiteCell::default() },
            erase_block(data, product),
        ];
        row.extend(figures);
        row.push(setup_cell(data, product));
        row.push(wear_cell(data, product));
        let life = product.cards.iter().filter_map(|card| data.cards[*card].life_used);
        row.push(extent(life, "percent"));
        row.push(broken_promises(data, product));
        table.row(row);
    }
    table
}

/// Cards that cannot be distinguished have a star.
fn cards_cell(data: &SiteData<'_>, product: &SiteProduct) -> SiteCell {
    let individuals = product.individuals(data.cards).count();
    let has_group = individuals < product.cards.len() && !product.is_simulated;
    match (individuals, has_group) {
        (0, true) => SiteCell::number("*", 1.0),
        (count, true) => SiteCell::number(format!("{count} + *"), count as f64 + 0.5),
        (0, false) => SiteCell::default(),
        (count, false) => SiteCell::count(count),
    }
}

fn erase_block(data: &SiteData<'_>, product: &SiteProduct) -> SiteCell {
    let cards = product.cards.iter().map(|card| &data.cards[*card]);
    let sizes: Vec<u64> = cards.flat_map(|card| card.erase_blocks.iter().copied()).collect();
    let Some(usual) = plots::usual(&sizes) else { return SiteCell::default() };
    let others = sizes.iter().filter(|size| **size != usual).count();
    let small =
        if others > 0 { format!("{others} of {} differ", sizes.len()) } else { String::new() };
    SiteCell::number(Bytes(usual).to_string(), usual as f64).small(small)
}

/// The rates that most products have, then one latency.
fn columns(data: &SiteData<'_>, way: Option<&SharedWay>) -> Vec<usize> {
    let Some(way) = way else { return Vec::new() };
    let rates = way.measures.iter().copied().take(TABLE_MEASURES);
    rates.chain(latency_measure(data, way)).collect()
}

fn measure_columns(data: &SiteData<'_>, table: SiteTable, measures: &[usize]) -> SiteTable {
    measures.iter().fold(table, |table, measure| {
        let measure = &data.results.measures[*measure];
        let latency = if measure.metric == "rate" { "" } else { "99th percentile" };
        let small = words::joined(&[&words::part(measure), latency], ", ");
        table.numbers_of(&measure.workload, &small)
    })
}

/// For each product a cell for each measure.
fn figure_cells(
    data: &SiteData<'_>,
    products: &[&SiteProduct],
    way: Option<&SharedWay>,
    measures: &[usize],
) -> Vec<Vec<SiteCell>> {
    let mut rows = vec![Vec::new(); products.len()];
    for measure in measures {
        let unit = &data.results.measures[*measure].unit;
        let is_rate = data.results.measures[*measure].metric == "rate";
        let figure =
            |product: &&SiteProduct| data.figures.product(data.cards, product, way?.cell(*measure));
        let found: Vec<_> = products.iter().map(figure).collect();
        let known: Vec<_> = found.iter().flatten().cloned().collect();
        let mut emphases = shared::emphases(&known, is_rate).into_iter();
        for (row, figure) in rows.iter_mut().zip(&found) {
            let Some(figure) = figure else {
                row.push(SiteCell::default());
                continue;
            };
            let is_best = emphases.next() == Some(DotEmphasis::Strong) && known.len() > 1;
            let cell = speed_section::figure_cell(figure, figure.interval(), unit);
            row.push(if is_best { cell.class("best") } else { cell });
        }
    }
    rows
}

/// The setup with the highest mean over all workloads, in the way in which most was measured.
fn setup_cell(data: &SiteData<'_>, product: &SiteProduct) -> SiteCell {
    let Some((_, ranking)) = speed_section::overall(data, product) else {
        return SiteCell::default();
    };
    let Some(highest) = ranking.0.first() else { return SiteCell::default() };
    let small = match ranking.0.len() {
        1 => "the only one".to_owned(),
        all => {
            let known = ranking.count(SetupPlace::Tied);
            let unknown = ranking.count(SetupPlace::Unknown);
            let unknown =
                if unknown > 0 { format!(", {unknown} uncertain") } else { String::new() };
            format!("{known} tied{unknown}, of {all}")
        }
    };
    SiteCell::text(words::setup(&data.results.setups[highest.setup])).small(small)
}

/// Write amplification from least to most.
fn wear_cell(data: &SiteData<'_>, product: &SiteProduct) -> SiteCell {
    let is_wear = |measure: usize| data.results.measures[measure].metric == "write-amplification";
    let values = data.figures.cells(product).filter(|(cell, _)| is_wear(cell.measure));
    let values = values.flat_map(|(_, found)| found);
    extent(values.map(|(_, figure)| figure.log.exp()), "ratio")
}

/// The share of power cuts that broke any promise, of the setups from least to most.
fn broken_promises(data: &SiteData<'_>, product: &SiteProduct) -> SiteCell {
    let rows = figures::rows(data, product, MetricGroup::PowerLoss).filter(|found| {
        let measure = &data.results.measures[found.row.measure];
        measure.metric == "broken-promises" && measure.point.is_empty()
    });
    extent(rows.map(|found| found.row.value.value), "share")
}

fn extent(values: impl Iterator<Item = f64>, unit: &str) -> SiteCell {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        (least, most) = (least.min(value), most.max(value));
    }
    match least.is_finite() {
        false => SiteCell::default(),
        true if least < most => SiteCell::number(words::range(least, most, unit), most),
        true => SiteCell::number(words::figure(most, unit), most),
    }
}

/// For each product, how the file systems that were measured on it compare.
fn filesystems(data: &SiteData<'_>, products: &[&SiteProduct]) -> Option<Element> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut found: Vec<(&SiteProduct, BTreeMap<String, SetupPlace>)> = Vec::new();
    for product in products {
        let Some((_, ranking)) = speed_section::overall(data, product) else { continue };
        let mut places = BTreeMap::new();
        for row in &ranking.0 {
            let name = data.results.setups[row.setup].filesystem.clone();
            let place = places.entry(name).or_insert(row.place);
            *place = (*place).min(row.place);
        }
        names.extend(places.keys().cloned());
        found.push((product, places));
    }
    if names.len() < 2 {
        return None;
    }
    let mut table = SiteTable::new("File systems").texts("Product");
    for name in &names {
        table = table.texts(name);
    }
    for (product, places) in found {
        let mut row = vec![SiteCell::text(product.title(data.cards)).link(&product.file)];
        row.extend(names.iter().map(|name| {
            places.get(name).map_or_else(SiteCell::default, |place| {
                SiteCell::text(speed_section::place_name(*place))
                    .class(speed_section::class(*place))
            })
        }));
        table.row(row);
    }
    let text = "The best setup of each file system, over all workloads that were measured on the \
                product. The fastest file system is the highest or one of those tied with it.";
    Some(
        Element::new("div")
            .child(Element::new("h3").text("File systems"))
            .child(paragraph(text))
            .child(table.element()),
    )
}

fn other_way(data: &SiteData<'_>, products: &[&SiteProduct], way: &SharedWay) -> Element {
    let measures = columns(data, Some(way));
    let mut table = SiteTable::new("Products").texts("Product").numbers("Cards");
    table = measure_columns(data, table, &measures);
    let figures = figure_cells(data, products, Some(way), &measures);
    for (product, figures) in products.iter().zip(figures) {
        if measures
            .iter()
            .any(|measure| data.figures.product(data.cards, product, way.cell(*measure)).is_some())
        {
            let name = SiteCell::text(product.title(data.cards)).link(&product.file);
            let row = [name, cards_cell(data, product)];
            table.row(row.into_iter().chain(figures).collect());
        }
    }
    let title = format!(
        "{} ({})",
        words::way(&data.figures.ways[way.way], data.options),
        words::counted(way.products, "product")
    );
    folded(&title, false, vec![paragraph(&how(data, way)), table.element()])
}
