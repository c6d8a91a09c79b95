//! Simulated cards of known geometry, drawn at random from all possible card models.
//!
//! A seed determines a card. All translation layers, 256 MiB to 32 GiB, pages of 4 to 64 KiB on 1
//! to 4 planes and dies, erase blocks of 128 KiB to 32 MiB with 3 x 2^k among them, the times of
//! buses and flash that the catalog's cards have, and noise from none to heavy. Seeds up to
//! [`DEVELOPMENT`] are for trying things out, those from [`EVALUATION`] on only for the figures.
//! Limit: parameters are independent, so some cards are unrealistic.

use std::fmt::Write;

use flashfit_card::{CardModel, ModelError};
use flashfit_catalog::Origin;
use flashfit_device::Bytes;
use flashfit_device::random::Random;

/// The end of the development seeds.
pub const DEVELOPMENT: u64 = 1000;
/// The first evaluation seed.
pub const EVALUATION: u64 = 1_000_000;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The variation of a card's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noise {
    None,
    /// By up to a tenth; one request in 500 stalls for up to 5 ms.
    Light,
    /// By up to a quarter; one request in 100 stalls for up to 20 ms.
    Medium,
    /// By up to a half; one request in 20 stalls for up to 100 ms.
    Heavy,
}

/// A card with its true geometry.
#[derive(Debug, Clone)]
pub struct DrawnCard {
    pub model: CardModel,
    pub toml: String,
    pub noise: Noise,
    /// Whether erase block boundaries are visible to reads.
    pub shows_units_to_readers: bool,
}

/// The card of a seed.
///
/// # Panics
/// If the drawn parameters are invalid, which is a bug in this file.
pub fn draw(seed: u64) -> DrawnCard {
    let mut random = Random::new(seed ^ 0x67_656f_6d65_7472);
    let draft = Draft::draw(&mut random);
    let noise = one_of(&mut random, &[Noise::None, Noise::Light, Noise::Medium, Noise::Heavy]);
    let sections = draft.sections(&mut random, noise, seed);
    let shows = sections.contains("lookup_ns = ");
    // The checks of the model determine the fewest spare units.
    let mut spare = 2 + draft.units() * (2 + random.below(9)) / 100;
    for _ in 0..100 {
        let toml = draft.file(seed, spare, &sections);
        match CardModel::parse(&toml, &Origin::File("drawn.toml".into())) {
            Ok(model) => return DrawnCard { model, toml, noise, shows_units_to_readers: shows },
            Err(ModelError::Invalid { key: "nand.spare_units", .. }) => spare += 4,
            Err(error) => panic!("the card of seed {seed} cannot be: {error}\n{toml}"),
        }
    }
    panic!("the card of seed {seed} has never enough spare units");
}

fn one_of<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[usize::try_from(random.below(choices.len() as u64)).expect("a small number")]
}

fn chance(random: &mut Random, percent: u64) -> bool {
    random.below(100) < percent
}

fn between(random: &mut Random, least: u64, most: u64) -> u64 {
    least + random.below(most - least + 1)
}

/// Consistent sizes of a card.
#[derive(Debug)]
struct Draft {
    sector: u64,
    page: u64,
    planes: u64,
    dies: u64,
    erase_block: u64,
    capacity: u64,
    read_ns: u64,
    command_ns: u64,
    bytes_per_second: u64,
}

impl Draft {
    fn draw(random: &mut Random) -> Self {
        let erase_block = if chance(random, 25) {
            3 << between(random, 16, 23)
        } else {
            1 << between(random, 17, 25)
        };
        let (page, planes, dies) = loop {
            let page = (4 * KIB) << random.below(5);
            let planes = one_of(random, &[1, 1, 2, 2, 3, 4]);
            let dies = one_of(random, &[1, 1, 1, 2, 4]);
            // At least 32 write units on each die; real flash has 64 pages a block and more.
            let stripe = page * planes * dies;
            if erase_block % stripe == 0 && erase_block / stripe >= 32 {
                break (page, planes, dies);
            }
        };
        // Uniform over orders of magnitude, not only powers of two.
        let size = (256 * MIB) << random.below(7);
        let capacity = size + random.below(if size < 32 << 30 { size } else { 1 });
        let capacity = capacity / erase_block * erase_block;
        Self {
            sector: if chance(random, 10) { 4096 } else { 512 },
            page,
            planes,
            dies,
            erase_block,
            capacity: capacity.max(8 * erase_block),
            read_ns: between(random, 25, 120) * 1000,
            command_ns: between(random, 60, 900) * 1000,
            bytes_per_second: between(random, 8, 90) * 1_000_000,
        }
    }

    fn units(&self) -> u64 {
        self.capacity / self.erase_block
    }

    fn write_unit(&self) -> u64 {
        self.page * self.planes
    }

