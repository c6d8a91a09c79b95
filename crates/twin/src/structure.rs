//! How a twin is built: everything of a card model that is not a time.

use flashfit_card::CardModel;
use flashfit_card::model::{
    BusModel, CacheModel, CacheOrder, CellType, LayerKind, LayerModel, NandModel, QueueModel,
};
use flashfit_device::Bytes;

use crate::times::Times;

/// Erase blocks that the host can address: a twin is small, so that it is quickly simulated.
const CAPACITY_UNITS: u64 = 64;
/// What units the layers need beyond those that are open and the log's.
const SPARE_UNITS: u32 = 4;
/// A bus must be so much faster than the fastest rate, or it would be what limits it.
const BUS_MARGIN: u64 = 13;
/// The rates of common buses: SD high speed, UHS-I SDR50 and SDR104, faster ones.
const BUSES: [u64; 5] = [25_000_000, 50_000_000, 104_000_000, 400_000_000, 2_000_000_000];

/// A card model without its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CardStructure {
    /// The translation layer.
    pub kind: OrderedLayerKind,
    /// The write unit, in bytes.
    pub page: u64,
    /// Units that can be open; layers that are not page-mapped.
    pub open_units: u32,
    /// How many of them in a mixed order.
    pub open_units_random: u32,
    /// How many pages a log out of order holds; 0 for as many as fit.
    pub random_pages: u32,
    /// Whether parts of a page are gathered in a scratch unit.
    pub scratch: bool,
    /// Whether the controller has a buffer for a page in parts.
    pub buffer: bool,
    /// Units of the log for small writes.
    pub log_units: u32,
    /// The largest write that goes there, in bytes.
    pub log_request: u64,
    /// What is mapped by itself, in bytes: the chunk of an update log, the unit of a page map.
    pub chunk: u64,
    /// Spare units beyond those that the layer needs; what a page map collects less for.
    pub spare_units: u32,
}

/// The kinds of layer, as [`LayerKind`] with an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OrderedLayerKind {
    /// As [`LayerKind::BlockMapped`].
    BlockMapped,
    /// As [`LayerKind::LogBlock`].
    LogBlock,
    /// As [`LayerKind::UpdateLog`].
    UpdateLog,
    /// As [`LayerKind::PageMapped`].
    PageMapped,
}

/// All of them.
pub const KINDS: [OrderedLayerKind; 4] = [
    OrderedLayerKind::BlockMapped,
    OrderedLayerKind::LogBlock,
    OrderedLayerKind::UpdateLog,
    OrderedLayerKind::PageMapped,
];

impl CardStructure {
    /// What is kept of the values that mean nothing to the kind of layer: nothing, so that equal
    /// cards are equal.
    #[must_use]
    pub fn plain(mut self) -> Self {
        let by_page = self.kind == OrderedLayerKind::PageMapped;
        let has_log = matches!(self.kind, OrderedLayerKind::LogBlock | OrderedLayerKind::UpdateLog);
        let has_open_logs =
            matches!(self.kind, OrderedLayerKind::BlockMapped | OrderedLayerKind::LogBlock);
        if by_page {
            self.open_units = 0;
        } else {
            self.spare_units = 0;
        }
        if !has_open_logs {
            (self.open_units_random, self.random_pages, self.scratch) = (0, 0, false);
        }
        if !has_log {
            (self.log_units, self.log_request) = (0, 0);
        }
        if has_open_logs {
            self.chunk = 0;
        }
        self.open_units_random = self.open_units_random.min(self.open_units);
        if self.buffer {
            // The buffer gathers before the scratch unit could.
            self.scratch = false;
        }
        self
    }

    /// The model with these times.
    pub fn model(&self, erase_unit: Bytes, bus: u64, times: &Times) -> CardModel {
        let ns = |seconds: f64| (seconds * 1e9).round().clamp(0.0, 6e10) as u64;
        let has_log = matches!(self.kind, OrderedLayerKind::LogBlock | OrderedLayerKind::UpdateLog);
        let has_open_logs =
            matches!(self.kind, OrderedLayerKind::BlockMapped | OrderedLayerKind::LogBlock);
        let by_page = self.kind == OrderedLayerKind::PageMapped;
        let mapped = Bytes(if by_page { self.chunk } else { self.page });
        CardModel {
            name: "twin".to_owned(),
            title: String::new(),
            source: String::new(),
            counterpart: None,
            capacity: Bytes(CAPACITY_UNITS * erase_unit.0),
            sector_bytes: 512,
            nand: NandModel {
                cell: CellType::default(),
                page: Bytes(self.page),
                planes: 1,
                dies: 1,
                erase_unit,
                read_ns: ns(times.read),
                program_ns: ns(times.program),
                erase_ns: ns(times.erase),
                copy_ns: ns(times.copy),
                endurance_cycles: 3000,
                spare_units: self.open_units + self.log_units + SPARE_UNITS + self.spare_units,
                factory_bad_units: 0,
                pslc: None,
            },
            bus: BusModel {
                kind: flashfit_card::model::BusKind::default(),
                command_ns: ns(times.command),
                bytes_per_second: bus,
            },
            layer: LayerModel {
                kind: self.layer_kind(),
                open_units: (!by_page).then_some(self.open_units),
                open_units_random: has_open_logs.then_some(self.open_units_random),
                random_pages: (has_open_logs && self.random_pages > 0).then_some(self.random_pages),
                scratch: self.scratch,
                log_units: has_log.then_some(self.log_units),
                log_request: has_log.then_some(Bytes(self.log_request)),
                log_ns: has_log.then_some(ns(times.log)),
                chunk: (self.kind == OrderedLayerKind::UpdateLog).then_some(Bytes(self.chunk)),
                map_unit: by_page.then_some(Bytes(self.chunk)),
                map_cache: None,
                collection: None,
                wear_spread: None,
                lookup_ns: 0,
                jump_ns: ns(times.jump),
                switch_ns: ns(times.switch),
            },
            zone: None,
            cache: self.buffer.then_some(CacheModel {
                bytes: mapped,
                order: CacheOrder::default(),
                flush_ns: 0,
                undeclared: true,
            }),
            discard: None,
            queue: QueueModel::default(),
            background: None,
            noise: None,
        }
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

/// A bus that is fast enough for a rate, in bytes a second.
pub fn bus_for(fastest: u64) -> u64 {
    let wanted = fastest.saturating_mul(BUS_MARGIN) / 10;
    BUSES.into_iter().find(|&bus| bus >= wanted).unwrap_or(BUSES[BUSES.len() - 1])
}
