//! Validates card models: limits of sizes, counts and times.
//!
//! A model that passes can be simulated without arithmetic overflow and without running out of free
//! erase blocks; the layers rely on that.

use flashfit_device::Bytes;

use super::{CardModel, LayerKind, PslcModel, Replacement};

/// Bounds the memory of the simulator's tables (about 8 bytes per page).
const MAX_PAGES: u64 = 1 << 30;
const MAX_PARALLEL: u32 = 64;
/// Noise beyond a factor of 100 is modeled as a stall.
const MAX_JITTER: u32 = 100_000;
/// The maximum of SATA NCQ, eMMC 5.1 and SD application class A2.
const MAX_DEPTH: u32 = 32;
/// One minute; larger values are probably in a wrong unit.
const MAX_TIME_NS: u64 = 60_000_000_000;
const MIN_BYTES_PER_SECOND: u64 = 1000;
const MAX_BYTES_PER_SECOND: u64 = 1_000_000_000_000;
/// The maximum that the kernel's discard granularity can express.
const MAX_GRANULARITY: u64 = 1 << 31;
/// A page-mapped layer collects into one free block while another one is being reclaimed.
const MIN_SPARE_PAGE_MAPPED: u32 = 2;
/// A log for small writes is collected into one block.
const LOG_SPARE_UNITS: u32 = 1;
/// Chunks are consolidated into one block while another one is free, and a closed block must have
/// more slots than there is data for.
const UPDATE_LOG_SPARE_UNITS: u32 = 2;
const RANDOM: &str = "layer.open_units_random";
const RANDOM_PAGES: &str = "layer.random_pages";

/// A key with the reason why its value is invalid.
#[derive(Debug)]
pub struct InvalidKey {
    pub key: &'static str,
    pub reason: String,
}

type Checked = Result<(), InvalidKey>;

fn require(holds: bool, key: &'static str, reason: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(InvalidKey { key, reason: reason() }) }
}

/// All that is wrong. What depends on sizes is checked only if these are right.
pub fn check(model: &CardModel) -> Vec<InvalidKey> {
    let mut found: Vec<InvalidKey> =
        [names(model), sizes(model)].into_iter().filter_map(Checked::err).collect();
    found.extend(times(model));
    found.extend(
        [bus(model), queue(model), noise(model), fake(model)].into_iter().filter_map(Checked::err),
    );
    if sizes(model).is_ok() {
        let counts = counts(model);
        let is_countable = counts.is_ok();
        found.extend(counts.err());
        found.extend([cache(model), discard(model)].into_iter().filter_map(Checked::err));
        if is_countable {
            found.extend(layer(model).err());
        }
    }
    found
}

fn names(model: &CardModel) -> Checked {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    require(!model.name.is_empty() && model.name.chars().all(plain), "name", || {
        "a name consists of letters, digits, `-`, `_` and `.`".to_owned()
    })
}

fn sizes(model: &CardModel) -> Checked {
    let sector = u64::from(model.sector_bytes);
    require(sector == 512 || sector == 4096, "sector_bytes", || {
        format!("a sector is 512 or 4096 bytes, not {sector}")
    })?;
    multiple("nand.page", model.nand.page.0, sector, "sectors")?;
    require((1..=MAX_PARALLEL).contains(&model.nand.planes), "nand.planes", || {
        format!("must lie between 1 and {MAX_PARALLEL}")
    })?;
    require((1..=MAX_PARALLEL).contains(&model.nand.dies), "nand.dies", || {
        format!("must lie between 1 and {MAX_PARALLEL}")
    })?;
    let write_unit = model.nand.page.0.checked_mul(u64::from(model.nand.planes));
    let stripe = write_unit.and_then(|bytes| bytes.checked_mul(u64::from(model.nand.dies)));
    let (Some(write_unit), Some(stripe)) = (write_unit, stripe) else {
        return Err(InvalidKey { key: "nand.page", reason: "is too large".to_owned() });
    };
    map_unit(model, write_unit)?;
    if let Some(wear_out) = &model.nand.wear_out {
        let key = "nand.wear_out.spread_thousandths";
        require(wear_out.spread_thousandths <= 500, key, || "is more than 500".to_owned())?;
        let key = "nand.wear_out.early_thousandths";
        require(wear_out.early_thousandths <= 1000, key, || "is more than 1000".to_owned())?;
    }
    multiple("nand.erase_unit", model.nand.erase_block.0, stripe, "write units across all dies")?;
    multiple("capacity", model.capacity.0, model.nand.erase_block.0, "erase blocks")
}

