//! The structure of a twin: everything in a card model that is not a time, and whether the device
//! was full.

use flashfit_card::CardModel;
use flashfit_card::model::{
    BusModel, CacheModel, CacheOrder, CellType, Collection, LayerKind, LayerModel, NandModel,
    QueueModel, Replacement, ZoneModel,
};
use flashfit_device::Bytes;

use crate::fit_target::FitTarget;
use crate::times::Times;

/// Erase blocks that a layer needs besides the open ones and its log.
const SPARE_UNITS: u32 = 4;
/// Spare erase blocks of a zone: as few as possible.
const ZONE_SPARE_UNITS: u32 = 2;
/// A time of log writes, in parts of that of programming, that may as well be none.
const MOST_LOG_SHARE: f64 = 0.15;
/// A bus that is not the bottleneck is at least this much faster than the fastest rate, in tenths.
const BUS_MARGIN: u64 = 13;
/// Rates of common buses in bytes per second: SD high speed, UHS-I SDR50 and SDR104, and faster.
const BUSES: [u64; 5] = [25_000_000, 50_000_000, 104_000_000, 400_000_000, 2_000_000_000];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CardStructure {
    pub kind: OrderedLayerKind,
    /// Write unit, in bytes.
    pub page_bytes: u64,
    /// Dies that work in parallel; only times depend on them.
    pub dies: u32,
    /// Open erase blocks; 0 for page-mapped layers.
    pub open_erase_blocks: u32,
    /// Open erase blocks that accept writes in random order.
    pub open_erase_blocks_random: u32,
    /// Which open erase block is closed for another.
    pub replacement: Replacement,
    /// Pages that a random-order log can take; 0 for as many as fit.
    pub random_pages: u32,
    /// Whether partial pages are collected in a scratch block.
    pub scratch: bool,
    /// Whether the controller buffers one partial page.
    pub buffer: bool,
    /// Erase blocks of the log for small writes.
    pub log_blocks: u32,
    /// Largest write that goes to that log, in bytes.
    pub log_request_bytes: u64,
    /// Mapping granularity in bytes: the chunk of an update log or the unit of a page map.
    pub chunk_bytes: u64,
    /// Additional spare blocks of a page-mapped layer, which reduce garbage collection.
    pub spare_blocks: u32,
    /// How a page-mapped layer selects what it collects.
    pub collection: Collection,
    /// Size of the declared volatile cache, in bytes; 0 without one.
    pub cache_bytes: u64,
    /// Whether every place held data before the measurement. If not, only what was written since is
    /// copied and collected. It says nothing about the card.
    pub was_full: bool,
    /// Erase blocks of the specially mapped zone at the start; 0 without one.
    pub zone_blocks: u32,
    /// Pages that the log for small writes had taken before the patterns. It says nothing about the
    /// card, either, but when the log is collected.
    pub logged_pages: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OrderedLayerKind {
    BlockMapped,
    LogBlock,
    UpdateLog,
    PageMapped,
}

pub const KINDS: [OrderedLayerKind; 4] = [
    OrderedLayerKind::BlockMapped,
    OrderedLayerKind::LogBlock,
    OrderedLayerKind::UpdateLog,
    OrderedLayerKind::PageMapped,
];

impl CardStructure {
    /// Resets the values that the kind of layer ignores, so that equivalent structures are equal.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        let by_page = self.kind == OrderedLayerKind::PageMapped;
        let has_log = matches!(self.kind, OrderedLayerKind::LogBlock | OrderedLayerKind::UpdateLog);
        let has_open_logs =
            matches!(self.kind, OrderedLayerKind::BlockMapped | OrderedLayerKind::LogBlock);
        if by_page {
            (self.open_erase_blocks, self.replacement) = (0, Replacement::default());
        } else {
            (self.spare_blocks, self.collection) = (0, Collection::default());
        }
        if !has_open_logs {
            (self.open_erase_blocks_random, self.random_pages, self.scratch) = (0, 0, false);
        }
        if !has_log {
            (self.log_blocks, self.log_request_bytes, self.logged_pages) = (0, 0, 0);
        }
        if has_open_logs {
            self.chunk_bytes = 0;
        }
        self.open_erase_blocks_random = self.open_erase_blocks_random.min(self.open_erase_blocks);
        if self.cache_bytes > 0 {
            self.buffer = false;
        }
        if self.buffer {
            // The buffer makes the scratch block redundant.
            self.scratch = false;
        }
        self
    }

    /// The same with one die, which makes the same operations.
    #[must_use]
    pub fn on_one_die(&self) -> Self {
        Self { dies: 1, ..*self }
    }

    /// The same with an empty log before the patterns.
    #[must_use]
    pub fn with_empty_log(&self) -> Self {
        Self { logged_pages: 0, ..*self }
    }

    /// The same where nothing depends any longer on whether the card was full, because every place
    /// of the patterns was filled before them. Other layers also need to know how much of the rest
    /// is free.
    #[must_use]
    pub fn at_fill(&self, target: &FitTarget) -> Self {
        let is_same = target.patterns.is_some() && self.kind == OrderedLayerKind::LogBlock;
        Self { was_full: self.was_full && !is_same, ..*self }
    }

    /// Whether a write to the log takes hardly longer than programming. A card with a time for log
    /// writes waits for each page of a request, and its dies do not work in parallel.
    fn logs_at_once(&self, times: &Times) -> bool {
        self.dies > 1 && times.log_s < MOST_LOG_SHARE * times.program_s
    }

    /// `log-block with 4 open erase blocks`.
    pub fn summary(&self) -> String {
        let kind = match self.kind {
            OrderedLayerKind::BlockMapped => "block-mapped",
            OrderedLayerKind::LogBlock => "log-block",
            OrderedLayerKind::UpdateLog => "update-log",
            OrderedLayerKind::PageMapped => {
                return format!("page-mapped by {}", Bytes(self.chunk_bytes));
            }
        };
        format!("{kind} with {} open erase blocks", self.open_erase_blocks)
    }

    /// The card of this structure for a target, with a bus in bytes per second.
    pub fn model(&self, target: &FitTarget, bus: u64, times: &Times) -> CardModel {
        let erase_block = target.erase_block;
        let ns = |seconds: f64| (seconds * 1e9).round().clamp(0.0, 6e10) as u64;
        let has_log = matches!(self.kind, OrderedLayerKind::LogBlock | OrderedLayerKind::UpdateLog);
        let has_open_logs =
            matches!(self.kind, OrderedLayerKind::BlockMapped | OrderedLayerKind::LogBlock);
        let by_page = self.kind == OrderedLayerKind::PageMapped;
        let mapped = Bytes(if by_page { self.chunk_bytes } else { self.page_bytes });
        CardModel {
            name: "twin".to_owned(),
            title: String::new(),
            source: String::new(),
            counterpart: None,
            capacity: target.capacity(self.was_full),
            sector_bytes: 512,
            nand: NandModel {
                cell: CellType::default(),
                page: Bytes(self.page_bytes),
                planes: 1,
                dies: self.dies,
                erase_block,
                read_ns: ns(times.read_s),
                program_ns: ns(times.program_s),
                erase_ns: ns(times.erase_s),
                copy_ns: ns(times.copy_s),
                endurance_cycles: 3000,
                spare_units: self.open_erase_blocks
                    + self.log_blocks
                    + SPARE_UNITS
                    + if self.zone_blocks > 0 { ZONE_SPARE_UNITS } else { 0 }
                    + self.spare_blocks,
                factory_bad_units: 0,
                pslc: None,
                wear_out: None,
            },
            bus: BusModel {
                kind: flashfit_card::model::BusKind::default(),
                command_ns: ns(times.command_s),
                bytes_per_second: bus,
            },
            layer: LayerModel {
                kind: self.layer_kind(),
                open_erase_blocks: (!by_page).then_some(self.open_erase_blocks),
                open_erase_blocks_random: has_open_logs.then_some(self.open_erase_blocks_random),
                replacement: self.replacement,
                close_ns: if self.closes_take_time(target) { ns(times.close_s) } else { 0 },
                random_pages: (has_open_logs && self.random_pages > 0).then_some(self.random_pages),
                scratch: self.scratch,
                log_units: has_log.then_some(self.log_blocks),
                log_request: has_log.then_some(Bytes(self.log_request_bytes)),
                log_ns: (has_log && !self.logs_at_once(times)).then_some(ns(times.log_s)),
                chunk: (self.kind == OrderedLayerKind::UpdateLog)
                    .then_some(Bytes(self.chunk_bytes)),
                map_unit: by_page.then_some(Bytes(self.chunk_bytes)),
                map_cache: None,
                collection: by_page.then_some(self.collection),
                wear_spread: None,
                lookup_ns: 0,
                jump_ns: ns(times.jump_s),
                switch_ns: ns(times.switch_s),
            },
            zone: (self.zone_blocks > 0).then_some(ZoneModel {
                units: self.zone_blocks,
                spare_units: ZONE_SPARE_UNITS,
                extra_read_ns: 0,
            }),
            cache: (self.buffer || self.cache_bytes > 0).then_some(CacheModel {
                bytes: Bytes(self.cache_bytes.max(mapped.0)),
                order: CacheOrder::default(),
                flush_ns: if self.cache_bytes > 0 { ns(times.flush_s) } else { 0 },
                undeclared: self.cache_bytes == 0,
            }),
            discard: None,
            queue: QueueModel::default(),
            background: None,
            noise: None,
            fake: None,
        }
    }

    /// Whether closing an open erase block takes time besides copying, which explains everything in
    /// layers that copy whole erase blocks. With patterns, it made update logs explain page-mapped
    /// cards.
    pub fn closes_take_time(&self, target: &FitTarget) -> bool {
        self.kind == OrderedLayerKind::UpdateLog && target.patterns.is_none()
    }

    fn layer_kind(&self) -> LayerKind {
        match self.kind {
            OrderedLayerKind::BlockMapped => LayerKind::BlockMapped,
            OrderedLayerKind::LogBlock => LayerKind::LogBlock,
            OrderedLayerKind::UpdateLog => LayerKind::UpdateLog,
            OrderedLayerKind::PageMapped => LayerKind::PageMapped,
        }
    }
}

