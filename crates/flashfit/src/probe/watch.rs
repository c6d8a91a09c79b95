//! Showing how far a probe is, and ending it when the user interrupts.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use flashfit_geometry::probed::ProbeObserver;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::waiting;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::note;
use crate::rendering::duration;

/// A line this often where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(30);
/// Parts of the bar.
const WHOLE: u64 = 1000;

/// Looks on while a probe works.
pub struct ProbeProgress {
    interrupt: Interrupt,
    bar: Option<ProgressBar>,
    last: Instant,
    /// Whether the user may be asked for more time.
    asks: bool,
}

impl ProbeProgress {
    /// A bar on a terminal, a line every half minute elsewhere.
    pub fn new(interrupt: Interrupt) -> Self {
        let bar = std::io::stderr().is_terminal().then(bar);
        Self { interrupt, bar, last: Instant::now(), asks: true }
    }

    /// Ends with the time, for a command to which the user agrees once.
    #[must_use]
    pub fn without_questions(self) -> Self {
        Self { asks: false, ..self }
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }

    /// Whether the user interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.is_raised()
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:16} {percent:>3} %, {wide_msg}")
        .expect("the template is constant");
    ProgressBar::new(WHOLE).with_style(style)
}

impl ProbeObserver for ProbeProgress {
    fn step(&mut self, done: f64, what: &str) -> ControlFlow<()> {
        let done = done.clamp(0.0, 1.0);
        match &self.bar {
            Some(bar) => {
                bar.set_position((done * WHOLE as f64) as u64);
                bar.set_message(what.to_owned());
            }
            None if self.last.elapsed() >= LINE_INTERVAL => {
                self.last = Instant::now();
                note(&format!("{:.0} % done; now {what}", done * 100.0));
            }
            None => {}
        }
        if self.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Asks whether to go on, where it may; without a terminal the probe ends. An interrupt is a
    /// no.
    fn extend(&mut self, elapsed_ns: u64) -> Option<u64> {
        if !self.asks || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return None;
        }
        let time = duration(Duration::from_nanos(elapsed_ns));
        let ask = || {
            let mut err = anstream::stderr().lock();
            let _ = write!(err, "{time} are over. Go on for as long again? [y/N] ");
            let _ = err.flush();
            let typed = waiting::line(std::io::stdin().as_fd(), &self.interrupt).ok().flatten();
            if typed.is_none() {
                let _ = writeln!(err);
            }
            typed.is_some_and(|typed| typed.trim().eq_ignore_ascii_case("y"))
        };
        let goes_on = match &self.bar {
            Some(bar) => bar.suspend(ask),
            None => ask(),
        };
        goes_on.then_some(elapsed_ns)
    }
}
