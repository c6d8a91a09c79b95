//! Serving a card until it is asked to stop.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use flashfit_card::CardModel;
use flashfit_card_client::protocol::{CardFailure, CardReply, STOP_WAIT, line};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::loop_device::LoopError;
use flashfit_host::mount::MountError;
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::control::ControlServer;
use crate::kernel::KernelCard;
use crate::live::LiveCard;
use crate::nbd::{NbdServer, SocketError};
use crate::paths;
use crate::recording::TraceRecorder;
use crate::socket::{self, ControlSocket};
use crate::state;
use crate::state_error::StateError;
use crate::state_lock::StateLock;

#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The socket on which to serve it over NBD; without one it becomes a loop device.
    pub nbd: Option<PathBuf>,
    /// The file of its state: read at the start where it is there, written at the end.
    pub state: Option<PathBuf>,
    /// A folder for an unnamed file with the card's bytes, which are else in memory.
    pub data_folder: Option<PathBuf>,
    /// For how long what is written over can be brought back by a cut, in milliseconds.
    pub history_ms: u64,
    /// A new file for a trace of all requests that change the card.
    pub trace: Option<PathBuf>,
    /// How long to wait, when told to stop, for the last user of the device to go.
    pub stop_wait: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            nbd: None,
            state: None,
            data_folder: None,
            history_ms: 0,
            trace: None,
            stop_wait: STOP_WAIT,
        }
    }
}

/// Why a card is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Namespace(#[from] MountError),
    /// No FUSE file system.
    #[error("cannot mount a FUSE file system: {0}")]
    Fuse(std::io::Error),
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// The loop device cannot be made to look like the card.
    #[error("cannot set up the queue of {}: {source}", device.display())]
    Queue { device: PathBuf, source: std::io::Error },
    /// The socket for NBD cannot be had.
    #[error(transparent)]
    Nbd(#[from] SocketError),
    /// The state of the card cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// Two of its files are the same.
    #[error("{first} and {second} of the card are the same file: {}", path.display())]
    SamePath { first: &'static str, second: &'static str, path: PathBuf },
    /// The trace cannot be written.
    #[error("cannot record a trace in {}: {source}", file.display())]
    Trace { file: PathBuf, source: std::io::Error },
    /// Whoever started the card does not read what it says.
    #[error("cannot say that the card is ready: {0}")]
    Output(std::io::Error),
    /// The card ended while somebody still used its device.
    #[error("{} was still in use when its card was stopped", device.display())]
    InUse { device: PathBuf },
    /// The same, of a card whose state is saved.
    #[error(
        "{} was still in use when its card was stopped; its state is saved in {}",
        device.display(), state.display()
    )]
    InUseAndSaved { device: PathBuf, state: PathBuf },
}

impl UserError for ServeError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Namespace(error) => error.class(),
            Self::Loop(error) => error.class(),
            Self::Nbd(error) => error.class(),
            Self::State(error) => error.class(),
            Self::SamePath { .. } => ExitClass::Usage,
            Self::InUse { .. } | Self::InUseAndSaved { .. } | Self::Trace { .. } => ExitClass::Io,
            Self::Fuse(_) | Self::Queue { .. } | Self::Output(_) => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Namespace(error) => error.hint(),
            Self::Loop(error) => error.hint(),
            Self::Nbd(error) => error.hint(),
            Self::State(error) => error.hint(),
            Self::Fuse(source) if source.kind() == std::io::ErrorKind::NotFound => {
                Some("modprobe fuse".into())
            }
            Self::Trace { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
                Some("name a file that does not exist yet".into())
            }
            Self::SamePath { .. } => Some("name another file for one of them".into()),
            Self::InUse { device } | Self::InUseAndSaved { device, .. } => {
                let node = device.display();
                Some(format!("umount {node}, or end what uses it: fuser -v {node}").into())
            }
            _ => None,
        }
    }
}

/// Serves a card until `control` ends or asks to stop.
///
/// The first line to `output` says where it is, or why it is nowhere; then each line of `control`
/// is answered with one line; an error after the first line is a last line. For a process of its
/// own, before it has started any thread: the process must end when this returns, and nothing else
/// may be written to `output`.
///
/// # Errors
/// See [`ServeError`].
pub fn run(
    model: &CardModel,
    options: &ServeOptions,
    control: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), ServeError> {
    let output = SharedOutput(Arc::new(Mutex::new(output)));
    let served = serve(model, options, control, output.clone());
    if let Err(error) = &served {
        refuse(&mut output.clone(), error);
    }
    served
}

