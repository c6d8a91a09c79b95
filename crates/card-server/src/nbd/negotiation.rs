//! The negotiation: what is said before the first request.
//!
//! Source: `doc/proto.md`, "Fixed newstyle negotiation" and "Option types". No encryption, no
//! structured replies, one export: the card's name or the empty one.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::export::Export;
use super::incoming::{DropReason, Incoming};
use super::wire::{
    self, OPTION_MAGIC, SERVER_MAGIC, handshake, info, option, option_reply as kind,
};

/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(10);
/// More than any client has to ask.
const MOST_OPTIONS: u32 = 64;
/// More than an export's name (4096 at most) and the pieces of information that there are.
const MOST_OPTION_BYTES: u32 = 8192;

/// Answers a client's options until it begins.
///
/// # Errors
/// See [`DropReason`], also when the client ends here.
pub fn negotiate<R: Read>(
    input: &mut Incoming<R>,
    output: &mut impl Write,
    export: &Export,
) -> Result<(), DropReason> {
    let deadline = Instant::now() + LIMIT;
    let offered = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
    let mut greeting = Vec::with_capacity(18);
    greeting.extend(SERVER_MAGIC.to_be_bytes());
    greeting.extend(OPTION_MAGIC.to_be_bytes());
    greeting.extend(offered.to_be_bytes());
    output.write_all(&greeting)?;
    let mut client = Client { input, deadline };
    let flags = client.number()?;
    if flags & !u32::from(offered) != 0 || flags & u32::from(handshake::FIXED_NEWSTYLE) == 0 {
        return Err(DropReason::Nonsense("flags that were not offered"));
    }
    let no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
    for _ in 0..MOST_OPTIONS {
        let (option, data) = client.option()?;
        match answer(option, &data, export, no_zeroes) {
            Step::Go(bytes) => {
                output.write_all(&bytes)?;
                return output.flush().map_err(DropReason::from);
            }
            Step::GoOn(bytes) => output.write_all(&bytes)?,
            Step::End(bytes) => {
                output.write_all(&bytes)?;
                return Err(DropReason::Gone);
            }
        }
    }
    Err(DropReason::Nonsense("options without end"))
}

/// What to send, and how to go on.
enum Step {
    GoOn(Vec<u8>),
    Go(Vec<u8>),
    End(Vec<u8>),
}

fn answer(option: u32, data: &[u8], export: &Export, no_zeroes: bool) -> Step {
    let reply = |kind, data: &[u8]| wire::option_reply(option, kind, data);
    match option {
        option::EXPORT_NAME if export.answers_to(data) => {
            let mut bytes = Vec::with_capacity(134);
            bytes.extend(export.size_bytes().to_be_bytes());
            bytes.extend(export.flags().to_be_bytes());
            if !no_zeroes {
                bytes.extend([0; 124]);
            }
            Step::Go(bytes)
        }
        // The only answer that the protocol has for this option.
        option::EXPORT_NAME => Step::End(Vec::new()),
        option::ABORT => Step::End(reply(kind::ACK, &[])),
        option::LIST if !data.is_empty() => Step::GoOn(reply(kind::ERR_INVALID, &[])),
        option::LIST => {
            let name = export.name().as_bytes();
            let length = u32::try_from(name.len()).expect("a file's name");
            let mut bytes = reply(kind::SERVER, &[&length.to_be_bytes(), name].concat());
            bytes.extend(reply(kind::ACK, &[]));
            Step::GoOn(bytes)
        }
        option::INFO | option::GO => match Wanted::parse(data) {
            None => Step::GoOn(reply(kind::ERR_INVALID, &[])),
            Some(wanted) if !export.answers_to(wanted.name) => {
                Step::GoOn(reply(kind::ERR_UNKNOWN, &[]))
            }
            Some(wanted) => {
                let mut bytes = Vec::new();
                for piece in described(export, &wanted) {
                    bytes.extend(reply(kind::INFO, &piece));
                }
                bytes.extend(reply(kind::ACK, &[]));
                if option == option::GO { Step::Go(bytes) } else { Step::GoOn(bytes) }
            }
        },
        _ => Step::GoOn(reply(kind::ERR_UNSUP, &[])),
    }
}

/// The pieces of information about an export: the two that matter, and those asked for.
fn described(export: &Export, wanted: &Wanted<'_>) -> Vec<Vec<u8>> {
    let mut about = info::EXPORT.to_be_bytes().to_vec();
    about.extend(export.size_bytes().to_be_bytes());
    about.extend(export.flags().to_be_bytes());
    let mut sizes = info::BLOCK_SIZE.to_be_bytes().to_vec();
    for size in export.block_sizes() {
        sizes.extend(size.to_be_bytes());
    }
    let mut pieces = vec![about, sizes];
    for (kind, text) in [(info::NAME, export.name()), (info::DESCRIPTION, export.title())] {
        if wanted.asks_for(kind) {
            pieces.push([&kind.to_be_bytes(), text.as_bytes()].concat());
        }
    }
    pieces
}

/// The data of INFO and GO.
struct Wanted<'a> {
    name: &'a [u8],
    kinds: &'a [u8],
}

impl<'a> Wanted<'a> {
    fn parse(data: &'a [u8]) -> Option<Self> {
        let (length, rest) = data.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (name, rest) = rest.split_at_checked(length)?;
        let (count, kinds) = rest.split_first_chunk::<2>()?;
        let whole = kinds.len() == 2 * usize::from(u16::from_be_bytes(*count));
        whole.then_some(Self { name, kinds })
    }

