//! The report of the longest recorded grid is short: what is not folded is counted, and where a
//! browser is installed, the page is measured.
//!
//! Limits: without a browser, only the parts are counted.

use std::path::Path;
use std::time::Duration;

use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{program, skip_part};

use crate::fixture::Place;

/// The largest of `examples/grids`, one of its runs: 108 setups, 11 workloads, 1188 trials.
const GRID: &str = "usd-a2-cq";
const BROWSER: &str = "chromium";
/// At a width of 1200 pixels.
const MOST_PIXELS: u32 = 5000;

/// The page without what is folded.
fn unfolded(page: &str) -> String {
    let (mut depth, mut shown) = (0_u32, String::new());
    for (index, part) in page.split('<').enumerate() {
        if part.starts_with("/details") {
            depth -= 1;
        } else if part.starts_with("details") {
            depth += 1;
        } else if depth == 0 {
            shown.push_str(if index == 0 { "" } else { "<" });
            shown.push_str(part);
        }
    }
    assert_eq!(depth, 0, "every fold ends");
    shown
}

#[test]
fn the_longest_recorded_grid_fits_on_a_short_page() {
    let place = Place::new();
    let grids = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grids");
    let tar = Program::new("tar").arg("-xzf").arg(grids.join(format!("{GRID}.tar.gz")));
    SystemRunner::default().run_checked(&tar.arg("-C").arg(place.folder())).unwrap();
    std::fs::create_dir(place.path("none")).unwrap();
    let run = format!("{GRID}-1");
    place.flashfit(&["report", &run, "-o", "page.html", "--catalog", "none"]).said(0, &[]);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    let shown = unfolded(&page);
    let count = |tag: &str| shown.matches(&format!("<{tag}")).count();
    assert!(page.matches("<svg").count() > 50, "all charts are there, folded");
    assert!(count("svg") <= 3, "{} charts are shown", count("svg"));
    assert!(count("table") <= 2, "{} tables are shown", count("table"));
    assert!(count("tr>") + count("tr ") <= 24, "{} rows are shown", count("tr"));
    assert!(count("pre") <= 8, "{} commands are shown", count("pre"));
    if skip_part(program(BROWSER)) {
        return;
    }
    let height = height(&place, 1200);
    assert!(height <= MOST_PIXELS, "{height} pixels at a width of 1200");
    assert!(self::height(&place, 400) < 2 * MOST_PIXELS, "it can be read on a telephone");
}

/// The height of the page in a browser, in a frame of this width.
fn height(place: &Place, width: u32) -> u32 {
    let page = place.path("page.html");
    let frame = format!(
        "<!doctype html><meta charset=utf-8><iframe id=page src=\"file://{}\" \
         style=\"width:{width}px;height:900px\"></iframe><script>page.onload = () => \
         document.body.append('height=' + \
         page.contentDocument.documentElement.scrollHeight + ';')</script>",
        page.display()
    );
    let frame = place.file("frame.html", &frame);
    let profile = format!("--user-data-dir={}", place.arg("profile"));
    let browser = Program::new(BROWSER)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"])
        .args([&profile, "--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("file://{}", frame.display()))
        .timeout(Duration::from_secs(120));
    let text = SystemRunner::default().run_checked(&browser).unwrap().stdout;
    let found = text.split("height=").last().and_then(|rest| rest.split(';').next());
    found.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no height: {text}"))
}
