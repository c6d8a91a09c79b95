//! Section 12: devices that claim more capacity than they have.
//!
//! Simulated cards whose addresses wrap at their real capacity, that lose what is written beyond
//! it, and genuine ones, through the NBD socket of the card server; and the command on some of them
//! behind a loop device. Limit: times are short, because nothing but capacity is judged.

use std::fmt::Write;
use std::path::Path;

use flashfit_card_server::nbd::wire::command;
use flashfit_device::random::Random;
use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo, SystemClock};
use flashfit_geometry::probed::NoObserver;
use flashfit_geometry::writing::{self, WritingOptions};
use flashfit_host::capability;

use crate::cards;
use crate::nbd_client::NbdClient;
use crate::running::{self, ServedCard};
use crate::share::Share;
use crate::trials::bytes;

/// Cards of each kind behind the socket, and behind a loop device.
const SOCKETS: u64 = 40;
const LOOPS: u64 = 5;
/// How far off the capacity may be, in bytes: writes are lost from some block on.
const RESOLUTION: u64 = 1 << 20;
/// What a genuine card is probed for after its capacity.
const MAX_TIME_NS: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// A card that claims `claimed` bytes and has `real` ones.
struct DrawnFake {
    claimed: u64,
    real: u64,
    toml: String,
}

/// The section, as Markdown.
pub fn section() -> String {
    let mut text = format!(
        "\n## 12. Fake capacity\n\nSimulated cards that claim 256 MiB to 1 GiB. A fake one has an \
         eighth to seven eighths of that, and its addresses wrap or its writes are lost beyond. \
         An answer is correct if it is exact, or within {} MiB where writes are lost. NBD: the \
         probe on the socket of the card server. Loop: the command on the same kind of card behind \
         a loop device.\n\n| cards | through | correct capacity | goal |\n|---|---|---|---|\n",
        RESOLUTION / MIB
    );
    for (name, beyond) in
        [("wrap", Some("wraps")), ("lose writes", Some("lost")), ("genuine", None)]
    {
        let seeds = cards::EVALUATION..cards::EVALUATION + SOCKETS;
        let right = Share::of(seeds.map(|seed| is_right_by_socket(&draw(seed, beyond))));
        let _ = writeln!(text, "| {name} | NBD | {right} | all |");
        if capability::missing_for_simulated_cards().is_none() {
            let seeds = cards::EVALUATION..cards::EVALUATION + LOOPS;
            let right = Share::of(seeds.map(|seed| is_right_by_loop(&draw(seed, beyond))));
            let _ = writeln!(text, "| {name} | loop | {right} | all |");
        }
    }
    if let Some(reason) = capability::missing_for_simulated_cards() {
        let _ = writeln!(text, "\nNot measured behind a loop device: {reason}.");
    }
    text
}

fn draw(seed: u64, beyond: Option<&str>) -> DrawnFake {
    let mut random = Random::new(seed);
    let claimed = (256 + random.below(769)) * MIB;
    // Whole sectors of 512 bytes; half of the fakes have whole mebibytes.
    let eighth = claimed / 8;
    let real = eighth + random.below(6 * eighth) / 512 * 512;
    let real = if random.below(2) == 0 { real / MIB * MIB } else { real };
    let mut toml = format!(
        "name = \"drawn\"\ntitle = \"a card of chance\"\nsource = \"drawn\"\ncapacity = {claimed}\n\
         sector_bytes = 512\n[nand]\npage = 16384\nerase_unit = 1048576\nread_ns = 1000\n\
         program_ns = 2000\nerase_ns = 10000\nendurance_cycles = 1000\nspare_units = 16\n\
         [bus]\ncommand_ns = 1000\nbytes_per_second = 1_000_000_000\n[layer]\n\
         kind = \"page-mapped\"\n"
    );
    let real = match beyond {
        Some(beyond) => {
            let _ = write!(toml, "[fake]\nreal_capacity = {real}\nbeyond = \"{beyond}\"\n");
            real
        }
        None => claimed,
    };
    DrawnFake { claimed, real, toml }
}

impl DrawnFake {
    fn is_right(&self, found: Option<u64>) -> bool {
        let off = found.map(|found| found.abs_diff(self.real));
        off == Some(0) || self.toml.contains("lost") && off.is_some_and(|off| off <= RESOLUTION)
    }

    /// Its file in a directory.
    fn file(&self, folder: &Path) -> String {
        let file = folder.join("card.toml");
        std::fs::write(&file, &self.toml).unwrap();
        file.display().to_string()
    }
}

fn is_right_by_socket(fake: &DrawnFake) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let option = format!("--nbd={}", socket.display());
    let _card = ServedCard::new(&fake.file(folder.path()), &[&option]);
    let client = NbdClient::connect(&socket);
    let mut device = OverNbd { client, capacity_bytes: fake.claimed };
    let options = WritingOptions {
        max_time_ns: Some(MAX_TIME_NS),
        compressible: true,
        ..WritingOptions::whole(fake.claimed, fake.real)
    };
    let clock = SystemClock::default();
    let found = writing::probe(&mut device, &clock, &options, None, &mut NoObserver).unwrap();
    fake.is_right(bytes(&found.findings.capacity))
}

fn is_right_by_loop(fake: &DrawnFake) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let card = ServedCard::new(&fake.file(folder.path()), &[]);
    let name = card.at.file_name().unwrap().to_str().unwrap();
    let more = ["--write", "--max-time", "10s", "--confirm", name];
    let (document, _) = running::probe(&card.at, &more);
    fake.is_right(document["capacity"]["bytes"].as_u64())
}

/// A card behind an NBD socket.
struct OverNbd {
    client: NbdClient,
    capacity_bytes: u64,
}

fn failed(offset: u64, number: u32) -> BlockDevError {
    panic!("request at {offset} failed with {number}")
}

impl BlockDev for OverNbd {
    fn describe(&self) -> BlockDevInfo {
        BlockDevInfo {
            capacity_bytes: self.capacity_bytes,
            sector_bytes: 512,
            discard_granularity_bytes: 0,
            volatile_cache: true,
        }
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        let length = u32::try_from(buffer.len()).expect("a request");
        let bytes = self.client.read(offset, length).map_err(|number| failed(offset, number))?;
        buffer.copy_from_slice(&bytes);
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        self.client.write(0, offset, data).map_err(|number| failed(offset, number))
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        self.client.ask(command::FLUSH, 0, 0, 0, &[]).map_err(|number| failed(0, number))?;
        Ok(())
    }

    fn discard(&mut self, _offset: u64, _length: u64) -> Result<(), BlockDevError> {
        Err(BlockDevError::NoDiscard)
    }
}