    fn asks_for(&self, kind: u16) -> bool {
        self.kinds.chunks(2).any(|bytes| bytes == kind.to_be_bytes())
    }
}

struct Client<'a, R> {
    input: &'a mut Incoming<R>,
    deadline: Instant,
}

impl<R: Read> Client<'_, R> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), DropReason> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.input.fill(bytes, "the negotiation", left)
    }

    fn number(&mut self) -> Result<u32, DropReason> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn option(&mut self) -> Result<(u32, Vec<u8>), DropReason> {
        let mut magic = [0; 8];
        self.fill(&mut magic)?;
        if u64::from_be_bytes(magic) != OPTION_MAGIC {
            return Err(DropReason::Nonsense("an option that does not begin as one"));
        }
        let (option, length) = (self.number()?, self.number()?);
        if length > MOST_OPTION_BYTES {
            return Err(DropReason::Nonsense("an option longer than any"));
        }
        let mut data = vec![0; length as usize];
        self.fill(&mut data)?;
        Ok((option, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::export::tests::small_export;

    fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap();
        let (option, length) = (option.to_be_bytes(), length.to_be_bytes());
        [&OPTION_MAGIC.to_be_bytes()[..], &option, &length, data].concat()
    }

    fn wanted(name: &[u8], kinds: &[u16]) -> Vec<u8> {
        let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
        data.extend(name);
        data.extend(u16::try_from(kinds.len()).unwrap().to_be_bytes());
        data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
        data
    }

    /// What a client that says `said` after its flags is answered after the greeting.
    fn talk(flags: u32, said: &[Vec<u8>]) -> (Result<(), DropReason>, Vec<u8>) {
        let input = [&flags.to_be_bytes()[..], &said.concat()].concat();
        let mut output = Vec::new();
        let result =
            negotiate(&mut Incoming::new(input.as_slice()), &mut output, &small_export(&[]));
        (result, output.split_off(18))
    }

    #[test]
    fn a_client_that_goes_is_told_size_flags_and_block_sizes() {
        let go = option_bytes(option::GO, &wanted(b"", &[info::BLOCK_SIZE]));
        let (result, output) = talk(3, &[go]);
        result.unwrap();
        let export = small_export(&[]);
        let about = [&[0, 0][..], &(1_u64 << 20).to_be_bytes(), &export.flags().to_be_bytes()];
        assert_eq!(output[20..32], about.concat());
        let sizes = [512_u32, 4096, 32 << 20].map(u32::to_be_bytes).concat();
        assert_eq!(output[52..66], [&[0, 3][..], &sizes].concat());
        assert_eq!(output[66..], wire::option_reply(option::GO, kind::ACK, &[]));
    }

    #[test]
    fn the_oldest_way_to_begin_is_known_with_and_without_zeros() {
        for (flags, length) in [(3, 10), (1, 134)] {
            let (result, output) = talk(flags, &[option_bytes(option::EXPORT_NAME, b"small")]);
            result.unwrap();
            assert_eq!(output.len(), length);
        }
        let (result, output) = talk(3, &[option_bytes(option::EXPORT_NAME, b"other")]);
        assert!(matches!(result, Err(DropReason::Gone)));
        assert_eq!(output, b"");
    }

    #[test]
    fn what_is_not_known_or_malformed_is_refused_and_the_talk_goes_on() {
        let kind_of = |said: Vec<u8>| {
            let (result, output) = talk(3, &[said, option_bytes(option::ABORT, &[])]);
            assert!(matches!(result, Err(DropReason::Gone)));
            assert!(output.ends_with(&wire::option_reply(option::ABORT, kind::ACK, &[])));
            u32::from_be_bytes(output[12..16].try_into().unwrap())
        };
        assert_eq!(kind_of(option_bytes(8, &[])), kind::ERR_UNSUP);
        assert_eq!(kind_of(option_bytes(option::LIST, b"x")), kind::ERR_INVALID);
        assert_eq!(kind_of(option_bytes(option::LIST, b"")), kind::SERVER);
        assert_eq!(kind_of(option_bytes(option::INFO, b"\xff\xff\xff\xff")), kind::ERR_INVALID);
        assert_eq!(kind_of(option_bytes(option::GO, &wanted(b"x", &[]))), kind::ERR_UNKNOWN);
        let mut longer = wanted(b"", &[]);
        longer.push(0);
        assert_eq!(kind_of(option_bytes(option::GO, &longer)), kind::ERR_INVALID);
    }

    #[test]
    fn nonsense_and_floods_are_dropped() {
        let nonsense = |(result, _): (Result<(), DropReason>, Vec<u8>)| {
            assert!(matches!(result, Err(DropReason::Nonsense(_))), "{result:?}");
        };
        nonsense(talk(0, &[]));
        nonsense(talk(0xffff_ffff, &[]));
        nonsense(talk(3, &[vec![7; 16]]));
        let long = option_bytes(option::LIST, &vec![0; MOST_OPTION_BYTES as usize + 1]);
        nonsense(talk(3, &[long]));
        nonsense(talk(3, &vec![option_bytes(option::LIST, &[]); 1000]));
        let (result, _) = talk(3, &[option_bytes(option::LIST, &[])[..7].to_vec()]);
        assert!(matches!(result, Err(DropReason::Gone)));
    }
}
