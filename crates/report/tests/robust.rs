//! Properties of any report: well-formed markup, no requests, escaped text, and charts that draw
//! odd data.

use flashfit_report::svg::Drawing;
use flashfit_report::{
    Chart, ChartPoint, ChartSeries, ComparisonPage, LineChart, Report, ReportCommand, RunOutcome,
    html, terminal, text,
};

mod sample;

const HOSTILE: &str = "x\u{1b}]0;owned\u{7}\"'/></title><script>alert(1)</script>\u{202e}&amp;\r\n";

/// Panics unless every element is closed in order, every attribute is quoted and every `&` starts
/// an entity, as XML requires.
fn assert_well_formed(markup: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = markup.strip_prefix("<!DOCTYPE html>\n").unwrap_or(markup);
    while let Some(start) = rest.find('<') {
        assert_only_entities(&rest[..start]);
        let end = rest[start..].find('>').expect("a tag ends") + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
            continue;
        }
        let (body, closed) = tag.strip_suffix('/').map_or((tag, false), |body| (body, true));
        let (name, attributes) = body.split_once(' ').unwrap_or((body, ""));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "odd element: {name}");
        assert_attributes(attributes);
        if !closed {
            open.push(name);
        }
    }
    assert_only_entities(rest);
    assert!(open.is_empty(), "left open: {open:?}");
}

fn assert_attributes(mut attributes: &str) {
    let mut seen = Vec::new();
    while !attributes.is_empty() {
        let (name, rest) = attributes.split_once("=\"").expect("a quoted value");
        let (value, rest) = rest.split_once('"').expect("a closing quote");
        assert!(!seen.contains(&name), "{name} given twice");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "odd name: {name}");
        assert!(!value.contains('<'));
        assert_only_entities(value);
        seen.push(name);
        attributes = rest.strip_prefix(' ').unwrap_or(rest);
    }
}

fn assert_only_entities(text: &str) {
    for after in text.split('&').skip(1) {
        let name = after.split(';').next().expect("split returns at least one part");
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "a bare &: {after:.20}");
    }
}

fn hostile_report() -> Report {
    let mut report = sample::report();
    report.title = HOSTILE.into();
    report.verdict.headline = HOSTILE.into();
    report.verdict.commands.push(ReportCommand { caption: HOSTILE.into(), line: HOSTILE.into() });
    report.facts.push((HOSTILE.into(), HOSTILE.into()));
    report.warnings.push(HOSTILE.into());
    report.reproduce = HOSTILE.into();
    report.failures[0].reason = HOSTILE.into();
    report.rankings[0].rows[0].setup = HOSTILE.into();
    report.rankings[0].rows[1].note = HOSTILE.into();
    report.setups[0].name = HOSTILE.into();
    report.findings[0].title = HOSTILE.into();
    report.findings[0].columns[0].0 = HOSTILE.into();
    report.findings[0].rows[0][0] = HOSTILE.into();
    let groups = report.highlights.iter_mut().chain(&mut report.figures);
    for chart in groups.flat_map(|group| &mut group.charts) {
        match chart {
            Chart::Lines(chart) => {
                chart.title = HOSTILE.into();
                chart.y_label = HOSTILE.into();
                chart.series[0].name = HOSTILE.into();
            }
            Chart::Bars(chart) => {
                chart.value_label = HOSTILE.into();
                chart.bars[0].name = HOSTILE.into();
            }
        }
    }
    report
}

#[test]
fn the_report_is_well_formed_and_makes_no_requests() {
    for report in [sample::report(), hostile_report(), Report::default()] {
        let page = html::render(&report);
        assert_well_formed(&page);
        let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
        for request in ["://", "src=", "url(", "@import", "<script", "<link", " style=", "<img"] {
            assert!(!without_namespace.contains(request), "{request}");
        }
        assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
        assert!(!page.contains('\u{202e}'));
    }
}

