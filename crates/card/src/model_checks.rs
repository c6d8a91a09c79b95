//! Which card models can be: the limits of sizes, counts and times.
//!
//! Whatever passes here can be simulated without an arithmetic overflow and without running out of
//! free erase units; the layers rely on it.

use crate::model::{CardModel, LayerKind};

/// Keeps the simulator's own tables (about 24 bytes a page) within reason.
const MAX_PAGES: u64 = 1 << 26;
/// One minute: longer is a unit mistaken.
const MAX_TIME_NS: u64 = 60_000_000_000;
const MIN_BYTES_PER_SECOND: u64 = 1000;
const MAX_BYTES_PER_SECOND: u64 = 1_000_000_000_000;
/// What the kernel's discard granularity can express.
const MAX_GRANULARITY: u64 = 1 << 31;
/// A page-mapped layer collects garbage into one unit while another is still to be reclaimed.
const MIN_SPARE_PAGE_MAPPED: u32 = 2;

/// A key and why its value cannot be.
#[derive(Debug)]
pub struct Fault {
    pub key: &'static str,
    pub reason: String,
}

type Checked = Result<(), Fault>;

fn require(holds: bool, key: &'static str, reason: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Fault { key, reason: reason() }) }
}

/// Checks a whole model.
pub fn check(model: &CardModel) -> Checked {
    names(model)?;
    sizes(model)?;
    counts(model)?;
    times(model)?;
    layer(model)?;
    optional_parts(model)
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
    multiple("nand.erase_unit", model.nand.erase_unit.0, model.nand.page.0, "pages")?;
    multiple("capacity", model.capacity.0, model.nand.erase_unit.0, "erase units")
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
        "a card needs spare erase units to write into".to_owned()
    })?;
    let spare = u64::from(nand.spare_units).checked_mul(nand.erase_unit.0);
    let total = spare.and_then(|spare| spare.checked_add(model.capacity.0));
    require(total.is_some_and(|total| total / nand.page.0 <= MAX_PAGES), "nand.page", || {
        format!("the card has more than the {MAX_PAGES} pages that can be simulated")
    })?;
    require(nand.endurance_cycles > 0, "nand.endurance_cycles", || "is zero".to_owned())
}

fn times(model: &CardModel) -> Checked {
    for (key, time_ns) in [
        ("nand.read_ns", model.nand.read_ns),
        ("nand.program_ns", model.nand.program_ns),
        ("nand.erase_ns", model.nand.erase_ns),
        ("bus.command_ns", model.bus.command_ns),
    ] {
        require(time_ns <= MAX_TIME_NS, key, || format!("{time_ns} ns are more than a minute"))?;
    }
    let rates = MIN_BYTES_PER_SECOND..=MAX_BYTES_PER_SECOND;
    require(rates.contains(&model.bus.bytes_per_second), "bus.bytes_per_second", || {
        format!("must lie between {MIN_BYTES_PER_SECOND} and {MAX_BYTES_PER_SECOND}")
    })
}

fn layer(model: &CardModel) -> Checked {
    let spare = model.nand.spare_units;
    match (model.layer.kind, model.layer.open_units) {
        (LayerKind::BlockMapped, None) => Err(Fault {
            key: "layer.open_units",
            reason: "a block-mapped layer needs to know how many units it keeps open".to_owned(),
        }),
        (LayerKind::BlockMapped, Some(open)) => {
            require(open > 0, "layer.open_units", || "is zero".to_owned())?;
            require(open < spare, "layer.open_units", || {
                format!(
                    "{open} open units need {} spare erase units (one is merged into), not {spare}",
                    u64::from(open) + 1
                )
            })
        }
        (LayerKind::PageMapped, Some(_)) => Err(Fault {
            key: "layer.open_units",
            reason: "a page-mapped layer has no limit of open units".to_owned(),
        }),
        (LayerKind::PageMapped, None) => {
            require(spare >= MIN_SPARE_PAGE_MAPPED, "nand.spare_units", || {
                format!(
                    "a page-mapped layer needs at least {MIN_SPARE_PAGE_MAPPED} spare erase units"
                )
            })
        }
    }
}

