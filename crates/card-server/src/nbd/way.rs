//! What a request takes from a program to the card and back by itself, over a unix socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::wire::{REPLY_BYTES, REQUEST_BYTES};
use crate::way::{PAGE_BYTES, median};

/// The median over some exchanges of the size of a read of a page.
///
/// # Errors
/// When there are no sockets to be had.
pub fn measure() -> std::io::Result<Duration> {
    let (mut client, mut server) = UnixStream::pair()?;
    std::thread::spawn(move || -> std::io::Result<()> {
        let (mut request, reply) = ([0; REQUEST_BYTES], [0; REPLY_BYTES + PAGE_BYTES]);
        loop {
            server.read_exact(&mut request)?;
            server.write_all(&reply)?;
        }
    });
    let mut reply = [0; REPLY_BYTES + PAGE_BYTES];
    median(|| {
        client.write_all(&[0; REQUEST_BYTES])?;
        client.read_exact(&mut reply)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::way::MOST;

    #[test]
    fn a_way_takes_some_time_and_not_too_much() {
        let way = measure().unwrap();
        assert!(!way.is_zero() && way <= MOST, "{way:?}");
    }
}
