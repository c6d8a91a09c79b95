//! A card served by a process of our own, seen from the process that started it.
//!
//! This is the one place besides `flashfit-host` that starts a process: it talks to it for as long
//! as it runs. The card's process has its own process group, so that an interrupt from the
//! terminal does not take the card away from under a file system; it ends when its standard input
//! does, so also when this process is killed.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashfit_card::Counters;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::{loop_renewal, waiting};
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::protocol::{CardFailure, CardQuery, CardReply, RequestKind, STOP_WAIT, line};

const START_WAIT: Duration = Duration::from_secs(30);
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// What the card's process itself allows its device's last user, and more. A process that then
/// saves its state is not killed: the state of a large card is large.
const END_WAIT: Duration = STOP_WAIT.saturating_add(END_MARGIN);
const END_MARGIN: Duration = Duration::from_secs(10);
/// How often a caller hears that the state is still being saved.
const SAVING_INTERVAL: Duration = Duration::from_secs(30);
/// For a process that was killed. One that a file system holds up in the kernel cannot be killed.
const KILL_WAIT: Duration = Duration::from_secs(10);

/// Why there is no served card, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// Its program cannot be run.
    #[error("cannot start the process of the simulated card, {}: {source}", program.display())]
    Start { program: PathBuf, source: std::io::Error },
    /// The card's process says why it cannot serve.
    #[error(transparent)]
    Failed(#[from] CardFailure),
    /// It has ended, or does not speak as it should.
    #[error("the process of the simulated card {what}")]
    Lost {
        /// How, and what it said last.
        what: String,
    },
}

impl UserError for ProcessError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Start { .. } => ExitClass::Environment,
            Self::Failed(failure) => failure.class(),
            Self::Lost { .. } => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Failed(failure) => failure.hint(),
            Self::Start { .. } | Self::Lost { .. } => None,
        }
    }
}

/// How a process that was asked to stop is left.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    Ended(ExitStatus),
    Killed,
    /// It finishes alone, also after this process has ended.
    StillSaving,
}

/// A card served by a child process; ended when dropped. One that is still saving its state after
/// 20 seconds is then left to finish alone.
#[derive(Debug)]
pub struct CardProcess {
    device: PathBuf,
    notes: Vec<String>,
    talk: Mutex<Talk>,
}

impl CardProcess {
    /// Starts `program` with `args`, which must end up in `flashfit_card_server::run` with its
    /// standard input and output, and waits until the device is there.
    ///
    /// # Errors
    /// See [`ProcessError`]; then no process is left.
    pub fn start(program: &Path, args: &[OsString]) -> Result<Self, ProcessError> {
        let mut talk = Talk::start(program, args)?;
        match talk.receive(START_WAIT)? {
            CardReply::Ready { device, notes } => {
                talk.device = Some(device.clone());
                Ok(Self { device, notes, talk: Mutex::new(talk) })
            }
            CardReply::Failed(failure) => Err(failure.into()),
            other => Err(talk.lost(&format!("begins with {other:?}"))),
        }
    }

    /// Its block device, `/dev/loopN`, or its socket.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// In which respects this kernel does not show the device as the card model has it.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// For a process that allows its device's last user another time than [`STOP_WAIT`].
    pub fn allow_stop_wait(&self, wait: Duration) {
        self.talk().end_wait = wait.saturating_add(END_MARGIN);
    }

    /// The process that serves it.
    pub fn id(&self) -> u32 {
        self.talk().child.id()
    }

    /// Waits until its process ends or `interrupt` is raised.
    pub fn wait(&self, interrupt: &Interrupt) {
        // A process that cannot be waited for has ended.
        let _ = waiting::child(&mut self.talk().child, Some(interrupt), Duration::MAX);
    }

    /// Whether its process has not ended.
    pub fn is_running(&self) -> bool {
        matches!(self.talk().child.try_wait(), Ok(None))
    }

    /// The card's counters.
    ///
    /// # Errors
    /// [`ProcessError::Lost`].
    pub fn counters(&self) -> Result<Counters, ProcessError> {
        self.talk().ask(RequestKind::Counters)
    }

    /// The card's counters, which begin at 0 again.
    ///
    /// # Errors
    /// [`ProcessError::Lost`].
    pub fn reset_counters(&self) -> Result<Counters, ProcessError> {
        self.talk().ask(RequestKind::ResetCounters)
    }

