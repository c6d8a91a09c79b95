//! A card over NBD, on a unix socket.
//!
//! A server of our own, since none was found that replies when a reply is due and drops whom it
//! should. Any user can run it, and qemu, libnbd, fio and the kernel's client can use it. What is
//! spoken is in [`wire`]; [`negotiation`] is what is said before the first request and
//! [`transmission`] what is said after.

mod export;
mod incoming;
pub mod negotiation;
mod server;
pub mod transmission;
mod way;
pub mod wire;

pub use export::Export;
pub use incoming::{Dropped, Incoming};
pub use server::{NbdServer, SocketError, serve_client};
