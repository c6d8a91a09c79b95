//! Reads the attributes of a device's request queue (Documentation/ABI/stable/sysfs-block).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::system::SystemRoots;
use crate::units::Bytes;

/// Queue attributes that affect layout and speed.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct QueueAttributes {
    pub logical_sector_bytes: u64,
    pub physical_sector_bytes: u64,
    /// Optimal request size; 0 when the device does not report one.
    pub optimal_io_bytes: u64,
    /// Discard granularity; 0 when discards are not supported.
    pub discard_granularity_bytes: u64,
    pub discards: bool,
    /// `write back` (the device has a volatile cache) or `write through`.
    pub write_cache: Option<String>,
    pub rotational: bool,
    pub max_request_bytes: u64,
    pub read_ahead_bytes: u64,
    pub schedulers: Vec<String>,
    pub scheduler: Option<String>,
}

impl QueueAttributes {
    /// Reads the attributes of the whole disk `disk`.
    pub fn read(system: &SystemRoots, disk: &str) -> Self {
        let folder = system.block(disk).join("queue");
        let number = |name: &str| system.number(&folder.join(name)).unwrap_or(0);
        let line = system.attribute(&folder.join("scheduler")).unwrap_or_default();
        let bare = |word: &str| word.trim_matches(['[', ']']).to_owned();
        Self {
            logical_sector_bytes: number("logical_block_size"),
            physical_sector_bytes: number("physical_block_size"),
            optimal_io_bytes: number("optimal_io_size"),
            discard_granularity_bytes: number("discard_granularity"),
            discards: number("discard_max_bytes") > 0,
            write_cache: system.attribute(&folder.join("write_cache")),
            rotational: number("rotational") == 1,
            max_request_bytes: number("max_sectors_kb") * 1024,
            read_ahead_bytes: number("read_ahead_kb") * 1024,
            schedulers: line.split_whitespace().map(bare).collect(),
            scheduler: line.split_whitespace().find(|word| word.starts_with('[')).map(bare),
        }
    }

    /// Whether written data may stay in a volatile cache.
    pub fn volatile_cache(&self) -> bool {
        self.write_cache.as_deref() == Some("write back")
    }

    /// Describes discard support for people.
    pub fn discard_text(&self) -> String {
        if self.discards {
            format!("in units of {}", Bytes(self.discard_granularity_bytes))
        } else {
            "not supported".to_owned()
        }
    }
}