    /// Ends the card. What is mounted from its device should have been unmounted, and what was
    /// written to it synced: a process that is still writing back after 20 seconds is killed. One
    /// that saves its state is waited for.
    ///
    /// # Errors
    /// [`ProcessError::Failed`] with what the card's process says: its device is still in use, or
    /// its state cannot be saved; [`ProcessError::Lost`] when it had ended before or had to be
    /// killed. No process is left in either case.
    pub fn stop(self) -> Result<(), ProcessError> {
        self.stop_with(&mut |_| ())
    }

    /// As [`CardProcess::stop`]; `still_saving` is called with the time since then, after 20
    /// seconds and every 30 seconds from then on, while the state is being saved. The save goes on
    /// if this process ends meanwhile.
    ///
    /// # Errors
    /// As [`CardProcess::stop`].
    pub fn stop_with(self, still_saving: &mut dyn FnMut(Duration)) -> Result<(), ProcessError> {
        let mut talk = self.talk();
        match talk.end(Some(still_saving)) {
            Ending::Ended(status) if status.success() => Ok(()),
            Ending::Ended(status) => match talk.last_failure() {
                Some(failure) => Err(failure.into()),
                None => Err(talk.lost(&format!("ended with {status}"))),
            },
            Ending::Killed => Err(talk.lost("did not end and was killed")),
            Ending::StillSaving => Err(talk.lost("cannot be waited for")),
        }
    }

