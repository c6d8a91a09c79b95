//! The numbers and the fixed parts of the NBD protocol.
//!
//! Source: the NBD protocol document, `doc/proto.md` of github.com/NetworkBlockDevice/nbd: fixed
//! newstyle negotiation and simple replies. All integers are big-endian.

/// The first eight bytes from the server: `NBDMAGIC`.
pub const SERVER_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// The next eight, and the first of every option: `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// The first of every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// The first of every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// The first of every simple reply.
pub const REPLY_MAGIC: u32 = 0x6744_6698;

/// Handshake flags, the same bits from server and client.
pub mod handshake {
    /// The server answers options it does not know.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No 124 bytes of zeros after the export's size and flags.
    pub const NO_ZEROES: u16 = 2;
}

/// Options of a client.
pub mod option {
    /// Choose an export, and begin.
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    /// Name the exports.
    pub const LIST: u32 = 3;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export, and begin.
    pub const GO: u32 = 7;
}

pub mod option_reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    /// A piece of information.
    pub const INFO: u32 = 3;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The option's data is malformed.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
}

pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// The export's own name.
    pub const NAME: u16 = 1;
    /// A line for people.
    pub const DESCRIPTION: u16 = 2;
    /// The sizes that a request may have.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what the export can.
pub mod transmission {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1;
    /// It takes flushes.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// It takes writes that are to be on the device when they are answered.
    pub const SEND_FUA: u16 = 1 << 3;
    /// It takes discards.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// It takes requests to write zeros.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// A flush on one connection covers what any connection was answered for.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
}

pub mod command_flag {
    /// To be on the device when answered.
    pub const FUA: u16 = 1;
    /// Zeros are not to be discarded.
    pub const NO_HOLE: u16 = 2;
}

/// Errors of replies, with the numbers of Linux.
pub mod error {
    pub const NONE: u32 = 0;
    /// The card failed or has no power.
    pub const EIO: u32 = 5;
    /// The request cannot be.
    pub const EINVAL: u32 = 22;
    /// It goes beyond the end.
    pub const ENOSPC: u32 = 28;
    /// The card cannot do that.
    pub const ENOTSUP: u32 = 95;
}

/// The length of a request without its data.
pub const REQUEST_BYTES: usize = 28;
/// The length of a reply without its data.
pub const REPLY_BYTES: usize = 16;

/// A request without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NbdRequest {
    /// [`command_flag`].
    pub flags: u16,
    /// [`command`].
    pub command: u16,
    /// Identifies the reply for the client.
    pub cookie: u64,
    /// From where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub length: u32,
}

impl NbdRequest {
    /// From its bytes; `None` when they do not begin as a request does.
    pub fn from_bytes(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let request = Self {
            flags: u16::from_be_bytes(part(bytes, 4)),
            command: u16::from_be_bytes(part(bytes, 6)),
            cookie: u64::from_be_bytes(part(bytes, 8)),
            offset: u64::from_be_bytes(part(bytes, 16)),
            length: u32::from_be_bytes(part(bytes, 24)),
        };
        (u32::from_be_bytes(part(bytes, 0)) == REQUEST_MAGIC).then_some(request)
    }

    pub fn to_bytes(self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// A simple reply without its data.
pub fn reply(cookie: u64, error: u32) -> [u8; REPLY_BYTES] {
    let mut bytes = [0; REPLY_BYTES];
    bytes[..4].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// A reply to an option.
pub fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("a name and a few numbers");
    let mut bytes = Vec::with_capacity(20 + data.len());
    bytes.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(data);
    bytes
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of that length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_numbers_are_those_of_the_document() {
        assert_eq!(SERVER_MAGIC, 0x4e42_444d_4147_4943);
        assert_eq!(OPTION_MAGIC, 0x4948_4156_454f_5054);
    }

    #[test]
    fn a_request_survives_being_written_and_read() {
        let request = NbdRequest { flags: 1, command: 6, cookie: 77, offset: 1 << 40, length: 512 };
        assert_eq!(NbdRequest::from_bytes(&request.to_bytes()), Some(request));
        let mut wrong = request.to_bytes();
        wrong[0] ^= 1;
        assert_eq!(NbdRequest::from_bytes(&wrong), None);
    }

    #[test]
    fn replies_have_the_documents_layout() {
        assert_eq!(reply(1, 5), [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1]);
        let acknowledged = option_reply(option::GO, option_reply::ACK, &[9]);
        assert_eq!(acknowledged.len(), 21);
        assert_eq!(acknowledged[8..], [0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1, 9]);
    }
}
