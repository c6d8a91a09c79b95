//! `flashfit probe TARGET`, `flashfit probe --import FILE`: finds out how a medium is built, and says
//! how sure that is.

pub mod args;
mod chart;
mod document;
mod next;
mod plot;
mod render;
pub mod saved;
mod subject;
mod watch;
