//! Runs the command at a pseudoterminal, to test prompts.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

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

impl Terminal {
    pub fn start(mut command: Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let theirs = File::from(theirs);
        command.stdin(theirs.try_clone().unwrap()).stderr(theirs).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        // Otherwise the terminal stays open after the child ends.
        drop(command);
        let keyboard = File::from(ours);
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
