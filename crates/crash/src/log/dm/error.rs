//! Why a file is not a log of dm-log-writes that crash states can be built from, or cannot be
//! written.

use std::io;

/// More marks are not named.
const MOST_NAMED: usize = 10;

#[derive(Debug, thiserror::Error)]
pub enum DmLogError {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// In words, why these are not the bytes of such a log.
    #[error("it is no log of dm-log-writes: {0}")]
    Format(String),
    #[error("it has no mark `{mark}`{}", named(marks))]
    NoMark { mark: String, marks: Vec<String> },
    /// Nothing says which writes made the file system and which come from the work.
    #[error("it has no mark that says where the work begins{}", named(marks))]
    NoStart { marks: Vec<String> },
    #[error("it has no requests after the start of the work")]
    Empty,
    /// A mark has one sector with the head of its entry.
    #[error(
        "an acknowledged line has {bytes} bytes, too many for a mark: `{}…`",
        start.escape_debug()
    )]
    LongMark { bytes: usize, start: String },
}

impl DmLogError {
    pub(super) fn format(reason: impl Into<String>) -> Self {
        Self::Format(reason.into())
    }
}

fn named(marks: &[String]) -> String {
    if marks.is_empty() {
        return ", and no marks at all".to_owned();
    }
    let first: Vec<String> =
        marks.iter().take(MOST_NAMED).map(|mark| format!("`{}`", mark.escape_debug())).collect();
    let more = if marks.len() > MOST_NAMED { " and more" } else { "" };
    format!("; its marks are {}{more}", first.join(", "))
}
