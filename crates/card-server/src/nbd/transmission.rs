//! The transmission: requests and their replies, each when the card has done it.
//!
//! Source: `doc/proto.md`, "Transmission phase" and "Request types"; simple replies. Replies of a
//! card with a command queue come in the order in which they are due. A card that has no command
//! to write zeros is sent zeros, or a discard where the client allows one and the card takes it; a
//! write with FUA is a write and a flush. A client that does not read its replies is dropped when
//! one cannot be sent for ten seconds; for so long it may keep places in the card's queue.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flashfit_card::card;
use flashfit_device::{BlockDevError, BlockDevInfo};

use super::export::{Export, MOST_REQUEST_BYTES};
use super::incoming::{DropReason, Incoming};
use super::wire::{self, REPLY_BYTES, REQUEST_BYTES, command, command_flag as flag, error};
use crate::buffers::{Buffer, Buffers};
use crate::live::{CompletionTime, LiveCard};
use crate::replies::Replies;

/// How long a request that has begun may take to arrive.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// How many bytes of data a client may be owed at once; more wait.
const MOST_OWED_BYTES: usize = 2 * MOST_REQUEST_BYTES as usize;

/// Serves requests until the client goes.
///
/// # Errors
/// See [`DropReason`], also when the client ends in good order.
pub fn transmit<R: Read, W: Write + Send + 'static>(
    input: &mut Incoming<R>,
    output: W,
    export: &Export,
) -> Result<(), DropReason> {
    let connection = Connection {
        card: export.card().clone(),
        replies: Replies::new(export.card().clone())?,
        buffers: Buffers::default(),
        output: Arc::new(Outgoing::new(output)),
        owed: Arc::new(PendingReply::default()),
    };
    loop {
        input.wait(|| !connection.output.is_broken())?;
        let mut bytes = [0; REQUEST_BYTES];
        input.fill(&mut bytes, "a request", REQUEST_LIMIT)?;
        let request = wire::NbdRequest::from_bytes(&bytes)
            .ok_or(DropReason::Nonsense("a request that does not begin as one"))?;
        if request.command == command::DISC {
            return Err(DropReason::Gone);
        }
        connection.serve(request, input)?;
    }
}

/// A client in the transmission phase.
struct Connection<W> {
    card: LiveCard,
    replies: Replies,
    buffers: Buffers,
    output: Arc<Outgoing<W>>,
    owed: Arc<PendingReply>,
}

impl<W: Write + Send + 'static> Connection<W> {
    fn serve<R: Read>(
        &self,
        request: wire::NbdRequest,
        input: &mut Incoming<R>,
    ) -> Result<(), DropReason> {
        let data = self.data_of(request, input)?;
        if let Err(error) = check(request, self.card.description()) {
            self.output.send(&wire::reply(request.cookie, error));
            return Ok(());
        }
        match (request.command, data) {
            (command::READ, _) => self.read(request),
            (_, data) => self.change(request, data.as_deref().unwrap_or_default()),
        }
        Ok(())
    }

    /// The data that follows a write.
    fn data_of<R: Read>(
        &self,
        request: wire::NbdRequest,
        input: &mut Incoming<R>,
    ) -> Result<Option<Buffer>, DropReason> {
        if request.command != command::WRITE {
            return Ok(None);
        }
        if request.length > MOST_REQUEST_BYTES {
            return Err(DropReason::Nonsense("a write longer than any"));
        }
        let mut data = self.buffers.take(request.length as usize);
        input.fill(&mut data, "a write", REQUEST_LIMIT)?;
        Ok(Some(data))
    }

    fn read(&self, request: wire::NbdRequest) {
        let length = request.length as usize;
        self.owed.add(length);
        let place = self.card.place();
        let arrival = Instant::now();
        // The reply is sent in one piece with its data.
        let mut bytes = self.buffers.take(REPLY_BYTES + length);
        let asked =
            card::CardRequest::Read { offset: request.offset, buffer: &mut bytes[REPLY_BYTES..] };
        let due = self.card.submit(arrival, asked);
        let (output, owed) = (self.output.clone(), self.owed.clone());
        self.replies.when(place, due, move |result| {
            match result {
                Ok(()) => {
                    let head = wire::reply(request.cookie, error::NONE);
                    bytes[..REPLY_BYTES].copy_from_slice(&head);
                    output.send(&bytes);
                }
                Err(error) => output.send(&wire::reply(request.cookie, number(&error))),
            }
            owed.remove(length);
        });
    }

    fn change(&self, request: wire::NbdRequest, data: &[u8]) {
        let place = self.card.place();
        let arrival = Instant::now();
        let due = self.submit(arrival, request, data);
        let output = self.output.clone();
        self.replies.when(place, due, move |result| {
            let error = result.map_or_else(|error| number(&error), |()| error::NONE);
            output.send(&wire::reply(request.cookie, error));
        });
    }

    fn submit(
        &self,
        arrival: Instant,
        request: wire::NbdRequest,
        data: &[u8],
    ) -> Result<CompletionTime, BlockDevError> {
        let wire::NbdRequest { offset, length, .. } = request;
        let length = u64::from(length);
        let card = &self.card;
        let discard = || card.submit(arrival, card::CardRequest::Discard { offset, length });
        let discards = card.description().discard_granularity_bytes > 0;
        let due = match request.command {
            command::WRITE => card.submit(arrival, card::CardRequest::Write { offset, data }),
            command::TRIM => discard(),
            command::WRITE_ZEROES if discards && request.flags & flag::NO_HOLE == 0 => discard(),
            command::WRITE_ZEROES => card.write_zeros(arrival, offset, length),
            _ => return card.submit(arrival, card::CardRequest::Flush),
        }?;
        if request.flags & flag::FUA != 0 && card.description().volatile_cache {
            return Ok(due.and(card.submit(arrival, card::CardRequest::Flush)?));
        }
        Ok(due)
    }
}

