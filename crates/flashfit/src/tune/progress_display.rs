//! Where progress is shown: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{note, warn};
use crate::tune::args::ProgressArg;

/// The first line comes as soon as there is an estimate.
pub const LINE_INTERVAL: Duration = Duration::from_secs(30);

pub enum Shown {
    Bar(ProgressBar),
    Lines { last: Instant, first: bool },
    Nothing,
}

impl Shown {
    pub fn new(when: ProgressArg) -> Self {
        let terminal = std::io::stderr().is_terminal();
        match when {
            ProgressArg::Never => Self::Nothing,
            ProgressArg::Auto if terminal => Self::Bar(bar()),
            ProgressArg::Auto | ProgressArg::Always => {
                Self::Lines { last: Instant::now(), first: true }
            }
        }
    }

    pub fn say(&self, text: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| note(text)),
            Self::Lines { .. } => note(text),
            Self::Nothing => {}
        }
    }

    /// What happens now, besides trials of the search.
    pub fn now(&self, what: &str) {
        match self {
            Self::Bar(bar) => {
                bar.set_prefix("");
                bar.set_message(what.to_owned());
            }
            Self::Lines { .. } => note(&format!("now {what}")),
            Self::Nothing => {}
        }
    }

    pub fn set_position(&self, made: u64) {
        if let Self::Bar(bar) = self {
            bar.set_position(made);
        }
    }

    /// Also where nothing else is shown.
    pub fn warn(&self, text: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| warn(text)),
            Self::Lines { .. } | Self::Nothing => warn(text),
        }
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// A trial on a bar: how far the run is, what it has spent, and what is measured, a line each.
pub fn show_trial(bar: &ProgressBar, (made, all): (u64, u64), text: [&str; 3]) {
    let [remaining, spent, what] = text;
    bar.set_length(all);
    bar.set_position(made);
    bar.set_prefix(format!(", {remaining}\n{spent}"));
    bar.set_message(format!("now {what}"));
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(1).with_style(style());
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:16} {pos}/{len}{prefix}\n{wide_msg}")
        .expect("the template is constant")
}

#[cfg(test)]
mod tests;
