//! Runs the command at a pseudoterminal, to test prompts and what fits its width.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::fixture::Ended;
use crate::machine::signal;

const PATIENCE: Duration = Duration::from_secs(60);

/// A command whose standard input and error are a terminal.
pub struct Terminal {
    child: Child,
    keyboard: File,
    screen: std::sync::mpsc::Receiver<Vec<u8>>,
    shown: String,
}

/// Our end and that of a command.
fn pair() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (ours.into(), theirs.into())
}

/// Runs a command whose standard output is a terminal with so many columns.
pub fn shown_at(columns: u16, mut command: Command) -> Ended {
    let (mut ours, theirs) = pair();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).unwrap();
    let child = command.env("NO_COLOR", "1").stdout(theirs).spawn().unwrap();
    // Otherwise the terminal stays open after the child ends.
    drop(command);
    let reader = std::thread::spawn(move || {
        let mut shown = Vec::new();
        // A terminal without a process ends in an error.
        let _ = ours.read_to_end(&mut shown);
        String::from_utf8(shown).unwrap().replace("\r\n", "\n")
    });
    let ended = Ended::of(child);
    Ended { stdout: reader.join().unwrap(), ..ended }
}

/// Checks that a terminal of 80 columns shows no longer line.
#[track_caller]
pub fn fits(command: Command) {
    let ended = shown_at(80, command);
    let wide = ended.stdout.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{ended:#?}");
    assert!(!ended.stdout.is_empty(), "{ended:#?}");
}

impl Terminal {
    pub fn start(mut command: Command) -> Self {
        let (keyboard, theirs) = pair();
        command.stdin(theirs.try_clone().unwrap()).stderr(theirs).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        // Otherwise the terminal stays open after the child ends.
        drop(command);
        let mut reader = keyboard.try_clone().unwrap();
        let (sender, screen) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, screen, shown: String::new() }
    }

    /// Waits for this output; panics if the command ends first.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let begun = Instant::now();
        while !self.shown.contains(text) {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("waited in vain for `{text}` in {}", self.shown),
            }
        }
    }

    pub fn types(&mut self, line: &str) {
        self.keyboard.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn interrupts(&self) {
        signal(self.child.id(), Signal::INT);
    }

    /// Waits for the end; the terminal's output is returned as standard error.
    pub fn ends(mut self) -> Ended {
        let code = self.child.wait().unwrap().code();
        while let Ok(bytes) = self.screen.recv() {
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        Ended { code, stdout: String::new(), stderr: self.shown.replace("\r\n", "\n") }
    }
}