fn serve(
    model: &CardModel,
    options: &ServeOptions,
    control: impl BufRead + Send + 'static,
    mut output: SharedOutput<impl Write + Send + 'static>,
) -> Result<(), ServeError> {
    paths::check(options)?;
    let lock = options.state.as_deref().map(state::lock).transpose()?;
    let state = lock.as_ref().map(StateLock::state);
    let mut card = state::card(model, state, options.data_folder.as_deref())?;
    card.record_history(options.history_ms);
    let card = LiveCard::new(card);
    let trace_error =
        |source| ServeError::Trace { file: options.trace.clone().unwrap_or_default(), source };
    if let Some(file) = &options.trace {
        card.lock().record_with(TraceRecorder::create(file).map_err(trace_error)?);
    }
    let front = Front::open(&card, options).inspect_err(|_| {
        // A trace of nothing, which would be in the way of the next attempt.
        options.trace.iter().for_each(|trace| drop(std::fs::remove_file(trace)));
    })?;
    let place = front.place().to_owned();
    let mut notes = front.notes().to_vec();
    notes.extend(power_note(&card));
    // The card works without: who started it asks it through its pipe.
    let socket = socket::listen(&place).map_err(|error| {
        notes.push(format!(
            "no control socket ({error}): its counters cannot be read and its power cannot be cut"
        ));
    });
    // Before anybody knows that there is a card whose state could be lost.
    let signals = catch_signals(options.state.is_some());
    let ready = CardReply::Ready { device: place.clone(), notes };
    say(&mut output, &ready).map_err(ServeError::Output)?;
    let socket = socket.ok();
    let (stop, stopped) = channel();
    let server = ControlServer { card: card.clone(), place, stop };
    answer(&server, socket.as_ref(), control, output.clone());
    stop_on_signals(&server, signals);
    // The threads hold the sender for as long as the process lives.
    let _ = stopped.recv();
    drop(socket);
    let closed = front.close(options.stop_wait);
    // Also what a device that is still in use was written so far.
    let saved = state.map_or(Ok(()), |file| {
        // The state is saved whether or not anybody is left to wait for it.
        let _ = say(&mut output, &CardReply::Saving {});
        state::save_at_end(&card, file, &state::temporary_folders())
    });
    let recorded = card.lock().end_recording().map_err(trace_error);
    saved?;
    recorded?;
    match (closed, state) {
        (Err(ServeError::InUse { device }), Some(state)) => {
            Err(ServeError::InUseAndSaved { device, state: state.to_owned() })
        }
        (closed, _) => closed,
    }
}

/// Where a card is served.
enum Front {
    Kernel(KernelCard),
    Nbd(NbdServer),
}

impl Front {
    fn open(card: &LiveCard, options: &ServeOptions) -> Result<Self, ServeError> {
        match &options.nbd {
            None => Ok(Self::Kernel(KernelCard::attach(card)?)),
            Some(socket) => Ok(Self::Nbd(NbdServer::open(card, socket)?)),
        }
    }

    fn place(&self) -> &Path {
        match self {
            Self::Kernel(card) => card.node(),
            Self::Nbd(server) => server.socket(),
        }
    }

    fn notes(&self) -> &[String] {
        match self {
            Self::Kernel(card) => card.notes(),
            Self::Nbd(_) => &[],
        }
    }

    fn close(self, wait: Duration) -> Result<(), ServeError> {
        match self {
            Self::Kernel(card) => card.detach(wait),
            Self::Nbd(server) => {
                server.close();
                Ok(())
            }
        }
    }
}

/// Says, as a line of `output`, why there is no card. For errors before [`run`].
pub fn refuse(output: &mut impl Write, error: &dyn UserError) {
    // Nobody is left to hear of a failure to say so.
    let _ = say(output, &CardReply::Failed(CardFailure::of(error)));
}

fn say(output: &mut impl Write, reply: &CardReply) -> std::io::Result<()> {
    output.write_all(line(reply).as_bytes())?;
    output.flush()
}

/// An output that the thread that answers and the one that ends the card both write to.
struct SharedOutput<W>(Arc<Mutex<W>>);

impl<W> Clone for SharedOutput<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<W: Write> Write for SharedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// What a user must know of a loaded card that does not answer.
fn power_note(card: &LiveCard) -> Option<String> {
    let card = &card.lock().card;
    if card.is_bricked() {
        Some("this saved card was bricked by a power cut: every request fails".to_owned())
    } else if !card.is_powered() {
        let text = "this card was saved without power: every request fails until it is switched on";
        Some(text.to_owned())
    } else {
        None
    }
}

/// A service manager ends this process together with the one that started it; without this, the
/// state would be lost. A second signal does not end the save. Where signals cannot be caught, they
/// end the process as they always do.
fn catch_signals(saves: bool) -> Option<Interrupt> {
    let caught = if saves { Interrupt::on_signals_until_done() } else { Interrupt::on_signals() };
    caught.ok()
}

fn stop_on_signals(server: &ControlServer, signals: Option<Interrupt>) {
    let Some(interrupt) = signals else { return };
    let stop = server.stop.clone();
    thread::spawn(move || {
        if interrupt.sleep(Duration::MAX) {
            let _ = stop.send(());
        }
    });
}

/// Answers on the socket and on the pipes until the process ends.
fn answer(
    server: &ControlServer,
    socket: Option<&ControlSocket>,
    control: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) {
    if let Some(listener) = socket.map(ControlSocket::listener) {
        let from_socket = server.clone();
        thread::spawn(move || socket::answer(&listener, &from_socket));
    }
    let server = server.clone();
    thread::spawn(move || {
        server.answer_all(control, output);
        // The end of the control input means that the parent has gone.
        let _ = server.stop.send(());
    });
}
