//! A lab, from the first look to the last release.

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

/// A lab. What was taken through it is given back by its guards; the last of them and this one
/// together leave nothing behind.
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
    /// Enters a lab, and first gives back what processes that are gone have left. `work` runs what
    /// may be interrupted, `end` what must be done all the same: giving back.
    ///
    /// # Errors
    /// When the folder of the records cannot be used, or the user interrupts.
    pub fn open(
        settings: LabSettings,
        work: Arc<dyn Runner>,
        end: Arc<dyn Runner>,
    ) -> Result<Self, LabError> {
        let client = Client { settings, owner: Owner::of_this_process(&*end) };
        let recovered = Recovered::all(&client, &*work)?;
        Ok(Self { session: Arc::new(LabSession::new(client, work, end)), recovered })
    }

    /// All places of a lab that nobody has to enter for that, by name.
    ///
    /// # Errors
    /// When labgrid's client is not there, or its coordinator does not answer.
    pub fn places(settings: &LabSettings, runner: &dyn Runner) -> Result<Vec<LabPlace>, LabError> {
        let owner = Owner::of_this_process(runner);
        Client { settings: settings.clone(), owner }.places(runner)
    }

    /// The places that an earlier process had left locked and that were given back.
    pub fn recovered(&self) -> &[String] {
        &self.recovered.places
    }

    /// What earlier processes may still hold, because their lab did not answer. It is tried again
    /// at the next start.
    pub fn still_held(&self) -> &[UnreleasedResources] {
        &self.recovered.still_held
    }

    /// The name, `HOST/USER`, that the lab shows for what is taken here.
    pub fn owner(&self) -> String {
        self.session.client.owner.to_string()
    }

    /// All places with these tags, by name, whoever has them.
    ///
    /// # Errors
    /// [`LabError::NoMatch`] where there is none, and as [`LabError`] tells.
    pub fn all_matching(&self, tags: &Tags) -> Result<Vec<LabPlace>, LabError> {
        let mut places = self.session.places()?;
        places.retain(|place| tags.are_met_by(&place.name, &place.tags));
        if places.is_empty() {
            return Err(LabError::NoMatch { tags: tags.clone() });
        }
        Ok(places)
    }

    /// Queues for one place with these tags.
    ///
    /// # Errors
    /// [`LabError::NoMatch`] where there is none, and as [`LabError`] tells.
    pub fn reserve(&self, tags: &Tags) -> Result<Reservation, LabError> {
        Reservation::new(&self.session, tags)
    }

    /// Queues for the place of this name and locks it, for at most `limit`.
    ///
    /// # Errors
    /// As [`Reservation::lock`].
    pub fn lock(&self, place: &str, limit: Duration) -> Result<LockedPlace, LabError> {
        self.reserve(&Tags::named(place)?)?.lock(limit)
    }

    /// Locks the place of this name at once or not at all.
    ///
    /// # Errors
    /// [`LabError::Taken`] and [`LabError::Reserved`] name who has it.
    pub fn lock_now(&self, place: &str) -> Result<LockedPlace, LabError> {
        LockedPlace::new(&self.session, place, None)
    }

    /// Leaves the lab. Guards that are still there keep what they hold.
    ///
    /// # Errors
    /// When something may still be held; it is on record for the next start.
    pub fn close(self) -> Result<(), LabError> {
        match Arc::try_unwrap(self.session) {
            Ok(session) => session.close(),
            Err(_) => Ok(()),
        }
    }
}