fn map_unit(model: &CardModel, write_unit: u64) -> Checked {
    let Some(map_unit) = model.layer.map_unit else { return Ok(()) };
    multiple("layer.map_unit", map_unit.0, u64::from(model.sector_bytes), "sectors")?;
    require(write_unit % map_unit.0 == 0, "layer.map_unit", || {
        format!("{map_unit} does not divide the write unit of {write_unit} bytes")
    })
}

fn multiple(key: &'static str, value: u64, of: u64, what: &str) -> Checked {
    require(value > 0, key, || "is zero".to_owned())?;
    require(value % of == 0, key, || {
        format!("{value} bytes are not a whole number of {what} of {of} bytes")
    })
}

fn counts(model: &CardModel) -> Checked {
    let nand = &model.nand;
    require(nand.spare_units > 0, "nand.spare_units", || {
        "a card needs spare erase blocks to write to".to_owned()
    })?;
    let pslc = nand.pslc.as_ref().map_or(0, |pslc| u64::from(pslc.units));
    // In the order in which they are added up, so that the one that is too much is named.
    let mut total = Some(0);
    for (key, blocks) in [
        ("capacity", model.capacity.0 / nand.erase_block.0),
        ("nand.spare_units", u64::from(nand.spare_units)),
        ("nand.factory_bad_units", u64::from(nand.factory_bad_units)),
        ("nand.pslc.units", pslc),
    ] {
        let bytes = blocks.checked_mul(nand.erase_block.0);
        total = total.zip(bytes).and_then(|(sum, bytes): (u64, u64)| sum.checked_add(bytes));
        let is_little = total.is_some_and(|sum| sum / model.map_unit_bytes() <= MAX_PAGES);
        require(is_little, key, || {
            format!("makes more pages than the {MAX_PAGES} that can be simulated")
        })?;
    }
    require(nand.endurance_cycles > 0, "nand.endurance_cycles", || "is zero".to_owned())
}

fn times(model: &CardModel) -> impl Iterator<Item = InvalidKey> {
    let pslc = |time: fn(&PslcModel) -> u64| model.nand.pslc.as_ref().map_or(0, time);
    let times = [
        ("nand.read_ns", model.nand.read_ns),
        ("nand.program_ns", model.nand.program_ns),
        ("nand.erase_ns", model.nand.erase_ns),
        ("nand.copy_ns", model.nand.copy_ns),
        ("layer.log_ns", model.layer.log_ns.unwrap_or(0)),
        ("layer.close_ns", model.layer.close_ns),
        ("layer.lookup_ns", model.layer.lookup_ns),
        ("layer.jump_ns", model.layer.jump_ns),
        ("layer.switch_ns", model.layer.switch_ns),
        ("bus.command_ns", model.bus.command_ns),
        ("nand.pslc.read_ns", pslc(|pslc| pslc.read_ns)),
        ("nand.pslc.program_ns", pslc(|pslc| pslc.program_ns)),
        ("nand.pslc.erase_ns", pslc(|pslc| pslc.erase_ns)),
        ("cache.flush_ns", model.cache.as_ref().map_or(0, |cache| cache.flush_ns)),
        ("background.after_ns", model.background.as_ref().map_or(0, |idle| idle.after_ns)),
    ];
    times.into_iter().filter_map(|(key, time_ns)| {
        let reason = || format!("{time_ns} ns are more than a minute");
        require(time_ns <= MAX_TIME_NS, key, reason).err()
    })
}

fn bus(model: &CardModel) -> Checked {
    let rates = MIN_BYTES_PER_SECOND..=MAX_BYTES_PER_SECOND;
    require(rates.contains(&model.bus.bytes_per_second), "bus.bytes_per_second", || {
        format!("must lie between {MIN_BYTES_PER_SECOND} and {MAX_BYTES_PER_SECOND}")
    })
}