    fn sections(&self, random: &mut Random, noise: Noise, seed: u64) -> String {
        let mut text = self.layer(random);
        if chance(random, 50) {
            // From a twentieth to a third of a read, as published tables show.
            let read_ns = self.command_ns + self.read_ns;
            let lookup_ns = read_ns * between(random, 50, 350) / 1000;
            let _ = writeln!(text, "lookup_ns = {lookup_ns}");
        }
        if chance(random, 15) && self.units() > 16 {
            let (units, spare) = (between(random, 1, 4), between(random, 2, 3));
            let _ = writeln!(text, "[zone]\nunits = {units}\nspare_units = {spare}");
            let _ = writeln!(text, "extra_read_ns = {}", random.below(50) * 1000);
        }
        if chance(random, 25) {
            let bytes = (64 * KIB) << random.below(5);
            let _ = writeln!(text, "[cache]\nbytes = {bytes}");
            let _ = writeln!(text, "flush_ns = {}", random.below(1000) * 1000);
        }
        if chance(random, 60) {
            let granularity = one_of(random, &[self.write_unit(), self.erase_block]);
            let _ = writeln!(text, "[discard]\ngranularity = {granularity}");
        }
        if chance(random, 25) {
            let _ = writeln!(text, "[queue]\ndepth = {}", one_of(random, &[2, 8, 32]));
        }
        if chance(random, 20) {
            let _ =
                writeln!(text, "[background]\nafter_ns = {}", between(random, 1, 500) * 1_000_000);
        }
        let (jitter, every, stall_ms) = match noise {
            Noise::None => return text,
            Noise::Light => (between(random, 10, 100), 500, between(random, 1, 5)),
            Noise::Medium => (between(random, 100, 250), 100, between(random, 5, 20)),
            Noise::Heavy => (between(random, 250, 500), 20, between(random, 20, 100)),
        };
        let _ = writeln!(text, "[noise]\nseed = {seed}\njitter_thousandths = {jitter}");
        let _ = writeln!(text, "stall_every = {every}\nstall_ns = {}", stall_ms * 1_000_000);
        text
    }

    fn layer(&self, random: &mut Random) -> String {
        let mut text = String::new();
        let kind = one_of(
            random,
            &["page-mapped", "page-mapped", "block-mapped", "log-block", "update-log"],
        );
        if kind == "page-mapped" {
            self.page_mapped(random, &mut text);
            return text;
        }
        let open = between(random, 1, 10);
        let _ = writeln!(text, "[layer]\nkind = \"{kind}\"\nopen_units = {open}");
        if kind != "block-mapped" {
            let _ = writeln!(text, "log_units = {}", between(random, 1, 4));
            let _ = writeln!(text, "log_request = {}", (4 * KIB) << random.below(5));
            if chance(random, 30) {
                let _ = writeln!(text, "log_ns = {}", random.below(300) * 1000);
            }
        }
        if kind == "update-log" {
            let stripes = self.erase_block / (self.write_unit() * self.dies);
            let parts: Vec<u64> = [1, 2, 4, 8].into_iter().filter(|n| stripes % n == 0).collect();
            let _ = writeln!(text, "chunk = {}", self.erase_block / one_of(random, &parts));
            return text;
        }
        if chance(random, 60) {
            let _ = writeln!(text, "open_units_random = {}", random.below(open + 1));
        }
        if chance(random, 30) {
            let pages = self.erase_block / self.write_unit();
            let _ = writeln!(text, "random_pages = {}", between(random, pages / 4, pages));
        }
        let _ = writeln!(text, "scratch = {}", chance(random, 30));
        text
    }

    fn page_mapped(&self, random: &mut Random, text: &mut String) {
        if chance(random, 20) {
            let bits = one_of(random, &["mlc", "tlc", "qlc"]);
            // Before the section of the layer, because it belongs to the flash.
            let _ = writeln!(text, "[nand.pslc]\nunits = {}", between(random, 2, 16));
            let _ = writeln!(text, "read_ns = {}", self.read_ns * 2 / 3);
            let _ = writeln!(text, "program_ns = 200_000\nerase_ns = 2_000_000");
            let _ = writeln!(text, "endurance_cycles = 30_000 # {bits}");
        }
        let collection = one_of(random, &["greedy", "cost-benefit", "fifo"]);
        let _ = writeln!(text, "[layer]\nkind = \"page-mapped\"\ncollection = \"{collection}\"");
        let mut map_unit = self.write_unit();
        if chance(random, 40) && self.write_unit() % 4096 == 0 {
            map_unit = 4096;
            let _ = writeln!(text, "map_unit = 4096");
        }
        if chance(random, 30) {
            let map_bytes = self.capacity / map_unit * 4;
            let cache = (map_bytes >> between(random, 0, 6)).max(self.write_unit());
            let _ = writeln!(text, "map_cache = {cache}");
        }
        if chance(random, 30) {
            let _ = writeln!(text, "wear_spread = {}", between(random, 5, 50));
        }
    }

    fn file(&self, seed: u64, spare: u64, sections: &str) -> String {
        let Self { sector, page, planes, dies, erase_block, capacity, read_ns, .. } = self;
        let (command_ns, bytes_per_second) = (self.command_ns, self.bytes_per_second);
        // Depends on the seed only, so that more spare units change nothing else.
        let mut random = Random::new(seed);
        let program_ns = between(&mut random, 200, 2900) * 1000;
        let erase_ns = between(&mut random, 1000, 10_000) * 1000;
        let copy_ns = if chance(&mut random, 50) { random.below(500) * 1000 } else { 0 };
        let cell = sections
            .split_once("endurance_cycles = 30_000 # ")
            .and_then(|(_, rest)| rest.lines().next())
            .unwrap_or("mlc");
        format!(
            "name = \"drawn-{seed}\"\ntitle = \"{} of chance\"\nsource = \"drawn at random\"\n\
             capacity = {capacity}\nsector_bytes = {sector}\n\
             [nand]\ncell = \"{cell}\"\npage = {page}\nplanes = {planes}\ndies = {dies}\n\
             erase_unit = {erase_block}\nread_ns = {read_ns}\nprogram_ns = {program_ns}\n\
             erase_ns = {erase_ns}\ncopy_ns = {copy_ns}\nendurance_cycles = 3000\n\
             spare_units = {spare}\n\
             [bus]\ncommand_ns = {command_ns}\nbytes_per_second = {bytes_per_second}\n{sections}",
            Bytes(*capacity)
        )
    }
}
