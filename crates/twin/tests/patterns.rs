//! A twin that is fitted to patterns takes as long for them as its card, and has its size, sectors,
//! cache and discards. The patterns of the catalog are complete.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flashfit_card::model::{Collection, Replacement};
use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_catalog::Origin;
use flashfit_device::{BlockDev, Bytes, VirtualClock};
use flashfit_geometry::flashbench::{AccessOrder, OpenBlockProcedure, OpenBlockTable, TableCell};
use flashfit_geometry::probed::NoObserver;
use flashfit_twin::counts::{FitBus, count_parts, precondition};
use flashfit_twin::fit_target::{FitTarget, MeasuredPatterns};
use flashfit_twin::pattern::file::PatternSet;
use flashfit_twin::pattern::{MeasuredPattern, Pattern, PatternPlayer, PatternRequest};
use flashfit_twin::structure::{CardStructure, OrderedLayerKind};
use flashfit_twin::{DeviceHints, Twin, fit};
use flashfit_user_error::UserError;

const CARD: &str = r#"
name = "middle"
title = "A card"
source = "made up"
capacity = "128MiB"
sector_bytes = 4096
[nand]
page = "16KiB"
erase_unit = "512KiB"
read_ns = 80_000
program_ns = 1_200_000
erase_ns = 4_000_000
copy_ns = 100_000
endurance_cycles = 1000
spare_units = 16
[bus]
command_ns = 250_000
bytes_per_second = 25_000_000
[layer]
"#;

/// A few of the patterns of the catalog, smaller: a fit takes seconds.
const SMALL_SET: &str = r#"
span = "64MiB"
[[pattern]]
name = "read"
what = "reading"
reads = true
bytes = "256KiB"
count = 16
order = "random"
within = "64MiB"
parts = 1
[[pattern]]
name = "in-order"
what = "writing in order, synced"
bytes = "4KiB"
count = 128
order = "linear"
streams = 2
within = "32MiB"
sync = true
parts = 2
[[pattern]]
name = "far"
what = "writing at random, synced"
bytes = "4KiB"
count = 128
order = "random"
within = "32MiB"
sync = true
parts = 2
[[pattern]]
name = "mixed"
what = "writing small and large, synced"
bytes = "4KiB"
count = 64
order = "random"
within = "32MiB"
large = "128KiB"
sync = true
parts = 2
[[pattern]]
name = "random"
what = "writing at random"
bytes = "32KiB"
count = 128
order = "random"
within = "64MiB"
parts = 2
"#;

/// Measures a card with these last sections, in the middle of its region, and fits a twin.
fn twin(sections: &str) -> Twin {
    twin_of(&format!("{CARD}{sections}"), None)
}

/// The same of a whole card that was full, with the write unit that a probe found, in bytes.
fn twin_of(card: &str, write_unit: Option<u64>) -> Twin {
    let origin = Origin::File("middle.toml".into());
    let model = CardModel::parse(card, &origin).unwrap();
    twin_of_device(&model, precondition(&model).unwrap(), write_unit)
}

fn twin_of_device(
    model: &CardModel,
    mut device: InProcessCard<VirtualClock>,
    write_unit: Option<u64>,
) -> Twin {
    let clock = device.clock().clone();
    let erase_block = model.nand.erase_block;
    let least_write = Bytes::kib(16);
    let procedure = OpenBlockProcedure { erase_block, least_write, most_units: 3, seed: 9 };
    let table = procedure.run(&mut device, &clock).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("patterns")).unwrap();
    std::fs::write(dir.path().join("patterns/twin.toml"), SMALL_SET).unwrap();
    let set = PatternSet::load(Some(dir.path())).unwrap();
    let mut player = PatternPlayer::new(32 << 20, 5);
    player.fill(&mut device, 0, set.span.0).unwrap();
    let mut measured = Vec::new();
    for pattern in set.patterns {
        let parts = pattern.parts.iter();
        let parts_ns =
            parts.map(|part| player.time_ns(&mut device, &clock, part).unwrap()).collect();
        measured.push(MeasuredPattern { pattern, parts_ns });
    }
    let patterns = MeasuredPatterns { filled: set.span, measured };
    let device = Some(device.describe());
    let hints = DeviceHints { device, write_unit_bytes: write_unit, ..DeviceHints::default() };
    fit(&[table], Some(patterns), hints, ("twin", "a card"), &mut NoObserver).unwrap()
}

