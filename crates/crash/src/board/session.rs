//! A connection to the program on a board.

use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;
use flashfit_host::piped::PipedProgram;
use flashfit_user_error::{ExitClass, Hint};

use super::wire::{BoardReply, BoardRequest};
use crate::CrashError;
use crate::cuts::wire::{Arrival, FrameReader, GuestReply, GuestRequest, send};

/// How often an interrupt is looked for.
const LOOK_UP: Duration = Duration::from_millis(200);
/// Mounting and reading a slow card after a power cut; making a file system on it.
const ANSWER_LIMIT: Duration = Duration::from_secs(600);

/// Reaches a board.
pub trait BoardLink: Sync {
    /// Starts the program for power cuts there ([`super::program::serve`]).
    ///
    /// # Errors
    /// When the board cannot be reached.
    fn start(&self) -> Result<BoardConnection, BoardError>;
}

/// The program there, and its output and input.
pub struct BoardConnection {
    pub process: PipedProgram,
    pub output: ChildStdout,
    pub input: ChildStdin,
}

/// Why a board is not reached, or cannot do something.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct BoardError {
    pub message: String,
    pub hint: Option<Hint>,
    pub class: ExitClass,
    /// Whether a retry may succeed: the board may be starting.
    pub is_transient: bool,
}

pub(super) struct BoardSession<'a> {
    /// Closed first, which ends the program there.
    input: ChildStdin,
    reader: FrameReader<ChildStdout>,
    process: PipedProgram,
    interrupt: &'a Interrupt,
}

impl<'a> BoardSession<'a> {
    pub(super) fn new(connection: BoardConnection, interrupt: &'a Interrupt) -> Self {
        let BoardConnection { process, output, input } = connection;
        Self { input, reader: FrameReader::new(output), process, interrupt }
    }

    /// # Errors
    /// When the connection is lost.
    pub(super) fn send(&mut self, request: &BoardRequest) -> Result<(), CrashError> {
        send(&mut self.input, request).map_err(|_| self.lost())
    }

    /// What it says until a moment.
    ///
    /// # Errors
    /// When the stream is damaged.
    pub(super) fn until(&mut self, until: Instant) -> Result<Arrival<BoardReply>, CrashError> {
        self.reader.until(until).map_err(|error| lost_because(&error.to_string()))
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// When it fails there, the connection is lost, or the user interrupts.
    pub(super) fn ask(&mut self, request: &BoardRequest) -> Result<BoardReply, CrashError> {
        self.send(request)?;
        let deadline = Instant::now() + ANSWER_LIMIT;
        loop {
            if self.interrupt.is_raised() {
                return Err(CrashError::Interrupted);
            }
            match self.until(Instant::now() + LOOK_UP)? {
                Arrival::Message(BoardReply::Failed(failure)) => {
                    return Err(CrashError::Board(BoardError {
                        message: format!("on the board: {}", failure.message),
                        hint: failure.hint,
                        class: ExitClass::of_code(failure.code),
                        is_transient: false,
                    }));
                }
                Arrival::Message(reply) => return Ok(reply),
                Arrival::End => return Err(self.lost()),
                Arrival::Nothing if Instant::now() < deadline => {}
                Arrival::Nothing => return Err(silent(ANSWER_LIMIT)),
            }
        }
    }

    /// The same for what guests are asked.
    pub(super) fn ask_guest(&mut self, request: GuestRequest) -> Result<GuestReply, CrashError> {
        match self.ask(&BoardRequest::Guest(request))? {
            BoardReply::Guest(GuestReply::Failed(reason)) => {
                Err(CrashError::Board(failed(format!("on the board: {reason}"))))
            }
            BoardReply::Guest(reply) => Ok(reply),
            other => Err(unexpected(&other)),
        }
    }

    /// The end of the connection, with what the board or ssh said last.
    pub(super) fn lost(&mut self) -> CrashError {
        let said = self.process.last_error_line();
        lost_because(if said.is_empty() { "it said nothing" } else { &said })
    }
}

fn failed(message: String) -> BoardError {
    BoardError { message, hint: None, class: ExitClass::Environment, is_transient: false }
}

fn lost_because(reason: &str) -> CrashError {
    let message = format!("the connection to the board was lost before a power cut: {reason}");
    CrashError::Board(failed(message))
}

/// A board that should have answered within `limit`.
pub(super) fn silent(limit: Duration) -> CrashError {
    lost_because(&format!("it has not answered for {} s", limit.as_secs()))
}

/// An answer that does not belong to the question.
pub(super) fn unexpected(reply: &BoardReply) -> CrashError {
    CrashError::Board(BoardError {
        class: ExitClass::Bug,
        ..failed(format!("the board sent an unexpected answer: {reply:?}"))
    })
}
