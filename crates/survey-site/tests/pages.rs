//! Pages as files: golden ones, hostile names, what must not be published, and many cards.
//!
//! After an intended change, `FLASHFIT_BLESS=1 cargo test -p flashfit-survey-site` updates the
//! golden files.

use std::collections::BTreeMap;
use std::path::Path;

use flashfit_survey_site::{SiteOptions, SurveySite, publish};

mod sample;

use sample::Sample;

fn site(sample: &Sample, options: SiteOptions) -> (SurveySite, BTreeMap<String, String>) {
    let folder = tempfile::tempdir().expect("it is there");
    let dir = folder.path().join("site");
    let written = publish(&sample.cards, &sample.results, options, &dir).expect("it is there");
    let pages = std::fs::read_dir(&dir).expect("it is there").map(|entry| {
        let path = entry.expect("it is there").path();
        let name = path.file_name().expect("it is there").to_str().expect("it is there").to_owned();
        (name, std::fs::read_to_string(&path).expect("it is there"))
    });
    let pages: BTreeMap<String, String> = pages.collect();
    assert_eq!(written.pages, pages.len() as u64);
    assert_eq!(written.bytes, pages.values().map(|page| page.len() as u64).sum::<u64>());
    (written, pages)
}

fn page<'a>(pages: &'a BTreeMap<String, String>, start: &str) -> &'a str {
    pages
        .iter()
        .find(|(name, _)| name.starts_with(start))
        .map(|(_, page)| page)
        .expect("it is there")
}

/// The page without style and script, which have tests of their own.
fn content(page: &str) -> &str {
    let start = page.find("<body>").expect("it is there");
    &page[start..page.find("<script>").expect("it is there")]
}

fn check(name: &str, rendered: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    flashfit_test_support::golden(folder.join(name), rendered);
}

#[test]
fn the_pages_match_their_golden_files() {
    let (written, pages) = site(&sample::small(), SiteOptions::default());
    assert_eq!((written.products, written.simulated_products, written.cards), (2, 1, 7));
    assert_eq!((written.marked_cards, pages.len()), (1, 4));
    check("index.html", content(&pages["index.html"]));
    check("product.html", content(page(&pages, "product-sl32g-")));
}

#[test]
fn pages_do_not_say_what_was_not_asked_for() {
    let secrets = ["SECRET-NAME", "SECRET-SERIAL", "SECRET-FIRMWARE", "secret-board"];
    let (_, pages) = site(&sample::small(), SiteOptions::default());
    for page in pages.values() {
        for secret in secrets {
            assert!(!page.contains(secret), "{secret}");
        }
        assert!(page.contains("Linux 6.12.8,") || !page.contains("easured with Linux"));
    }
    let (_, pages) = site(&sample::small(), SiteOptions { with_names: true });
    let named = page(&pages, "product-sl32g-");
    assert!(named.contains("SECRET-NAME") && named.contains("6.12.8-secret-board"));
    assert!(!named.contains("SECRET-SERIAL") && !named.contains("SECRET-FIRMWARE"));
}

#[test]
fn simulated_cards_are_apart() {
    let (_, pages) = site(&sample::small(), SiteOptions::default());
    let index = &pages["index.html"];
    let (real, simulated) = index.split_at(index.find("id=\"simulated\"").expect("it is there"));
    assert!(real.contains(">SL32G<") && !real.contains("sd-c4-block"));
    assert!(simulated.contains(">sd-c4-block<") && simulated.contains("Simulated: these results"));
    let own = page(&pages, "product-sd-c4-block-");
    assert!(own.contains("(simulated) - flashfit</title>") && own.contains("class=\"banner\""));
}

#[test]
fn names_of_devices_cannot_inject_anything() {
    let hostile = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "../../x",
        "",
        "Stick",
        "STICK",
        "</title></style><b>",
        "javascript:alert(1)",
        "\u{202e}gpj.exe",
        "a\u{0}b\u{1b}[31m",
        &"A".repeat(256),
        "&lt;b&gt;",
        "' onclick='x",
    ];
    let mut sample = Sample::default();
    for name in hostile {
        sample.measured_card("usb", name, Some(4 << 20), 1.0);
        let card = &mut sample.cards.last_mut().expect("a card").card;
        card.manufacturer = name.to_owned();
        card.revision = name.to_owned();
        sample.figure(name, (name, name), ("rate", "bytes/s"), 1e6);
    }
    let (written, pages) = site(&sample.flagged(), SiteOptions { with_names: true });
    assert_eq!((written.products, pages.len()), (hostile.len() as u64, hostile.len() + 1));
    for (name, page) in &pages {
        // The elements that the program writes, and no others.
        for tag in page.split('<').skip(1) {
            let tag: String =
                tag.chars().take_while(|letter| letter.is_ascii_alphanumeric()).collect();
            assert!(tag != "img" && tag != "b" && tag != "iframe", "{name}: <{tag}>");
        }
        assert_eq!(page.matches("<script>").count(), 1, "{name}");
        assert!(!page.contains("onclick='") && !page.contains("\"><img"), "{name}");
        assert!(!page.contains(['\u{202e}', '\u{0}', '\u{1b}']), "{name}");
        for link in page.split(" href=\"").skip(1) {
            let link = link.split('"').next().expect("it is there");
            let is_own = pages.contains_key(link) || link.starts_with('#');
            assert!(is_own, "{name}: {link}");
        }
    }
}

