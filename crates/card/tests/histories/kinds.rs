//! The kinds of card that random histories run on: every layer and every cache, small enough that a
//! short history reclaims erase blocks.

use flashfit_card::CardModel;
use flashfit_catalog::Origin;
use proptest::prelude::*;

pub const SECTOR: usize = 512;
/// Eight erase blocks of 24 KiB, not a power of two.
pub const SECTORS: usize = 8 * 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    None,
    Unordered,
    Ordered,
    Barrier,
}

#[derive(Debug, Clone)]
pub struct Kind {
    layer: &'static str,
    /// Mapped units of half a write unit, and a pSLC area: page-mapped cards only.
    map_unit: bool,
    pslc: bool,
    zone: bool,
    dies: u32,
    depth: u32,
    background: bool,
    noise: bool,
    pub cache: Cache,
}

impl Kind {
    fn page_mapped(&self) -> bool {
        self.layer.contains("page-mapped")
    }

    /// Sectors per mapped unit.
    pub fn sectors_per_page(&self) -> usize {
        if self.page_mapped() && self.map_unit { 4 } else { 8 }
    }

    pub fn model(&self) -> CardModel {
        let pslc = "[nand.pslc]\nunits = 3\nread_ns = 3\nprogram_ns = 30\nerase_ns = 200\n\
                    endurance_cycles = 99\n";
        let cache = match self.cache {
            Cache::None => String::new(),
            order => format!(
                "[cache]\nbytes = \"14KiB\"\nflush_ns = 7\norder = \"{}\"\n",
                format!("{order:?}").to_lowercase()
            ),
        };
        let noise =
            "[noise]\nseed = 1\njitter_thousandths = 300\nstall_every = 9\nstall_ns = 500\n";
        let text = format!(
            "name = \"tiny\"\ntitle = \"t\"\nsource = \"s\"\ncapacity = \"192KiB\"\n\
             sector_bytes = 512\n[nand]\npage = \"4KiB\"\nerase_unit = \"24KiB\"\nread_ns = 5\n\
             program_ns = 70\nerase_ns = 300\nendurance_cycles = 9\nspare_units = 12\ndies = {}\n\
             {}[bus]\ncommand_ns = 3\nbytes_per_second = 1_000_000_000\n[layer]\nkind = {}\n{}{}{}\
             [discard]\ngranularity = \"4KiB\"\n{cache}[queue]\ndepth = {}\n{}{}",
            self.dies,
            if self.page_mapped() && self.pslc { pslc } else { "" },
            self.layer,
            if self.page_mapped() && self.map_unit { "map_unit = \"2KiB\"\n" } else { "" },
            if self.layer.contains("update-log") {
                format!("chunk = \"{}KiB\"\n", 4 * self.dies)
            } else {
                String::new()
            },
            if self.zone { "[zone]\nunits = 2\nspare_units = 3\n" } else { "" },
            self.depth,
            if self.background { "[background]\nafter_ns = 40\n" } else { "" },
            if self.noise { noise } else { "" },
        );
        CardModel::parse(&text, &Origin::File("tiny.toml".into())).unwrap()
    }
}

const LAYERS: [&str; 9] = [
    "\"page-mapped\"",
    "\"page-mapped\"\ncollection = \"cost-benefit\"\nwear_spread = 2",
    "\"page-mapped\"\ncollection = \"fifo\"",
    "\"page-mapped\"\nmap_cache = \"4KiB\"",
    "\"block-mapped\"\nopen_units = 2",
    "\"block-mapped\"\nopen_units = 3\nopen_units_random = 1",
    "\"block-mapped\"\nopen_units = 2\nscratch = true",
    "\"log-block\"\nopen_units = 2\nlog_units = 2\nlog_request = \"4KiB\"",
    "\"update-log\"\nopen_units = 2\nlog_units = 2\nlog_request = \"4KiB\"",
];

pub fn kind() -> impl Strategy<Value = Kind> {
    let caches =
        prop::sample::select(vec![Cache::None, Cache::Unordered, Cache::Ordered, Cache::Barrier]);
    let switches = any::<[bool; 5]>();
    let (dies, depth) = (prop::sample::select(vec![1, 2, 3]), prop::sample::select(vec![1, 4]));
    (0..LAYERS.len(), switches, dies, depth, caches).prop_map(
        |(layer, [map_unit, pslc, zone, background, noise], dies, depth, cache)| Kind {
            layer: LAYERS[layer],
            map_unit,
            pslc,
            zone,
            dies,
            depth,
            background,
            noise,
            cache,
        },
    )
}
