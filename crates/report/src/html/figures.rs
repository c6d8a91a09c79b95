//! The charts, each with a caption and its data as a table.

use crate::figure::{BarChart, Chart, ChartPoint, FigureGroup, LineChart};
use crate::markup::Element;
use crate::quantity::{FigureUnit, NO_VALUE};
use crate::svg::{Drawing, SIMULATED, x_text};
use crate::text::count_of;

use super::parts::{
    capitalized, cell, column_head, heading, interval_text, number_cell, paragraph, row, scrolling,
    table,
};

/// The anchor of a group of figures.
pub(super) fn anchor(index: usize) -> String {
    format!("figures-{}", index + 1)
}

/// Groups that are visible.
pub(super) fn sections(groups: &[FigureGroup], drawing: &Drawing) -> Vec<Element> {
    let groups = groups.iter().enumerate();
    groups.map(|(index, group)| section(&anchor(index), group, drawing)).collect()
}

/// Groups that are unfolded one by one.
pub(super) fn folded(title: &str, groups: &[FigureGroup], drawing: &Drawing) -> Option<Element> {
    let section = Element::new("section").child(heading("workloads", title));
    (!groups.is_empty()).then(|| {
        section.children(groups.iter().map(|group| {
            let charts = count_of(group.charts.len(), "chart");
            Element::new("details")
                .child(Element::new("summary").text(format!("{} ({charts})", group.title)))
                .children((!group.explanation.is_empty()).then(|| paragraph(&group.explanation)))
                .children(group.charts.iter().map(|chart| figure(chart, drawing)))
        }))
    })
}

fn section(anchor: &str, group: &FigureGroup, drawing: &Drawing) -> Element {
    Element::new("section")
        .child(heading(anchor, &group.title))
        .children((!group.explanation.is_empty()).then(|| paragraph(&group.explanation)))
        .children(group.charts.iter().map(|chart| figure(chart, drawing)))
}

fn figure(chart: &Chart, drawing: &Drawing) -> Element {
    let (title, data) = match chart {
        Chart::Lines(chart) => (&chart.title, line_data(chart)),
        Chart::Bars(chart) => (&chart.title, bar_data(chart)),
    };
    let details = Element::new("details")
        .child(Element::new("summary").text(format!("Data: {title}")))
        .child(scrolling(&format!("Data: {title}"), data));
    Element::new("figure")
        .child(Element::new("figcaption").text(caption(chart, drawing.simulated)))
        .child(scrolling(title, drawing.element(chart)))
        .child(details)
}

/// What the drawing itself does not say: its title and direction are in it.
fn caption(chart: &Chart, simulated: bool) -> String {
    let spread = match chart {
        Chart::Lines(chart) => chart.spread,
        Chart::Bars(chart) => chart.spread,
    };
    let origin = if simulated { format!(" {}.", capitalized(SIMULATED)) } else { String::new() };
    match has_whiskers(chart) {
        true => format!("Whiskers: {}.{origin}", spread.heading()),
        false => format!("Each value was measured once, so its noise is unknown.{origin}"),
    }
}

/// Whether a value was measured more than once.
fn has_whiskers(chart: &Chart) -> bool {
    match chart {
        Chart::Lines(chart) => {
            let mut points = chart.series.iter().flat_map(|series| &series.points);
            points.any(|point| point.n > 1)
        }
        Chart::Bars(chart) => chart.bars.iter().any(|bar| bar.n > 1),
    }
}

/// One row per setup, one column per `x`.
fn line_data(chart: &LineChart) -> Element {
    let x_values = chart.x_values();
    let heads = std::iter::once(column_head("setup", false))
        .chain(x_values.iter().map(|&x| column_head(&x_text(&chart.x_axis, x), true)));
    let rows = chart.series.iter().map(|series| {
        let points = chart.drawable(series);
        let cells = x_values.iter().map(|&x| {
            let point = points.iter().find(|point| point.x.total_cmp(&x).is_eq());
            number_cell(
                &point.map_or_else(|| NO_VALUE.to_owned(), |point| point_text(chart.y_unit, point)),
            )
        });
        let name = cell(&series.role.marked(&series.name)).class("name");
        row(std::iter::once(name).chain(cells))
    });
    table(heads, rows.collect())
}

fn point_text(unit: FigureUnit, point: &ChartPoint) -> String {
    if point.n == 1 {
        return format!("{}, n = 1", unit.show(point.y));
    }
    let scaled = unit.scaled_for(point.y);
    format!(
        "{} ({} to {}), n = {}",
        unit.show(point.y),
        unit.digits(point.low, scaled),
        unit.digits(point.high, scaled),
        point.n
    )
}

fn bar_data(chart: &BarChart) -> Element {
    let spread = chart.spread.heading();
    let heads =
        [("setup", false), (&chart.value_label, true), (spread.as_str(), true), ("n", true)];
    let heads = heads.map(|(title, number)| column_head(title, number));
    let rows = chart.bars.iter().map(|bar| {
        row([
            cell(&bar.role.marked(&bar.name)).class("name"),
            number_cell(&chart.unit.show(bar.value)),
            number_cell(&interval_text(chart.unit, bar.low, bar.high, bar.n)),
            number_cell(&bar.n.to_string()),
        ])
    });
    table(heads, rows.collect())
}