#[test]
fn the_terminal_text_has_no_control_characters() {
    let report = hostile_report();
    let shown =
        terminal::render_verdict(&report, 80) + &terminal::render_ranking(&report.rankings[0], 80);
    assert!(!shown.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'));
    assert!(shown.contains("<script>"), "harmless text stays");
}

#[test]
fn the_terminal_text_fits_its_width_apart_from_commands() {
    let report = sample::report();
    for width in [40, 80, 120] {
        let shown = terminal::render_verdict(&report, width);
        let long = shown.lines().filter(|line| text::width(line) > width);
        assert!(long.clone().all(|line| line.starts_with("  ")), "{:?}", long.collect::<Vec<_>>());
    }
}

#[test]
fn a_simulated_card_is_named_at_the_top_and_in_every_chart() {
    let mut report = sample::report();
    let page = html::render(&report);
    let top = page.find("Simulated card: all results").expect("a banner");
    assert!(top < page.find("Verdict:").expect("a verdict"));
    let figures = page.matches("<figure>").count();
    assert!(figures > 0);
    assert_eq!(page.matches("Simulated card.</figcaption>").count(), figures);
    assert_eq!(page.matches(">SIMULATED CARD</text>").count(), figures);
    assert!(terminal::render_verdict(&report, 80).starts_with("SIMULATED CARD"));
    report.simulated = false;
    let page = html::render(&report).to_lowercase().replace("simulated card `sample-sd16`", "");
    assert!(!page.contains("simulated card"));
}

#[test]
fn what_matters_comes_first_and_the_rest_is_folded() {
    let page = html::render(&sample::report());
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    let order = [
        at("<nav "),
        at("Verdict:"),
        at("id=\"commands\""),
        at("id=\"figures-1\""),
        at("Growth by workload</h3>"),
        at("id=\"rankings\""),
        at("Linear and random direct writing ("),
        at("id=\"facts\""),
    ];
    assert!(order.is_sorted(), "{order:?}");
    // Rankings and the charts of a workload are in a part that is unfolded.
    for folded in ["Linear reading from multiple files (grep)</h3>", "Random write throughput"] {
        let before = &page[..at(folded)];
        let (opened, closed) =
            (before.matches("<details").count(), before.matches("</details").count());
        assert!(opened > closed, "{folded} is not folded");
    }
}

#[test]
fn what_was_measured_once_has_no_interval() {
    let mut report = sample::report();
    for chart in report.highlights.iter_mut().flat_map(|group| &mut group.charts) {
        let Chart::Bars(chart) = chart else { continue };
        chart.bars.iter_mut().for_each(|bar| bar.n = 1);
    }
    report.figures.clear();
    for row in report.rankings.iter_mut().flat_map(|ranking| &mut ranking.rows) {
        row.trials = 1;
    }
    report.verdict.gain = None;
    let page = html::render(&report);
    assert!(page.contains("Each value was measured once"));
    assert!(!page.contains("Whiskers:") && !page.contains("– to –"));
    let cells: Vec<&str> = page.split("<td class=\"number\">").skip(1).collect();
    assert!(cells.iter().all(|cell| !cell.split('<').next().unwrap().contains(" to ")));
}

#[test]
fn an_unsupported_better_is_shown_as_cannot_tell() {
    let mut report = sample::report();
    report.verdict.gain.as_mut().unwrap().percent_low = -0.1;
    assert_eq!(report.verdict.outcome, RunOutcome::Better);
    let page = html::render(&report);
    assert!(page.contains("Verdict: Cannot tell") && !page.contains("Verdict: Better"));
    assert!(terminal::render_verdict(&report, 80).contains("\nCannot tell: "));
}

/// All line charts of the sample, with the points of each series replaced.
fn charts_with(points: &[ChartPoint]) -> Vec<Chart> {
    let charts = {
        let report = sample::report();
        report.highlights.into_iter().chain(report.figures)
    }
    .flat_map(|group| group.charts);
    let lines = charts.filter_map(|chart| match chart {
        Chart::Lines(chart) => Some(chart),
        Chart::Bars(_) => None,
    });
    lines
        .map(|chart: LineChart| {
            let series = chart.series.into_iter();
            let series = series.map(|series| ChartSeries { points: points.to_vec(), ..series });
            Chart::Lines(LineChart { series: series.collect(), ..chart })
        })
        .collect()
}

#[test]
fn charts_without_finite_points_say_no_data() {
    let nan = ChartPoint { x: 1.0, y: f64::NAN, low: f64::NAN, high: f64::INFINITY, n: 0 };
    let infinite = ChartPoint { x: f64::INFINITY, y: f64::NEG_INFINITY, low: 0.0, high: 0.0, n: 0 };
    for points in [vec![], vec![nan, infinite]] {
        for chart in charts_with(&points) {
            let drawn = Drawing::default().draw(&chart);
            assert_well_formed(&drawn);
            assert!(drawn.contains("no data"), "{drawn}");
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        }
    }
}

#[test]
fn charts_of_one_point_or_of_extremes_are_drawn() {
    let one = ChartPoint { x: 4096.0, y: 1e6, low: 1e6, high: 1e6, n: 1 };
    let extremes = [1e-300, 1e-9, 1.0, 1e18, 1e300].map(|y| ChartPoint {
        x: y,
        y,
        low: 0.0,
        high: y * 2.0,
        n: 1,
    });
    for points in [vec![one], extremes.to_vec(), vec![ChartPoint { y: 0.0, low: -5.0, ..one }, one]]
    {
        for chart in charts_with(&points) {
            let drawn = Drawing::default().draw(&chart);
            assert_well_formed(&drawn);
            assert!(!drawn.contains("no data"));
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        }
    }
}

#[test]
fn a_comparison_is_well_formed_whatever_it_contains() {
    let sample = sample::report();
    let page = ComparisonPage {
        title: HOSTILE.to_owned(),
        simulated: true,
        summary: vec![HOSTILE.to_owned()],
        findings: sample.findings,
        figures: sample.figures,
        note: HOSTILE.to_owned(),
    };
    for page in [ComparisonPage::default(), page] {
        let markup = html::render_comparison(&page);
        assert_well_formed(&markup);
        assert!(!markup.contains("<script"), "{markup}");
    }
}
