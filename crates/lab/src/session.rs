//! Tracks and releases what one process holds in one lab.
//!
//! All locks and reservations belong to the session's client name, so they can be found and
//! released by that name even after a call with an unknown result.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use flashfit_host::Runner;
use flashfit_host::at_panic::AtPanic;

use crate::client::{Client, RefusalReason, RpcReply};
use crate::error::LabError;
use crate::listing::{self, LabPlace, ListedReservation};
use crate::owner::Owner;
use crate::record::{HeldResources, LockRecord};

/// How long releases are retried; longer would look like a hang after an interrupt.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct LabSession {
    pub(crate) client: Client,
    work: Arc<dyn Runner>,
    end: Arc<dyn Runner>,
    record: Mutex<Option<LockRecord>>,
    /// A lock or release failed with an unknown result.
    in_doubt: AtomicBool,
    /// A release failed because the coordinator was unreachable; the end of the session tries
    /// again.
    cut_off: AtomicBool,
    closed: AtomicBool,
    _at_panic: AtPanic,
}

impl LabSession {
    pub(crate) fn new(client: Client, work: Arc<dyn Runner>, end: Arc<dyn Runner>) -> Arc<Self> {
        Arc::new_cyclic(|session: &Weak<Self>| Self {
            client,
            work,
            end,
            record: Mutex::new(None),
            in_doubt: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            _at_panic: AtPanic::new({
                let session = Weak::clone(session);
                move || session.upgrade().iter().for_each(|session| session.release_everything())
            }),
        })
    }

    /// Releases what the guards would release if the process did not end here, and removes the
    /// record. After an error, the record stays for the next start.
    fn release_everything(&self) {
        // Another thread may be writing the record.
        let Ok(mut record) = self.record.try_lock() else { return };
        if let Some(made) = record.take() {
            let released = self.client.release_all(&*self.end, &self.client.owner, RELEASE_TIMEOUT);
            let _ = released.and_then(|_| made.remove());
        }
    }

    /// A call that is retried while the coordinator is unreachable, and ends on an interrupt.
    pub(crate) fn call(&self, args: &[&str]) -> Result<RpcReply, LabError> {
        let answer = self.client.call(&*self.work, args, self.client.settings.patience)?;
        self.cut_off.store(false, Ordering::SeqCst);
        Ok(answer)
    }

    /// A call without retries, with a time limit.
    pub(crate) fn once(&self, args: &[&str], limit: Duration) -> Result<RpcReply, LabError> {
        self.client.once(&*self.work, args, limit)
    }

    /// A call with a time limit that an interrupt does not end: a board whose power was cut is
    /// switched on again after Ctrl-C, too.
    pub(crate) fn complete(&self, args: &[&str], limit: Duration) -> Result<RpcReply, LabError> {
        self.client.once(&*self.end, args, limit)
    }

    /// A call that locks or reserves. The record is written first, and an unknown result marks the
    /// session as in doubt.
    pub(crate) fn acquire(&self, args: &[&str]) -> Result<RpcReply, LabError> {
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

    /// The client's output, or its refusal as an error.
    pub(crate) fn output(&self, answer: RpcReply) -> Result<String, LabError> {
        match answer {
            RpcReply::Done(text) => Ok(text),
            RpcReply::No(no) => Err(no.into_error(&self.client)),
        }
    }

    pub(crate) fn places(&self) -> Result<Vec<LabPlace>, LabError> {
        self.output(self.call(&["-v", "places"])?).map(|text| listing::places(&text))
    }

    pub(crate) fn reservations(&self) -> Result<Vec<ListedReservation>, LabError> {
        self.output(self.call(&["reservations"])?).map(|text| listing::reservations(&text))
    }

    /// Unlocks a place, if it is still ours.
    pub(crate) fn unlock(&self, place: &str) -> Result<(), LabError> {
        let owner = self.client.owner.to_string();
        self.release(&["-p", place, "release-from", &owner])
    }

    /// Cancels a reservation, if it still exists.
    pub(crate) fn cancel(&self, token: &str) -> Result<(), LabError> {
        self.release(&["cancel-reservation", token])
    }

    fn release(&self, args: &[&str]) -> Result<(), LabError> {
        // Retrying for each of many places would take too long after an interrupt.
        let released = if self.cut_off.load(Ordering::SeqCst) {
            Err(self.client.unreachable(
                Duration::ZERO,
                "it did not answer an earlier release either".to_owned(),
            ))
        } else {
            self.client.release(&*self.end, args, RELEASE_TIMEOUT)
        };
        if let Err(error) = &released {
            self.in_doubt.store(true, Ordering::SeqCst);
            let unreachable = matches!(error, LabError::Unreachable { .. });
            self.cut_off.store(unreachable, Ordering::SeqCst);
        }
        released
    }

    /// Releases what is in doubt and removes the record; the guards have released the rest.
    pub(crate) fn close(&self) -> Result<(), LabError> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        if self.in_doubt.load(Ordering::SeqCst) {
            self.client.release_all(&*self.end, &self.client.owner, RELEASE_TIMEOUT)?;
        }
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.take().map_or(Ok(()), LockRecord::remove)
    }
}

impl Drop for LabSession {
    fn drop(&mut self) {
        // After an error, the record stays for the next start.
        let _ = self.close();
    }
}

impl Client {
    fn release(
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

    pub(crate) fn places(&self, runner: &dyn Runner) -> Result<Vec<LabPlace>, LabError> {
        match self.call(runner, &["-v", "places"], self.settings.patience)? {
            RpcReply::Done(text) => Ok(listing::places(&text)),
            RpcReply::No(no) => Err(no.into_error(self)),
        }
    }

    /// Releases everything that belongs to `owner`; returns the unlocked places.
    pub(crate) fn release_all(
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
        let mut released = Vec::new();
        for place in listing::places(&list(&["-v", "places"])?) {
            if place.locked_by.as_ref() == Some(&name) {
                self.release(runner, &["-p", &place.name, "release-from", &name], patience)?;
                released.push(place.name);
            }
        }
        for listed in listing::reservations(&list(&["reservations"])?) {
            if listed.is_of(owner) {
                self.release(runner, &["cancel-reservation", &listed.token], patience)?;
            }
        }
        Ok(released)
    }
}
