//! What one process holds in one lab, and giving it back.
//!
//! Everything is held under the session's own name, so that it can be found and given back by that
//! name even when a call was cut off and nobody knows what it did.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flashfit_host::Runner;

use crate::client::{Client, RefusalReason, RpcReply};
use crate::error::LabError;
use crate::listing::{self, LabPlace, ListedReservation};
use crate::owner::Owner;
use crate::record::{HeldResources, LockRecord};

/// How long giving back tries again; more would look like a hang to who has interrupted.
const PATIENCE_AT_END: Duration = Duration::from_secs(10);

/// One process in one lab.
pub(crate) struct LabSession {
    pub(crate) client: Client,
    work: Arc<dyn Runner>,
    end: Arc<dyn Runner>,
    record: Mutex<Option<LockRecord>>,
    /// A call may have taken something that no guard knows of, or could not give it back.
    in_doubt: AtomicBool,
    /// Nothing could be given back for want of a connection; the end tries all of it once more.
    cut_off: AtomicBool,
    closed: AtomicBool,
}

impl LabSession {
    pub(crate) fn new(client: Client, work: Arc<dyn Runner>, end: Arc<dyn Runner>) -> Self {
        Self {
            client,
            work,
            end,
            record: Mutex::new(None),
            in_doubt: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Calls for work: is patient, and ends when the user interrupts.
    pub(crate) fn call(&self, args: &[&str]) -> Result<RpcReply, LabError> {
        let answer = self.client.call(&*self.work, args, self.client.settings.patience)?;
        self.cut_off.store(false, Ordering::SeqCst);
        Ok(answer)
    }

    /// As [`LabSession::call`], once and for at most `limit`.
    pub(crate) fn once(&self, args: &[&str], limit: Duration) -> Result<RpcReply, LabError> {
        self.client.once(&*self.work, args, limit)
    }

    /// As [`LabSession::call`], for what takes something: the record is there before, and a call
    /// whose end is not known leaves the session in doubt.
    pub(crate) fn take(&self, args: &[&str]) -> Result<RpcReply, LabError> {
        self.keep_record()?;
        let answer = self.call(args);
        if let Err(LabError::Program(_) | LabError::Unreachable { .. }) = answer {
            self.in_doubt.store(true, Ordering::SeqCst);
        }
        answer
    }

    fn keep_record(&self) -> Result<(), LabError> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if record.is_none() {
            let held = HeldResources::new(&self.client.settings.coordinator, &self.client.owner);
            *record = Some(LockRecord::create(&self.client.settings.records, &held)?);
        }
        Ok(())
    }

    /// What the client printed, or the error for its refusal.
    pub(crate) fn done(&self, answer: RpcReply) -> Result<String, LabError> {
        match answer {
            RpcReply::Done(text) => Ok(text),
            RpcReply::No(no) => Err(no.into_error(&self.client)),
        }
    }

    /// All places of the lab.
    pub(crate) fn places(&self) -> Result<Vec<LabPlace>, LabError> {
        self.done(self.call(&["-v", "places"])?).map(|text| listing::places(&text))
    }

    /// All reservations in the lab.
    pub(crate) fn reservations(&self) -> Result<Vec<ListedReservation>, LabError> {
        self.done(self.call(&["reservations"])?).map(|text| listing::reservations(&text))
    }

    /// Unlocks a place of ours. It is no error if it is not ours any more.
    pub(crate) fn unlock(&self, place: &str) -> Result<(), LabError> {
        let owner = self.client.owner.to_string();
        self.give_back(&["-p", place, "release-from", &owner])
    }

    /// Cancels a reservation of ours. It is no error if it is gone.
    pub(crate) fn cancel(&self, token: &str) -> Result<(), LabError> {
        self.give_back(&["cancel-reservation", token])
    }

    fn give_back(&self, args: &[&str]) -> Result<(), LabError> {
        // Many places without a connection would be a long wait for who has interrupted.
        let given_back = if self.cut_off.load(Ordering::SeqCst) {
            Err(self.client.unreachable(Duration::ZERO, "nor did it before".to_owned()))
        } else {
            self.client.give_back(&*self.end, args, PATIENCE_AT_END)
        };
        if let Err(error) = &given_back {
            self.in_doubt.store(true, Ordering::SeqCst);
            let unreachable = matches!(error, LabError::Unreachable { .. });
            self.cut_off.store(unreachable, Ordering::SeqCst);
        }
        given_back
    }

    /// Gives back what is in doubt and removes the record; the guards have given back the rest.
    /// Does so once.
    pub(crate) fn close(&self) -> Result<(), LabError> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        if self.in_doubt.load(Ordering::SeqCst) {
            self.client.give_all_back(&*self.end, &self.client.owner, PATIENCE_AT_END)?;
        }
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.take().map_or(Ok(()), LockRecord::remove)
    }
}

impl Drop for LabSession {
    fn drop(&mut self) {
        // What could not be given back stays on record for the next start.
        let _ = self.close();
    }
}

impl Client {
    fn give_back(
        &self,
        runner: &dyn Runner,
        args: &[&str],
        patience: Duration,
    ) -> Result<(), LabError> {
        match self.call(runner, args, patience)? {
            RpcReply::Done(_) => Ok(()),
            RpcReply::No(no) => match no.reason {
                RefusalReason::NotLocked
                | RefusalReason::NoSuchPlace
                | RefusalReason::NoSuchReservation => Ok(()),
                _ => Err(no.into_error(self)),
            },
        }
    }

    /// All places of the lab.
    pub(crate) fn places(&self, runner: &dyn Runner) -> Result<Vec<LabPlace>, LabError> {
        match self.call(runner, &["-v", "places"], self.settings.patience)? {
            RpcReply::Done(text) => Ok(listing::places(&text)),
            RpcReply::No(no) => Err(no.into_error(self)),
        }
    }

    /// Gives back whatever the lab lists as `owner`'s, and says which places that were.
    pub(crate) fn give_all_back(
        &self,
        runner: &dyn Runner,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Vec<String>, LabError> {
        let list = |args: &[&str]| match self.call(runner, args, patience)? {
            RpcReply::Done(text) => Ok(text),
            RpcReply::No(no) => Err(no.into_error(self)),
        };
        let name = owner.to_string();
        let mut given_back = Vec::new();
        for place in listing::places(&list(&["-v", "places"])?) {
            if place.locked_by.as_ref() == Some(&name) {
                self.give_back(runner, &["-p", &place.name, "release-from", &name], patience)?;
                given_back.push(place.name);
            }
        }
        for listed in listing::reservations(&list(&["reservations"])?) {
            if listed.is_of(owner) {
                self.give_back(runner, &["cancel-reservation", &listed.token], patience)?;
            }
        }
        Ok(given_back)
    }
}