#[test]
fn a_twin_takes_as_long_as_its_card_for_most_patterns() {
    for sections in [
        "kind = \"log-block\"\nopen_units = 2\nlog_units = 2\nlog_request = \"16KiB\"\n[discard]\ngranularity = \"64KiB\"",
        "kind = \"page-mapped\"\nmap_unit = \"4KiB\"\n[cache]\nbytes = \"256KiB\"\nflush_ns = 700_000",
    ] {
        let twin = twin(sections);
        let good = twin.patterns.iter().filter(|pattern| pattern.is_good() == Some(true)).count();
        assert!(good * 10 >= twin.patterns.len() * 8, "{sections}: {:?}", twin.patterns);
        assert!(twin.structure.was_full, "{sections}: {:?}", twin.structure);
        let wants_cache = sections.contains("[cache]");
        assert_eq!(twin.model.declares_cache(), wants_cache);
        assert_eq!(twin.model.discard.is_some(), !wants_cache);
        assert_eq!((twin.model.capacity, twin.model.sector_bytes), (Bytes(128 << 20), 4096));
        let text = twin.to_toml().unwrap();
        assert!(text.contains("patterns of file systems: median ratio 1."), "{text}");
    }
}

/// With another write unit, a scratch block explains nothing, and without a scratch block, this
/// write unit explains less than others.
#[test]
fn a_scratch_block_is_found_together_with_the_write_unit() {
    let card = CARD
        .replace("page = \"16KiB\"", "page = \"48KiB\"")
        .replace("\"512KiB\"", "\"1536KiB\"")
        .replace("\"128MiB\"", "\"192MiB\"");
    let layer = "kind = \"block-mapped\"\nopen_units = 6\nopen_units_random = 3\nrandom_pages = 11\nscratch = true";
    let twin = twin_of(&format!("{card}{layer}"), Some(48 << 10));
    assert!(twin.structure.scratch, "{:?}", twin.structure);
    assert_eq!(twin.structure.page_bytes, 48 << 10);
    assert!(twin.patterns.iter().all(|of| of.is_good() == Some(true)), "{:?}", twin.patterns);
}

/// When its log is full depends on all small writes before, so that the true structure explained
/// little as long as the log was taken for empty, and wrong ones explained more.
#[test]
fn a_log_is_found_however_full_it_was() {
    let layer = "kind = \"log-block\"\nopen_units = 3\nlog_units = 1\nlog_request = \"16KiB\"";
    let model = CardModel::parse(&format!("{CARD}{layer}"), &Origin::File("middle.toml".into()));
    let model = model.unwrap();
    let mut device = precondition(&model).unwrap();
    for at in 0..21 {
        device.write((64 << 20) + at % 2 * (5 << 20), &[1; 4096]).unwrap();
    }
    let twin = twin_of_device(&model, device, Some(16 << 10));
    let found = &twin.structure;
    assert_eq!((found.kind, found.log_blocks), (OrderedLayerKind::LogBlock, 1), "{found:?}");
    assert!(twin.patterns.iter().all(|of| of.is_good() == Some(true)), "{:?}", twin.patterns);
}

/// The search tries as many states as the newest erase block has.
#[test]
fn of_what_a_log_had_taken_only_its_newest_erase_block_matters() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("patterns")).unwrap();
    std::fs::write(dir.path().join("patterns/twin.toml"), SMALL_SET).unwrap();
    let set = PatternSet::load(Some(dir.path())).unwrap();
    let all = |pattern: Pattern| {
        let parts_ns = vec![1; pattern.parts.len()];
        MeasuredPattern { pattern, parts_ns }
    };
    let measured = set.patterns.into_iter().map(all).collect();
    let cell = |size: u32| TableCell {
        units: 1 + size % 3,
        access: AccessOrder::Linear,
        write: Bytes((512 << 10) >> (size / 3)),
        bytes_per_second: 1 << 20,
    };
    let table = OpenBlockTable { cells: (0..18).map(cell).collect() };
    let patterns = MeasuredPatterns { filled: set.span, measured };
    let target = FitTarget::from_tables(&[table]).unwrap().with_patterns(Some(patterns), None);
    for kind in [OrderedLayerKind::LogBlock, OrderedLayerKind::UpdateLog] {
        let counted = |logged_pages: u32| {
            let structure = CardStructure {
                kind,
                page_bytes: 16 << 10,
                dies: 1,
                open_erase_blocks: 3,
                open_erase_blocks_random: 3,
                replacement: Replacement::LeastRecent,
                random_pages: 0,
                scratch: false,
                buffer: false,
                log_blocks: 3,
                log_request_bytes: 16 << 10,
                chunk_bytes: 128 << 10,
                spare_blocks: 0,
                collection: Collection::Greedy,
                cache_bytes: 0,
                was_full: true,
                zone_blocks: 0,
                logged_pages,
            };
            let bus = FitBus { bytes_per_second: 1 << 40, limits: false };
            let parts = count_parts(&target, &structure.normalized()).unwrap();
            // Programs and copies; one erase more or less is nothing.
            parts.iter().map(|part| part.on(bus, 1).counts[1..4].to_vec()).collect::<Vec<_>>()
        };
        let pages = 512 / 16;
        assert_eq!(counted(7), counted(7 + pages), "{kind:?}");
        assert_eq!(counted(7), counted(7 + 2 * pages), "{kind:?}");
        assert_ne!(counted(7), counted(7 + pages / 2), "{kind:?}");
    }
}

