//! Compares the rendered sample report with the files in `tests/golden`.
//!
//! After an intended change, `FLASHFIT_BLESS=1 cargo test -p flashfit-report` updates them.

use std::path::Path;

use flashfit_report::svg::{Drawing, LineStyles};
use flashfit_report::{Chart, Report, html, terminal};

mod sample;

fn check(name: &str, rendered: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    flashfit_test_support::golden(folder.join(name), rendered);
}

/// The sample without its largest figures.
fn small_report() -> Report {
    let mut report = sample::report();
    for group in report.highlights.iter_mut().chain(&mut report.figures) {
        group.charts.retain(|chart| match chart {
            Chart::Lines(chart) => chart.series.len() <= 5,
            Chart::Bars(chart) => chart.bars.len() <= 9,
        });
    }
    report
}

#[test]
fn the_html_report_matches_its_golden_file() {
    check("report.html", &html::render(&small_report()));
}

#[test]
fn the_charts_match_their_golden_files() {
    let report = small_report();
    let groups = [&report.highlights[..], &report.figures].concat();
    let drawing = Drawing { styles: LineStyles::of(&groups), simulated: report.simulated };
    let charts: Vec<&Chart> = groups.iter().flat_map(|group| &group.charts).collect();
    assert_eq!(charts.len(), 2);
    check("bars.svg", &drawing.draw(charts[0]));
    check("lines.svg", &drawing.draw(charts[1]));
}

#[test]
fn the_terminal_text_matches_its_golden_file() {
    let report = sample::report();
    let text = format!(
        "{}\n{}",
        terminal::render_verdict(&report, 80),
        terminal::render_ranking(&report.rankings[0], 80)
    );
    check("terminal.txt", &text);
}
