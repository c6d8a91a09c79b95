//! The least of an NBD client, written against the protocol document.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use flashfit_card_server::nbd::wire::{self, command, option};

/// A client that has begun.
pub struct NbdClient {
    /// The connection, for tests that say what a client should not.
    pub stream: UnixStream,
    cookie: u64,
}

impl NbdClient {
    /// Connects and begins.
    pub fn connect(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        stream.write_all(&3_u32.to_be_bytes()).unwrap();
        // No name, no wishes.
        stream.write_all(&option_bytes(option::GO, &[0; 6])).unwrap();
        loop {
            let mut head = [0; 20];
            stream.read_exact(&mut head).unwrap();
            let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
            let (kind, length) = (number(12), number(16));
            stream.read_exact(&mut vec![0; length as usize]).unwrap();
            assert!(kind < 1 << 31, "the server refuses to begin: {kind}");
            if kind == wire::option_reply::ACK {
                return Self { stream, cookie: 0 };
            }
        }
    }

    /// Sends a request and waits for its reply, which an error number may be.
    pub fn ask(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> Result<Vec<u8>, u32> {
        self.cookie += 1;
        let request = wire::NbdRequest { flags, command, cookie: self.cookie, offset, length };
        self.stream.write_all(&request.to_bytes()).unwrap();
        self.stream.write_all(data).unwrap();
        let (cookie, error) = self.reply().unwrap();
        assert_eq!(cookie, self.cookie);
        if error != 0 {
            return Err(error);
        }
        let mut bytes = vec![0; if command == command::READ { length as usize } else { 0 }];
        self.stream.read_exact(&mut bytes).unwrap();
        Ok(bytes)
    }

    /// The head of the next reply: cookie and error.
    pub fn reply(&mut self) -> std::io::Result<(u64, u32)> {
        let mut head = [0; wire::REPLY_BYTES];
        self.stream.read_exact(&mut head)?;
        assert_eq!(head[..4], wire::REPLY_MAGIC.to_be_bytes());
        let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
        Ok((u64::from_be_bytes(head[8..].try_into().unwrap()), error))
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        self.ask(command::READ, 0, offset, length, &[])
    }

    pub fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> Result<(), u32> {
        let length = u32::try_from(data.len()).unwrap();
        self.ask(command::WRITE, flags, offset, length, data).map(drop)
    }
}

pub fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&wire::OPTION_MAGIC.to_be_bytes()[..], &option.to_be_bytes(), &length, data].concat()
}
