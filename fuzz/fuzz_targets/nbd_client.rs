//! NBD clients: whatever one says, from the first flag to the last request, it is answered or
//! dropped, and the card can be used afterwards.

#![no_main]

use std::io::{self, Read};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use flashfit_card::{Card, CardModel, CardRequest};
use flashfit_card_server::live::LiveCard;
use flashfit_card_server::nbd::{Export, serve_client};
use flashfit_catalog::Origin;
use libfuzzer_sys::fuzz_target;

const CARD: &str = r#"
name = "small"
title = "a card for fuzzing"
source = "none"
capacity = "256KiB"
sector_bytes = 512
[nand]
page = "4KiB"
erase_unit = "64KiB"
read_ns = 1
program_ns = 1
erase_ns = 1
endurance_cycles = 1000
spare_units = 4
[bus]
command_ns = 1
bytes_per_second = 1_000_000_000_000
[layer]
kind = "page-mapped"
[cache]
bytes = "16KiB"
[discard]
granularity = "4KiB"
"#;

static MODEL: LazyLock<CardModel> = LazyLock::new(|| {
    CardModel::parse(CARD, &Origin::File("card.toml".into())).expect("a card that can be")
});

/// What a client says, in pieces of a few bytes.
struct Client<'a>(&'a [u8]);

impl Read for Client<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = bytes.len().min(self.0.len()).min(7);
        self.0.read(&mut bytes[..length])
    }
}

fuzz_target!(|said: &[u8]| {
    let live = LiveCard::new(Card::new(&MODEL));
    live.begin(Duration::ZERO);
    // The first byte decides whether it comes to requests at once.
    let (from_start, said) =
        said.split_first().map_or((true, said), |(byte, rest)| (byte % 2 == 0, rest));
    let begun = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 7, 0, 0, 0, 6], &[0; 6]].concat();
    let begun = if from_start { &[][..] } else { &begun };
    let ended = serve_client(Client(begun).chain(Client(said)), io::sink(), &Export::new(&live));
    ended.expect_err("a client always ends");
    let mut buffer = [0; 512];
    live.submit(Instant::now(), CardRequest::Write { offset: 0, data: &[7; 512] }).expect("power");
    live.submit(Instant::now(), CardRequest::Read { offset: 0, buffer: &mut buffer })
        .expect("power");
    assert_eq!(buffer, [7; 512]);
});
