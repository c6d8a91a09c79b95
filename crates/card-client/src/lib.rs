//! The client side of a served card: starts its server and asks it.
//!
//! [`CardProcess`] starts `flashfit-card-server` in another process and talks to it through its
//! standard input and output; [`stats`], [`cut`] and the others ask any card that is being served,
//! through its control socket ([`address`]). Both send the lines of [`protocol`].

pub mod address;
mod process;
pub mod protocol;
mod query;

pub use process::{CardProcess, ProcessError};
pub use protocol::{CardFailure, CardReply};
pub use query::{
    AskError, cut, idle, power_on, reset_stats, save, spare_blocks, stats, write_image,
};