#[test]
fn a_site_of_nothing_is_a_page() {
    let (written, pages) = site(&Sample::default(), SiteOptions::default());
    assert_eq!((written.pages, written.cards), (1, 0));
    assert!(pages["index.html"].contains("0 cards of 0 products"));
}

#[test]
fn many_cards_give_short_pages() {
    let mut sample = Sample::default();
    for card in 0..1000_u32 {
        let product = format!("P{}", card % 200);
        let factor = 1.0 + f64::from(card % 37) / 100.0;
        sample.measured_card("sd-card", &product, Some(4 << 20), factor);
    }
    let (written, pages) = site(&sample, SiteOptions::default());
    assert_eq!((written.products, written.pages), (200, 201));
    assert!(pages["index.html"].len() < 500_000, "{}", pages["index.html"].len());
    assert!(pages.values().all(|page| page.len() < 500_000));
    // One chart has a few rows; the table has all.
    assert_eq!(pages["index.html"].matches("<th data-order").count(), 0);
    assert!(pages["index.html"].contains("The first 12 of 200; the table has all."));
}

#[test]
fn what_others_measured_is_marked() {
    let mut sample = sample::small();
    let (written, pages) = site(&sample, SiteOptions::default());
    assert_eq!(written.bundled_cards, 0);
    assert!(!content(&pages["index.html"]).contains("came with bundles"));
    sample.measured_card("sd-card", "FAST", Some(4 << 20), 20.0);
    let first = &mut sample.cards[0].card.sources[0];
    first.bundle = "a".repeat(64);
    let last = sample.cards.last_mut().expect("a card");
    last.card.sources[0].bundle = "a".repeat(64);
    let key = last.short_key().to_owned();
    let (written, pages) = site(&sample, SiteOptions::default());
    assert_eq!(written.bundled_cards, 2);
    let index = content(&pages["index.html"]);
    for text in [
        "2 cards have a +: others measured them, and their figures are claims.",
        "+ measured by others: 2 of 7 cards came with bundles.",
        ">FAST +<",
        ">FAST, 32 GB +<",
        ">SL32G +<",
        ">EB1QT<",
    ] {
        assert!(index.contains(text), "{text}: {index}");
    }
    let own = content(page(&pages, "product-fast-"));
    assert!(own.contains("<h1>FAST, 32 GB +</h1>") && own.contains(&format!("{key} +<")), "{own}");
    assert!(own.contains("1 of 1 card came with bundles"), "{own}");
    let mixed = content(page(&pages, "product-sl32g-"));
    assert!(mixed.contains("1 of 5 cards came with bundles") && mixed.contains(" +<"), "{mixed}");
}

#[test]
fn wear_and_power_cuts_are_shown_with_their_units() {
    let mut sample = sample::small();
    for (kind, product) in [("sd-card", "SL32G"), ("sd-card", "EB1QT")] {
        sample.card(kind, product, None);
        let card = sample.cards.last_mut().expect("a card");
        card.life_used = Some(30.0);
        card.card.sources[0].kind = "wear-reading".into();
        sample.figure("", ("", ""), ("life-used", "percent"), 30.0);
        sample.figure("", ("", ""), ("power-on-hours", "hours"), 20.0);
        sample.figure("ext4", ("", ""), ("broken-promises", "ratio"), 0.25);
    }
    let (_, pages) = site(&sample, SiteOptions::default());
    let index = &pages["index.html"];
    assert!(index.contains("Life used") && index.contains("2 readings of wear"), "{index}");
    assert!(index.contains("Power cuts that broke a promise of the setup"), "{index}");
    let own = page(&pages, "product-sl32g-");
    for text in ["id=\"wear\"", "20 hours", "30.0 %", "id=\"power-loss\"", "24.5 to 25.5 %"] {
        assert!(own.contains(text), "{text}");
    }
}
