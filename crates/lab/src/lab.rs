//! A session with a lab.

use std::sync::Arc;
use std::time::Duration;

use flashfit_host::Runner;

use crate::client::Client;
use crate::error::LabError;
use crate::listing::LabPlace;
use crate::lock::LockedPlace;
use crate::owner::Owner;
use crate::recovery::{Recovered, UnreleasedResources};
use crate::reservation::Reservation;
use crate::session::LabSession;
use crate::settings::LabSettings;
use crate::tags::Tags;

/// A session with a lab. Places and reservations are released by their guards; the last guard
/// cleans up what is left.
pub struct Lab {
    session: Arc<LabSession>,
    recovered: Recovered,
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").field("client", &self.session.client).finish_non_exhaustive()
    }
}

impl Lab {
    /// Opens a session, after releasing what killed processes left. `work` runs interruptible
    /// calls; `end` runs releases, which must complete.
    ///
    /// # Errors
    /// If the directory of the records cannot be used, or the user interrupts.
    pub fn open(
        settings: LabSettings,
        work: Arc<dyn Runner>,
        end: Arc<dyn Runner>,
    ) -> Result<Self, LabError> {
        let client = Client { settings, owner: Owner::of_this_process(&*end) };
        let recovered = Recovered::all(&client, &*work)?;
        Ok(Self { session: LabSession::new(client, work, end), recovered })
    }

    /// All places of a lab, without opening a session.
    ///
    /// # Errors
    /// If labgrid's client is missing or its coordinator does not answer.
    pub fn places(settings: &LabSettings, runner: &dyn Runner) -> Result<Vec<LabPlace>, LabError> {
        let owner = Owner::of_this_process(runner);
        Client { settings: settings.clone(), owner }.places(runner)
    }

    /// Places that an earlier process left locked and that were released.
    pub fn recovered(&self) -> &[String] {
        &self.recovered.places
    }

    /// What earlier processes may still hold because their lab did not answer. The next start
    /// tries again.
    pub fn still_held(&self) -> &[UnreleasedResources] {
        &self.recovered.still_held
    }

    /// The owner, `HOST/USER`, that the lab shows for this session.
    pub fn owner(&self) -> String {
        self.session.client.owner.to_string()
    }

    /// All places with these tags, including those in use.
    ///
    /// # Errors
    /// [`LabError::NoMatch`] if there is none, or another [`LabError`].
    pub fn all_matching(&self, tags: &Tags) -> Result<Vec<LabPlace>, LabError> {
        let mut places = self.session.places()?;
        places.retain(|place| tags.match_place(&place.name, &place.tags));
        if places.is_empty() {
            return Err(LabError::NoMatch { tags: tags.clone() });
        }
        Ok(places)
    }

    /// Queues for one place with these tags.
    ///
    /// # Errors
    /// [`LabError::NoMatch`] if there is none, or another [`LabError`].
    pub fn reserve(&self, tags: &Tags) -> Result<Reservation, LabError> {
        Reservation::new(&self.session, tags)
    }

    /// Queues for the place of this name and locks it. Waits at most `limit`.
    ///
    /// # Errors
    /// See [`Reservation::lock`].
    pub fn lock(&self, place: &str, limit: Duration) -> Result<LockedPlace, LabError> {
        self.reserve(&Tags::named(place)?)?.lock(limit)
    }

    /// Locks the place of this name without waiting.
    ///
    /// # Errors
    /// [`LabError::Taken`] or [`LabError::Reserved`] if it is in use.
    pub fn lock_now(&self, place: &str) -> Result<LockedPlace, LabError> {
        LockedPlace::new(&self.session, place, None)
    }

    /// Ends the session. Guards that still exist keep what they hold.
    ///
    /// # Errors
    /// If something may still be held; it stays on record for the next start.
    pub fn close(self) -> Result<(), LabError> {
        match Arc::try_unwrap(self.session) {
            Ok(session) => session.close(),
            Err(_) => Ok(()),
        }
    }
}