fn layer(model: &CardModel) -> Checked {
    let (layer, kind) = (&model.layer, model.layer.kind);
    let mapped_by_page = kind == LayerKind::PageMapped;
    let has_log = matches!(kind, LayerKind::LogBlock | LayerKind::UpdateLog);
    belongs(layer.open_erase_blocks.is_some(), !mapped_by_page, "layer.open_units")?;
    belongs(layer.log_units.is_some(), has_log, "layer.log_units")?;
    belongs(layer.log_request.is_some(), has_log, "layer.log_request")?;
    let has_chunks = kind == LayerKind::UpdateLog;
    for (given, wanted, key) in [
        (layer.log_ns.is_some(), has_log, "layer.log_ns"),
        (layer.chunk.is_some(), has_chunks, "layer.chunk"),
        (layer.scratch, !mapped_by_page && !has_chunks, "layer.scratch"),
        (layer.replacement != Replacement::default(), !mapped_by_page, "layer.replacement"),
        (layer.close_ns > 0, !mapped_by_page, "layer.close_ns"),
        (layer.open_erase_blocks_random.is_some(), !mapped_by_page && !has_chunks, RANDOM),
        (layer.random_pages.is_some(), !mapped_by_page && !has_chunks, RANDOM_PAGES),
    ] {
        require(wanted || !given, key, || "does not apply to this kind of layer".to_owned())?;
    }
    chunk(model)?;
    for (given, key) in [
        (layer.map_unit.is_some(), "layer.map_unit"),
        (layer.map_cache.is_some(), "layer.map_cache"),
        (layer.collection.is_some(), "layer.collection"),
        (layer.wear_spread.is_some(), "layer.wear_spread"),
    ] {
        require(mapped_by_page || !given, key, || "applies only to page-mapped layers".to_owned())?;
    }
    require(mapped_by_page || model.nand.pslc.is_none(), "nand.pslc", || {
        "only a page-mapped layer can use a pSLC area".to_owned()
    })?;
    pslc_units(model)?;
    open_erase_blocks(model)?;
    spare_units(model)
}

fn pslc_units(model: &CardModel) -> Checked {
    let Some(pslc) = &model.nand.pslc else { return Ok(()) };
    require(pslc.units > 0, "nand.pslc.units", || "is zero".to_owned())?;
    require(pslc.endurance_cycles > 0, "nand.pslc.endurance_cycles", || "is zero".to_owned())?;
    let write_units = model.erase_block_bytes() / model.write_unit_bytes();
    let bits = model.nand.cell.bits();
    require(write_units >= u64::from(bits), "nand.erase_unit", || {
        format!("with one bit per cell instead of {bits}, it is smaller than a write unit")
    })
}

/// Requires a key for this kind of layer, or rejects it.
fn belongs(given: bool, wanted: bool, key: &'static str) -> Checked {
    require(given || !wanted, key, || "is required for this kind of layer".to_owned())?;
    require(wanted || !given, key, || "does not apply to this kind of layer".to_owned())
}

fn chunk(model: &CardModel) -> Checked {
    if model.layer.kind != LayerKind::UpdateLog {
        return Ok(());
    }
    let (chunk, erase_block) = (model.chunk_bytes(), model.erase_block_bytes());
    let stripe = model.write_unit_bytes() * u64::from(model.nand.dies);
    multiple("layer.chunk", chunk, stripe, "write units across all dies")?;
    require(erase_block % chunk == 0, "layer.chunk", || {
        format!("{chunk} bytes do not divide the erase block of {erase_block} bytes")
    })
}

fn open_erase_blocks(model: &CardModel) -> Checked {
    let Some(open) = model.layer.open_erase_blocks else { return Ok(()) };
    require(open > 0, "layer.open_units", || "is zero".to_owned())?;
    require(model.layer.random_pages != Some(0), RANDOM_PAGES, || "is zero".to_owned())?;
    // A new scratch block begins with the partial pages of the other open erase blocks.
    require(!model.layer.scratch || open <= model.pages_per_block(), "layer.scratch", || {
        format!("{open} open erase blocks need as many pages in an erase block")
    })?;
    let random = model.layer.open_erase_blocks_random;
    require(random.is_none_or(|random| random <= open), RANDOM, || {
        format!("exceeds the {open} open erase blocks")
    })
}

fn spare_units(model: &CardModel) -> Checked {
    let (layer, spare) = (&model.layer, u64::from(model.nand.spare_units));
    let zone = model.zone.as_ref();
    if let Some(zone) = zone {
        require(zone.units > 0 && zone.units < model.capacity_blocks(), "zone.units", || {
            "must be at least 1 and smaller than the card".to_owned()
        })?;
        require(zone.spare_units >= MIN_SPARE_PAGE_MAPPED, "zone.spare_units", || {
            format!("a page-mapped zone needs at least {MIN_SPARE_PAGE_MAPPED}")
        })?;
        require(zone.extra_read_ns <= MAX_TIME_NS, "zone.extra_read_ns", || {
            "is more than a minute".to_owned()
        })?;
    }
    require(layer.log_units != Some(0), "layer.log_units", || "is zero".to_owned())?;
    let needed = needed_spare_units(model);
    require(needed <= spare, "nand.spare_units", || {
        format!("this card needs at least {needed} spare erase blocks")
    })
}