    fn talk(&self) -> std::sync::MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process and the pipes to it; ended when dropped.
#[derive(Debug)]
struct Talk {
    child: Child,
    questions: Option<ChildStdin>,
    answers: Receiver<String>,
    /// What arrived without being asked for, at the end.
    last_answers: Vec<CardReply>,
    end_wait: Duration,
    complaints: Option<JoinHandle<String>>,
    /// Its device, until the process has ended.
    device: Option<PathBuf>,
}

impl Talk {
    fn start(program: &Path, args: &[OsString]) -> Result<Self, ProcessError> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| ProcessError::Start { program: program.to_owned(), source })?;
        let questions = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut errors = child.stderr.take().expect("it was asked for");
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for text in output.lines().map_while(Result::ok) {
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        let complaints = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before an error is all there is to show.
            let _ = errors.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).trim().to_owned()
        });
        Ok(Self {
            child,
            questions,
            answers,
            last_answers: Vec::new(),
            end_wait: END_WAIT,
            complaints: Some(complaints),
            device: None,
        })
    }

    fn ask(&mut self, request: RequestKind) -> Result<Counters, ProcessError> {
        let text = line(&CardQuery::new(request));
        let sent = self.questions.as_mut().map(|pipe| pipe.write_all(text.as_bytes()));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.lost("has ended"));
        }
        match self.receive(ANSWER_WAIT)? {
            CardReply::Counters(counters) => Ok(counters),
            other => Err(self.lost(&format!("answers {other:?}"))),
        }
    }

    fn receive(&mut self, wait: Duration) -> Result<CardReply, ProcessError> {
        match self.answers.recv_timeout(wait) {
            Ok(text) => match serde_json::from_slice(text.as_bytes()) {
                // Sent without being asked, by a card that another process has stopped.
                Ok(CardReply::Saving {}) => {
                    self.last_answers.push(CardReply::Saving {});
                    self.receive(wait)
                }
                Ok(answer) => Ok(answer),
                Err(error) => Err(self.lost(&format!("says `{text}`: {error}"))),
            },
            Err(RecvTimeoutError::Timeout) => {
                Err(self.lost(&format!("did not answer for {} s", wait.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.lost("has ended")),
        }
    }

    /// Why a process that has ended did not end as it should, where it said so.
    fn last_failure(&mut self) -> Option<CardFailure> {
        self.last_answers.extend(self.answers.iter().filter_map(|text| reply(&text)));
        let mut failures = self.last_answers.drain(..).filter_map(|answer| match answer {
            CardReply::Failed(failure) => Some(failure),
            _ => None,
        });
        failures.next_back()
    }

    /// Whether its device has gone and it writes its state.
    fn is_saving(&mut self) -> bool {
        self.last_answers.extend(self.answers.try_iter().filter_map(|text| reply(&text)));
        self.last_answers.contains(&CardReply::Saving {})
    }

    /// Ends the process and reports how it was lost, with what it printed last.
    fn lost(&mut self, what: &str) -> ProcessError {
        let ending = self.end(None);
        // The complaints of a process that goes on have no end yet.
        let complaints = self.complaints.take().filter(|_| ending != Ending::StillSaving);
        let complaints = complaints.and_then(|thread| thread.join().ok());
        let what = match complaints.as_deref().unwrap_or_default().lines().next_back() {
            Some(last) => format!("{what} ({last})"),
            None => what.to_owned(),
        };
        ProcessError::Lost { what }
    }

    /// Asks it to stop by closing its input, waits, and kills it in the end. One that saves its
    /// state is waited for only with `still_saving`.
    fn end(&mut self, still_saving: Option<&mut dyn FnMut(Duration)>) -> Ending {
        let ending = self.wait_or_kill(still_saving);
        // One that saves its state has given its device back.
        let device = self.device.take().filter(|_| ending != Ending::StillSaving);
        if let Some(device) = device {
            // One that has ended by itself has done this, or could not because of a user.
            let by_itself = matches!(ending, Ending::Ended(status) if status.code().is_some());
            if !by_itself && device.starts_with("/dev") {
                let _ = loop_renewal::renew(&device);
            }
        }
        ending
    }

    fn wait_or_kill(&mut self, still_saving: Option<&mut dyn FnMut(Duration)>) -> Ending {
        drop(self.questions.take());
        let begun = Instant::now();
        let mut ended = waiting::child(&mut self.child, None, self.end_wait);
        if matches!(ended, Ok(None)) && self.is_saving() {
            let Some(still_saving) = still_saving else { return Ending::StillSaving };
            while matches!(ended, Ok(None)) {
                still_saving(begun.elapsed());
                ended = waiting::child(&mut self.child, None, SAVING_INTERVAL);
            }
        }
        if let Ok(Some(status)) = ended {
            return Ending::Ended(status);
        }
        // It may have ended this very moment.
        let _ = self.child.kill();
        let _ = waiting::child(&mut self.child, None, KILL_WAIT);
        Ending::Killed
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.end(None);
    }
}

fn reply(text: &str) -> Option<CardReply> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that goes on after its input has ended; for `saving`, one that has said before
    /// that it saves its state.
    fn process(saving: bool, then: &str) -> Talk {
        let said = line(&CardReply::Saving {});
        let first = if saving { format!("echo '{}';", said.trim_end()) } else { String::new() };
        let script = format!("{first} cat; {then}");
        let mut talk = Talk::start(Path::new("sh"), &["-c".into(), script.into()]).unwrap();
        talk.end_wait = Duration::from_millis(200);
        let begun = Instant::now();
        while saving && !talk.is_saving() {
            assert!(begun.elapsed() < Duration::from_secs(300), "it says nothing");
            std::thread::sleep(Duration::from_millis(10));
        }
        talk
    }

    #[test]
    fn only_a_process_that_saves_its_state_is_waited_for() {
        assert_eq!(process(false, "exec sleep 600").end(Some(&mut |_| ())), Ending::Killed);
        let mut said = Vec::new();
        let ending = process(true, "sleep 1; exit 7").end(Some(&mut |after| said.push(after)));
        assert!(matches!(ending, Ending::Ended(status) if status.code() == Some(7)), "{ending:?}");
        assert!(!said.is_empty() && said[0] >= Duration::from_millis(200), "{said:?}");
    }

    #[test]
    fn one_that_still_saves_its_state_is_left_to_finish() {
        let folder = tempfile::tempdir().unwrap();
        let [go_on, finished] = ["go-on", "finished"].map(|name| folder.path().join(name));
        let then = format!(
            "while [ ! -e {} ]; do sleep 0.1; done; touch {}",
            go_on.display(),
            finished.display()
        );
        // Would wait for ever if it waited for the end.
        drop(process(true, &then));
        assert!(!finished.exists());
        std::fs::write(&go_on, "").unwrap();
        let begun = Instant::now();
        while !finished.exists() {
            assert!(begun.elapsed() < Duration::from_secs(300), "it was killed");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_card_that_is_being_saved_still_answers() {
        let counters = line(&CardReply::Counters(Counters::default()));
        let then = format!("echo '{}'", counters.trim_end());
        let said = line(&CardReply::Saving {});
        let script = format!("echo '{}'; {then}; cat", said.trim_end());
        let mut talk = Talk::start(Path::new("sh"), &["-c".into(), script.into()]).unwrap();
        assert_eq!(talk.ask(RequestKind::Counters).unwrap(), Counters::default());
        assert!(talk.is_saving());
    }
}