/// Whether a request can be; its error otherwise.
fn check(request: wire::NbdRequest, description: &BlockDevInfo) -> Result<(), u32> {
    let allowed = match request.command {
        command::READ | command::WRITE | command::FLUSH | command::TRIM => flag::FUA,
        command::WRITE_ZEROES => flag::FUA | flag::NO_HOLE,
        _ => return Err(error::EINVAL),
    };
    if request.flags & !allowed != 0 {
        return Err(error::EINVAL);
    }
    if request.command == command::FLUSH {
        return Ok(());
    }
    if request.command == command::TRIM && description.discard_granularity_bytes == 0 {
        return Err(error::ENOTSUP);
    }
    let sector = u64::from(description.sector_bytes);
    let length = u64::from(request.length);
    if length == 0 || length % sector != 0 || request.offset % sector != 0 {
        return Err(error::EINVAL);
    }
    if request.command == command::READ && request.length > MOST_REQUEST_BYTES {
        return Err(error::EINVAL);
    }
    let end = request.offset.checked_add(length);
    if end.is_some_and(|end| end <= description.capacity_bytes) {
        return Ok(());
    }
    let writes = matches!(request.command, command::WRITE | command::WRITE_ZEROES);
    Err(if writes { error::ENOSPC } else { error::EINVAL })
}

fn number(error: &BlockDevError) -> u32 {
    match error {
        BlockDevError::OutOfBounds { .. } => error::EINVAL,
        BlockDevError::NoDiscard => error::ENOTSUP,
        BlockDevError::WornOut | BlockDevError::Disconnected(_) | BlockDevError::Io { .. } => {
            error::EIO
        }
    }
}

/// What goes to a client; after an error nothing goes any more.
struct Outgoing<W> {
    writer: Mutex<W>,
    broken: AtomicBool,
}

impl<W: Write> Outgoing<W> {
    fn new(writer: W) -> Self {
        Self { writer: Mutex::new(writer), broken: AtomicBool::new(false) }
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    fn send(&self, bytes: &[u8]) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Whatever follows a part of a reply would be read as its rest.
        if !self.is_broken() && writer.write_all(bytes).is_err() {
            self.broken.store(true, Ordering::Relaxed);
        }
    }
}

/// How many bytes of data a client is owed.
#[derive(Debug, Default)]
struct PendingReply {
    bytes: Mutex<usize>,
    fewer: Condvar,
}

impl PendingReply {
    fn add(&self, length: usize) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        while *bytes + length > MOST_OWED_BYTES {
            bytes = self.fewer.wait(bytes).unwrap_or_else(PoisonError::into_inner);
        }
        *bytes += length;
    }

    fn remove(&self, length: usize) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= length;
        self.fewer.notify_one();
    }
}
