//! A reservation: a position in the queue for a place with certain tags.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flashfit_host::ProgramError;

use crate::client::{RefusalReason, RpcReply};
use crate::error::LabError;
use crate::listing::{self, ReservationState};
use crate::lock::LockedPlace;
use crate::session::LabSession;
use crate::tags::Tags;

/// A reservation, canceled on drop. An allocated place is kept for a minute.
pub struct Reservation {
    session: Arc<LabSession>,
    tags: Tags,
    token: Option<String>,
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").field("tags", &self.tags).field("token", &self.token).finish()
    }
}

impl Reservation {
    pub(crate) fn new(session: &Arc<LabSession>, tags: &Tags) -> Result<Self, LabError> {
        let mut made = Self { session: Arc::clone(session), tags: tags.clone(), token: None };
        if made.matching()?.is_empty() {
            return Err(LabError::NoMatch { tags: tags.clone() });
        }
        made.reserve()?;
        Ok(made)
    }

    fn reserve(&mut self) -> Result<(), LabError> {
        self.token = None;
        let pairs: Vec<String> = self.tags.pairs().collect();
        let mut args = vec!["reserve"];
        args.extend(pairs.iter().map(String::as_str));
        let text = self.session.output(self.session.acquire(&args)?)?;
        let made = listing::reservations(&text).pop();
        self.token = Some(made.map(|made| made.token).ok_or_else(|| LabError::Refused {
            command_line: format!("labgrid-client {}", args.join(" ")),
            output: format!("no reservation in {text:?}"),
        })?);
        Ok(())
    }

    /// Waits until a place is allocated, and returns its name. Repeats the reservation if the
    /// coordinator has forgotten it.
    ///
    /// # Errors
    /// [`LabError::NoneFree`] after `limit`, or another [`LabError`].
    pub fn wait(&mut self, limit: Duration) -> Result<String, LabError> {
        let started = Instant::now();
        loop {
            let Some(token) = self.token.clone() else {
                self.reserve()?;
                continue;
            };
            let remaining = limit.saturating_sub(started.elapsed());
            if remaining.is_zero() {
                return Err(self.none_free(limit)?);
            }
            match self.session.once(&["wait", &token], remaining) {
                Ok(RpcReply::Done(text)) => match listing::last_of_wait(&text) {
                    Some(listed)
                        if listed.state == ReservationState::Allocated
                            && listed.place.is_some() =>
                    {
                        return Ok(listed.place.expect("just looked at"));
                    }
                    Some(listed) if listed.state == ReservationState::Waiting => {}
                    _ => self.token = None,
                },
                Ok(RpcReply::No(no)) => match no.reason {
                    RefusalReason::NoSuchReservation => self.token = None,
                    // A call with retries finds out whether the coordinator comes back.
                    RefusalReason::Unreachable => drop(self.session.reservations()?),
                    _ => return Err(no.into_error(&self.session.client)),
                },
                Err(LabError::Program(ProgramError::TimedOut { .. })) => {
                    return Err(self.none_free(limit)?);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for a place ([`Reservation::wait`]) and locks it.
    ///
    /// # Errors
    /// As [`Reservation::wait`], and [`LabError::Taken`] if another user locked it first.
    pub fn lock(mut self, limit: Duration) -> Result<LockedPlace, LabError> {
        let place = self.wait(limit)?;
        LockedPlace::new(&Arc::clone(&self.session), &place, Some(self))
    }

    /// Cancels the reservation.
    ///
    /// # Errors
    /// If it may still exist; the end of the session and the next start try again.
    pub fn cancel(mut self) -> Result<(), LabError> {
        self.cancel_once()
    }

    pub(crate) fn cancel_once(&mut self) -> Result<(), LabError> {
        self.token.take().map_or(Ok(()), |token| self.session.cancel(&token))
    }

    fn none_free(&self, waited: Duration) -> Result<LabError, LabError> {
        Ok(LabError::NoneFree { tags: self.tags.clone(), waited, holders: self.matching()? })
    }

    /// The matching places, each with its state.
    fn matching(&self) -> Result<Vec<String>, LabError> {
        let places = self.session.places()?.into_iter();
        let matching = places.filter(|place| self.tags.match_place(&place.name, &place.tags));
        let descriptions = matching.map(|place| match (place.locked_by, place.reservation) {
            (Some(owner), _) => format!("{} is locked by {owner}", place.name),
            (None, Some(_)) => format!("{} is reserved", place.name),
            (None, None) => format!("{} is free", place.name),
        });
        Ok(descriptions.collect())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // After an error, the end of the session tries again.
        let _ = self.cancel_once();
    }
}
