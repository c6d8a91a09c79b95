//! What a request takes from a program to the card and back by itself, over a unix socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::wire::{REPLY_BYTES, REQUEST_BYTES};

const READS: usize = 200;
const PAGE_BYTES: usize = 4096;
/// More than this is another program's doing, not the way's.
const MOST: Duration = Duration::from_micros(100);

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
    let mut times = Vec::with_capacity(READS);
    for _ in 0..READS {
        let begun = Instant::now();
        client.write_all(&[0; REQUEST_BYTES])?;
        client.read_exact(&mut reply)?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[READS / 2].min(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_takes_some_time_and_not_too_much() {
        let way = measure().unwrap();
        assert!(!way.is_zero() && way <= MOST, "{way:?}");
    }
}