/// Spare erase blocks without which the translation layer cannot work.
pub fn needed_spare_units(model: &CardModel) -> u64 {
    let layer = &model.layer;
    let zone = model.zone.as_ref().map_or(0, |zone| u64::from(zone.spare_units));
    let log = layer.log_units.map_or(0, |log| u64::from(log) + u64::from(LOG_SPARE_UNITS));
    let own = match layer.kind {
        LayerKind::UpdateLog => UPDATE_LOG_SPARE_UNITS,
        _ => 1 + u32::from(layer.scratch),
    };
    zone + match layer.open_erase_blocks {
        Some(open) => u64::from(open) + u64::from(own) + log,
        None => {
            let failing = u64::from(model.nand.wear_out.is_some());
            u64::from(MIN_SPARE_PAGE_MAPPED) + failing + u64::from(model.map_units())
        }
    }
}

fn cache(model: &CardModel) -> Checked {
    let sector = u64::from(model.sector_bytes);
    if let Some(cache) = &model.cache {
        multiple("cache.bytes", cache.bytes.0, sector, "sectors")?;
        require(cache.bytes <= model.capacity, "cache.bytes", || {
            "the cache is larger than the card".to_owned()
        })?;
        let unit = Bytes(model.map_unit_bytes());
        require(!cache.undeclared || cache.bytes == unit, "cache.bytes", || {
            format!("an undeclared buffer must be one mapped unit of {unit}")
        })?;
    }
    Ok(())
}

fn discard(model: &CardModel) -> Checked {
    let sector = u64::from(model.sector_bytes);
    if let Some(discard) = &model.discard {
        multiple("discard.granularity", discard.granularity.0, sector, "sectors")?;
        require(discard.granularity.0 <= MAX_GRANULARITY, "discard.granularity", || {
            format!("is more than {MAX_GRANULARITY} bytes")
        })?;
        require(discard.granularity <= model.capacity, "discard.granularity", || {
            "is larger than the card".to_owned()
        })?;
    }
    Ok(())
}

fn queue(model: &CardModel) -> Checked {
    require((1..=MAX_DEPTH).contains(&model.queue.depth), "queue.depth", || {
        format!("must lie between 1 and {MAX_DEPTH}")
    })
}

fn fake(model: &CardModel) -> Checked {
    let Some(fake) = &model.fake else { return Ok(()) };
    let (real, sector) = (fake.real_capacity.0, u64::from(model.sector_bytes));
    require(real > 0 && real % sector == 0, "fake.real_capacity", || {
        format!("is not whole sectors of {sector} bytes")
    })?;
    require(real < model.capacity.0, "fake.real_capacity", || {
        format!("is not less than the capacity of {}", model.capacity)
    })
}

