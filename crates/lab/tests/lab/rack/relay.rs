//! A power switch over HTTP for labgrid's model `rest`: `PUT` 1 or 0 switches, `GET` reads the
//! state. It runs until the test process ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::board::Board;

/// The switch of one board.
pub struct Relay {
    port: u16,
    is_broken: Arc<AtomicBool>,
}

impl Relay {
    pub fn start(board: Arc<dyn Board>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let is_broken = Arc::new(AtomicBool::new(false));
        let broken = Arc::clone(&is_broken);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Ignores clients that disconnect.
                let _ = answer(stream, board.as_ref(), broken.load(Ordering::Relaxed));
            }
        });
        Self { port, is_broken }
    }

    /// The URL; labgrid replaces `{index}` with the number of a socket.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{{index}}", self.port)
    }

    /// Makes it report errors.
    pub fn break_down(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }
}

fn answer(mut stream: TcpStream, board: &dyn Board, is_broken: bool) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if header.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, state) = match (is_broken, request.starts_with("PUT")) {
        (true, _) => ("500 Broken", ""),
        (false, true) => {
            board.switch(body == b"1");
            ("200 OK", "")
        }
        (false, false) => ("200 OK", if board.has_power() { "1" } else { "0" }),
    };
    let length = state.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{state}"
    )
}