fn optional_parts(model: &CardModel) -> Checked {
    let sector = u64::from(model.sector_bytes);
    if let Some(cache) = &model.cache {
        multiple("cache.bytes", cache.bytes.0, sector, "sectors")?;
        require(cache.bytes <= model.capacity, "cache.bytes", || {
            "the cache is larger than the card".to_owned()
        })?;
    }
    if let Some(discard) = &model.discard {
        multiple("discard.granularity", discard.granularity.0, sector, "sectors")?;
        require(discard.granularity.0 <= MAX_GRANULARITY, "discard.granularity", || {
            format!("is more than {MAX_GRANULARITY} bytes")
        })?;
        require(discard.granularity <= model.capacity, "discard.granularity", || {
            "is larger than the card".to_owned()
        })?;
    }
    require(model.queue.depth == 1, "queue.depth", || {
        format!("this version simulates queue depth 1 only, not {}", model.queue.depth)
    })
}

#[cfg(test)]
mod tests {
    use crate::model::tests::small_but;

    const BLOCK: (&str, &str) =
        ("kind = \"page-mapped\"", "kind = \"block-mapped\"\nopen_units = 3");

    /// Every change must be refused, with this key in the message.
    fn refused(changes: &[(&str, &str)], key: &str) {
        let text = small_but(changes).unwrap_err().to_string();
        assert!(text.starts_with(&format!("test.toml: {key}: ")), "{text}");
    }

    #[test]
    fn sizes_that_do_not_fit_each_other() {
        refused(&[("sector_bytes = 512", "sector_bytes = 1024")], "sector_bytes");
        refused(&[("page = \"4KiB\"", "page = 0")], "nand.page");
        refused(&[("page = \"4KiB\"", "page = 700")], "nand.page");
        refused(&[("erase_unit = \"64KiB\"", "erase_unit = \"0\"")], "nand.erase_unit");
        refused(&[("erase_unit = \"64KiB\"", "erase_unit = \"66KiB\"")], "nand.erase_unit");
        refused(&[("capacity = \"1MiB\"", "capacity = \"0\"")], "capacity");
        refused(&[("capacity = \"1MiB\"", "capacity = \"1000KiB\"")], "capacity");
    }

    #[test]
    fn absurd_counts_and_times() {
        refused(&[("spare_units = 4", "spare_units = 0")], "nand.spare_units");
        refused(&[("spare_units = 4", "spare_units = 1")], "nand.spare_units");
        refused(&[("spare_units = 4", "spare_units = 4294967295")], "nand.page");
        refused(&[("capacity = \"1MiB\"", "capacity = \"15000P\"")], "nand.page");
        refused(&[("endurance_cycles = 1000", "endurance_cycles = 0")], "nand.endurance_cycles");
        refused(&[("read_ns = 50", "read_ns = 60_000_000_001")], "nand.read_ns");
        let rate = "bytes_per_second = 1_000_000_000";
        refused(&[(rate, "bytes_per_second = 0")], "bus.bytes_per_second");
    }

    #[test]
    fn layers_and_their_open_units() {
        assert!(small_but(&[BLOCK]).is_ok());
        refused(&[BLOCK, ("spare_units = 4", "spare_units = 3")], "layer.open_units");
        refused(&[BLOCK, ("open_units = 3", "open_units = 0")], "layer.open_units");
        refused(&[BLOCK, ("open_units = 3", "")], "layer.open_units");
        let page = ("kind = \"page-mapped\"", "kind = \"page-mapped\"\nopen_units = 3");
        refused(&[page], "layer.open_units");
    }

    #[test]
    fn caches_discards_and_queues() {
        let with = |section: &'static str| [("[discard]", section)];
        refused(&with("[cache]\nbytes = 0\n[discard]"), "cache.bytes");
        refused(&with("[cache]\nbytes = \"2MiB\"\n[discard]"), "cache.bytes");
        refused(&with("[queue]\ndepth = 32\n[discard]"), "queue.depth");
        let granularity = "granularity = \"4KiB\"";
        refused(&[(granularity, "granularity = 700")], "discard.granularity");
        refused(&[(granularity, "granularity = \"2MiB\"")], "discard.granularity");
    }

    #[test]
    fn an_erase_unit_need_not_be_a_power_of_two() {
        let changes =
            [("erase_unit = \"64KiB\"", "erase_unit = \"48KiB\""), ("\"1MiB\"", "\"960KiB\"")];
        assert_eq!(small_but(&changes).unwrap().pages_per_unit(), 12);
    }
}