fn noise(model: &CardModel) -> Checked {
    let Some(noise) = &model.noise else { return Ok(()) };
    require(noise.jitter_thousandths <= MAX_JITTER, "noise.jitter_thousandths", || {
        format!("is more than {MAX_JITTER}")
    })?;
    require(noise.stall_ns <= MAX_TIME_NS, "noise.stall_ns", || "is more than a minute".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::model::tests::small_with;

    const BLOCK: (&str, &str) =
        ("kind = \"page-mapped\"", "kind = \"block-mapped\"\nopen_units = 3");

    /// The change must be rejected with this key in the message.
    fn assert_rejected(changes: &[(&str, &str)], key: &str) {
        let text = small_with(changes).unwrap_err().to_string();
        assert!(text.starts_with("test.toml:") && text.contains(&format!(": {key}: ")), "{text}");
    }

    #[test]
    fn inconsistent_sizes_are_rejected() {
        assert_rejected(&[("sector_bytes = 512", "sector_bytes = 1024")], "sector_bytes");
        assert_rejected(&[("page = \"4KiB\"", "page = 0")], "nand.page");
        assert_rejected(&[("page = \"4KiB\"", "page = 700")], "nand.page");
        assert_rejected(&[("erase_unit = \"64KiB\"", "erase_unit = \"0\"")], "nand.erase_unit");
        assert_rejected(&[("erase_unit = \"64KiB\"", "erase_unit = \"66KiB\"")], "nand.erase_unit");
        assert_rejected(&[("capacity = \"1MiB\"", "capacity = \"0\"")], "capacity");
        assert_rejected(&[("capacity = \"1MiB\"", "capacity = \"1000KiB\"")], "capacity");
    }

    #[test]
    fn absurd_counts_and_times_are_rejected() {
        assert_rejected(&[("spare_units = 4", "spare_units = 0")], "nand.spare_units");
        assert_rejected(&[("spare_units = 4", "spare_units = 1")], "nand.spare_units");
        assert_rejected(&[("spare_units = 4", "spare_units = 4294967295")], "nand.spare_units");
        assert_rejected(&[("capacity = \"1MiB\"", "capacity = \"15000P\"")], "capacity");
        let bad = ("spare_units = 4", "spare_units = 4\nfactory_bad_units = 4294967295");
        assert_rejected(&[bad], "nand.factory_bad_units");
        assert_rejected(
            &[("endurance_cycles = 1000", "endurance_cycles = 0")],
            "nand.endurance_cycles",
        );
        assert_rejected(&[("read_ns = 50", "read_ns = 60_000_000_001")], "nand.read_ns");
        let layer = "kind = \"page-mapped\"";
        let slow = "kind = \"page-mapped\"\nlookup_ns = 60_000_000_001";
        assert_rejected(&[(layer, slow)], "layer.lookup_ns");
        let rate = "bytes_per_second = 1_000_000_000";
        assert_rejected(&[(rate, "bytes_per_second = 0")], "bus.bytes_per_second");
    }

    #[test]
    fn layers_require_their_open_blocks() {
        assert!(small_with(&[BLOCK]).is_ok());
        assert_rejected(&[BLOCK, ("spare_units = 4", "spare_units = 3")], "nand.spare_units");
        assert_rejected(&[BLOCK, ("open_units = 3", "open_units = 0")], "layer.open_units");
        assert_rejected(&[BLOCK, ("open_units = 3", "")], "layer.open_units");
        let many = "open_units = 33\nscratch = true";
        let spare = ("spare_units = 4", "spare_units = 99");
        assert_rejected(&[BLOCK, ("open_units = 3", many), spare], "layer.scratch");
        let page = ("kind = \"page-mapped\"", "kind = \"page-mapped\"\nopen_units = 3");
        assert_rejected(&[page], "layer.open_units");
    }

    #[test]
    fn layers_require_their_logs_and_chunks() {
        let log = "open_units = 1\nlog_units = 1\nlog_request = \"4KiB\"";
        let kind = |kind: &str, more: &str| format!("kind = \"{kind}\"\n{log}\n{more}");
        for (text, key) in [
            (kind("log-block", ""), ""),
            (kind("log-block", "scratch = true"), "nand.spare_units"),
            (kind("log-block", "chunk = \"8KiB\""), "layer.chunk"),
            (kind("log-block", "log_ns = 60_000_000_001"), "layer.log_ns"),
            (kind("log-block", "open_units_random = 2"), "layer.open_units_random"),
            (kind("log-block", "wear_spread = 2"), "layer.wear_spread"),
            (kind("log-block", "random_pages = 0"), "layer.random_pages"),
            (kind("update-log", "random_pages = 4"), "layer.random_pages"),
            (kind("page-mapped", ""), "layer.open_units"),
            (kind("block-mapped", ""), "layer.log_units"),
            (kind("update-log", "open_units_random = 1"), "layer.open_units_random"),
            (kind("update-log", "scratch = true"), "layer.scratch"),
            (kind("update-log", "chunk = \"6KiB\""), "layer.chunk"),
            (kind("update-log", "chunk = \"12KiB\""), "layer.chunk"),
            (kind("update-log", ""), "nand.spare_units"),
        ] {
            let changes = [("kind = \"page-mapped\"", text.as_str())];
            if key.is_empty() {
                assert!(small_with(&changes).is_ok(), "{text}");
            } else {
                assert_rejected(&changes, key);
            }
        }
        let text = kind("update-log", "chunk = \"32KiB\"");
        let five = [("kind = \"page-mapped\"", text.as_str()), ("units = 4", "units = 5")];
        assert_eq!(small_with(&five).unwrap().chunks_per_block(), 2);
    }

    #[test]
    fn invalid_caches_discards_and_queues_are_rejected() {
        let with = |section: &'static str| [("[discard]", section)];
        assert_rejected(&with("[cache]\nbytes = 0\n[discard]"), "cache.bytes");
        assert_rejected(&with("[cache]\nbytes = \"2MiB\"\n[discard]"), "cache.bytes");
        assert_rejected(&with("[queue]\ndepth = 33\n[discard]"), "queue.depth");
        let granularity = "granularity = \"4KiB\"";
        assert_rejected(&[(granularity, "granularity = 700")], "discard.granularity");
        assert_rejected(&[(granularity, "granularity = \"2MiB\"")], "discard.granularity");
    }

    #[test]
    fn an_erase_block_need_not_be_a_power_of_two() {
        let changes =
            [("erase_unit = \"64KiB\"", "erase_unit = \"48KiB\""), ("\"1MiB\"", "\"960KiB\"")];
        assert_eq!(small_with(&changes).unwrap().pages_per_block(), 12);
    }
}