/// A merge on a new card copies only what was written since.
#[test]
fn a_new_card_is_told_from_a_full_one() {
    let layer = "kind = \"update-log\"\nopen_units = 3\nlog_units = 2\nlog_request = \"16KiB\"\nchunk = \"128KiB\"";
    let card = format!("{CARD}{layer}");
    let model = CardModel::parse(&card, &Origin::File("middle.toml".into())).unwrap();
    let device = InProcessCard::new(Card::new(&model), VirtualClock::default());
    let twin = twin_of_device(&model, device, None);
    assert!(!twin.structure.was_full, "{:?}", twin.structure);
    assert_eq!(twin.structure.kind, OrderedLayerKind::UpdateLog);
    let good = twin.patterns.iter().filter(|of| of.is_good() == Some(true)).count();
    assert!(good * 10 >= twin.patterns.len() * 8, "{:?}", twin.patterns);
}

#[test]
fn all_patterns_of_the_catalog_fit_into_its_span() {
    let set = PatternSet::load(None).unwrap();
    assert!(set.patterns.len() >= 19, "{}", set.patterns.len());
    for pattern in &set.patterns {
        let requests: Vec<&PatternRequest> = pattern.parts.iter().flatten().collect();
        let ends = requests.iter().map(|request| match request {
            PatternRequest::Read { offset, length } | PatternRequest::Write { offset, length } => {
                offset + length
            }
            PatternRequest::Flush => 0,
        });
        assert!(ends.max().unwrap() <= set.span.0, "{}", pattern.name);
        let starts_with_flush =
            |part: &Vec<PatternRequest>| part.first() == Some(&PatternRequest::Flush);
        let inner = &pattern.parts[1..];
        assert!(!inner.iter().any(starts_with_flush), "{}", pattern.name);
        assert!(!pattern.parts.iter().any(Vec::is_empty), "{}", pattern.name);
    }
}

#[test]
fn a_user_catalog_with_a_mistake_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("patterns")).unwrap();
    let file = dir.path().join("patterns/twin.toml");
    for (text, reason) in [
        (
            "span = \"1MiB\"\n[[trace]]\nname = \"ext4-logs\"\nmost = \"1MiB\"\nparts = 1",
            "needs 512 MiB",
        ),
        (
            "span = \"1MiB\"\n[[trace]]\nname = \"ext5-logs\"\nmost = \"1MiB\"\nparts = 1",
            "unknown trace",
        ),
        (
            "span = \"1MiB\"\n[[pattern]]\nname = \"a\"\nwhat = \"b\"\nbytes = \"4KiB\"\ncount = 1\norder = \"random\"\nwithin = \"2MiB\"\nparts = 1",
            "does not fit",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let error = PatternSet::load(Some(dir.path())).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("twin.toml"), "{error}");
    }
}

#[test]
fn mistakes_of_a_users_patterns_have_lines_and_hints() {
    let user = tempfile::tempdir().unwrap();
    std::fs::create_dir(user.path().join("patterns")).unwrap();
    let built_in = flashfit_catalog::entries("patterns", "toml", None).unwrap();
    let line = |text: &str, start: &str| {
        text.lines().position(|line| line.starts_with(start)).unwrap() + 1
    };
    for (from, to, at, reason) in [
        ("\ncount = ", "\ncount = 4294967295 # ", "name", "has 4294967295 requests"),
        ("\nbytes = ", "\nbytes = 0 # ", "name", "does not fit into"),
        ("\nbytes = ", "\nbyte = ", "byte ", "unknown field `byte`"),
        ("\nmost = ", "\nmost = \"x\" # ", "most", "x"),
        ("name = \"ext4-", "name = \"ext5-", "name = \"ext5-", "unknown trace `ext5-"),
    ] {
        let text = built_in[0].text.replacen(from, to, 1);
        assert_ne!(text, built_in[0].text, "{from}");
        std::fs::write(user.path().join("patterns/twin.toml"), &text).unwrap();
        let error = PatternSet::load(Some(user.path())).unwrap_err();
        let place = format!("patterns/twin.toml:{}: ", line(&text, at));
        let told = error.to_string();
        assert!(told.contains(&place) && told.contains(reason), "{place} {reason}: {told}");
        assert!(error.hint().is_some(), "{told}");
    }
}
