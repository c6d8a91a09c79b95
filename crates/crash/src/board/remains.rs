//! A real device after a power cut: mounted, checked and repaired by the board itself.
//!
//! Limit: a repair changes the device, so no image of what the power cut left is kept.

use std::path::Path;
use std::time::Duration;

use super::session::{BoardSession, unexpected};
use super::wire::{BoardReply, BoardRequest, DEVICE, DeviceProgram};
use crate::CrashError;
use crate::cuts::wire::{GuestMount, GuestReply, GuestRequest};
use crate::observe::remains::{Look, Remains};
use crate::setup::CrashSetup;
use crate::workload::CrashWorkload;

pub(super) struct BoardRemains<'a, 'b> {
    pub session: &'a mut BoardSession<'b>,
    pub setup: &'a CrashSetup,
    pub workload: &'a CrashWorkload,
}

/// How a setup is mounted.
pub(super) fn mount_of(setup: &CrashSetup) -> GuestMount {
    let recipe = &setup.recipe;
    GuestMount { kind: recipe.kind().to_owned(), options: recipe.mount_options().to_vec() }
}

impl BoardRemains<'_, '_> {
    fn said(&mut self, request: &BoardRequest) -> Result<Option<String>, CrashError> {
        match self.session.ask(request)? {
            BoardReply::Said(said) => Ok(said),
            other => Err(unexpected(&other)),
        }
    }
}

impl Remains for BoardRemains<'_, '_> {
    fn look(&mut self, input: &str) -> Result<Look, CrashError> {
        let (mount, workload) = (mount_of(self.setup), self.workload.clone());
        let input = input.to_owned();
        match self.session.ask_guest(GuestRequest::Check { mount, workload, input })? {
            GuestReply::Checked { view, mount_ns } => {
                Ok(Look { view: *view, recovery: Duration::from_nanos(mount_ns) })
            }
            other => Err(unexpected(&BoardReply::Guest(other))),
        }
    }

    fn damage(&mut self) -> Result<Option<String>, CrashError> {
        let program = DeviceProgram::new(&self.setup.recipe.fsck(Path::new(DEVICE)));
        self.said(&BoardRequest::Check { program })
    }

    fn repair(&mut self) -> Result<Option<Option<String>>, CrashError> {
        let Some(repair) = self.setup.recipe.repair(Path::new(DEVICE)) else { return Ok(None) };
        self.said(&BoardRequest::Repair { program: DeviceProgram::new(&repair) }).map(Some)
    }
}