/// The slowest common bus that does not limit a rate, both in bytes per second.
pub fn bus_for(fastest: u64) -> u64 {
    let required = fastest.saturating_mul(BUS_MARGIN) / 10;
    BUSES.into_iter().find(|&bus| bus >= required).unwrap_or(BUSES[BUSES.len() - 1])
}

#[cfg(test)]
mod tests {
    use flashfit_catalog::Origin;

    use super::*;
    use crate::fit_target::tests::target;

    fn structure(kind: OrderedLayerKind, dies: u32, zone: u32) -> CardStructure {
        CardStructure {
            kind,
            page_bytes: 8 << 10,
            dies,
            open_erase_blocks: 2,
            open_erase_blocks_random: 1,
            replacement: Replacement::default(),
            random_pages: 0,
            scratch: false,
            buffer: false,
            log_blocks: 2,
            log_request_bytes: 4096,
            chunk_bytes: if kind == OrderedLayerKind::PageMapped { 8 << 10 } else { 128 << 10 },
            spare_blocks: 6,
            collection: Collection::default(),
            cache_bytes: 0,
            was_full: true,
            zone_blocks: zone,
            logged_pages: 0,
        }
        .normalized()
    }

    #[test]
    fn a_card_with_a_zone_is_valid() {
        for kind in KINDS {
            let model =
                structure(kind, 1, 4).model(&target(Bytes::mib(1)), 50_000_000, &Times::NONE);
            let text = toml::to_string(&model).expect("a card model is plain data");
            let parsed = CardModel::parse(&text, &Origin::File("zone.toml".into()));
            assert_eq!(parsed.expect("valid").zone.map(|zone| zone.units), Some(4), "{kind:?}");
        }
    }

    /// A simulated card with two dies took 1.5 times as long for log writes as the fit expected.
    #[test]
    fn dies_work_in_parallel_unless_log_writes_take_long() {
        let log_ns = |dies, log| {
            let times = Times { program_s: 1e-3, log_s: log, ..Times::NONE };
            let structure = structure(OrderedLayerKind::LogBlock, dies, 0);
            structure.model(&target(Bytes::mib(1)), 50_000_000, &times).layer.log_ns
        };
        assert_eq!(log_ns(2, 1e-4), None);
        assert_eq!(log_ns(2, 4e-4), Some(400_000));
        assert_eq!(log_ns(1, 1e-4), Some(100_000));
    }
}
