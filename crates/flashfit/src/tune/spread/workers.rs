//! The boards of a run before their devices are taken: what each has, whether they can be compared,
//! and the user's word for each device.

use std::collections::BTreeMap;

use flashfit_device::ConsentMethod;
use flashfit_testbed::{Capabilities, Host, OpenRequest, Requirements, TestBedFacts, TrialError};
use flashfit_tune::{RunSpec, TrialDevice};
use flashfit_user_error::ExitClass;

use super::SpreadContext;
use crate::command_error::CommandError;
use crate::consent;
use crate::output::note;
use crate::test_beds::lab::LockedBoard;
use crate::tune::option_findings::RunOptionFindings;
use crate::tune::subject::TrialTarget;
use crate::tune::{announce, environment};
use flashfit_target::TargetSource;

/// A board with its device.
pub struct WorkerBoard {
    pub berth: LockedBoard,
    pub subject: TrialTarget,
    offers: Capabilities,
    /// What the user called its device; nothing for a simulated card.
    named: Option<String>,
}

impl WorkerBoard {
    fn look(mut berth: LockedBoard, means: SpreadContext<'_>) -> Result<Self, CommandError> {
        let SpreadContext { spec, catalogues, .. } = means;
        let found = (|| {
            let subject = TrialTarget::look(spec, &mut berth.place)?;
            let offers = berth.place.describe(&Requirements::of(&catalogues.filesystems))?;
            environment(spec, &subject, &offers)?;
            Ok((subject, offers))
        })();
        match found {
            Ok((subject, offers)) => Ok(Self { berth, subject, offers, named: None }),
            Err(error) => Err(CommandError::at(error, &berth.name)),
        }
    }

    /// Where its trials are made, for their records.
    pub fn made_on(&self) -> TrialDevice {
        let medium = match &self.subject.inspected.source {
            TargetSource::Card(_) => self.subject.inspected.target.to_string(),
            TargetSource::Device(medium) => {
                let identity = &medium.identity;
                let own = identity.serial.as_ref().or(identity.cid.as_ref());
                let own = own.map_or_else(String::new, |serial| format!(" {serial}"));
                format!("{}{own}", medium.short_name())
            }
        };
        TrialDevice { board: self.berth.name.clone(), medium }
    }

    /// How its device is taken over.
    pub fn opening(&self, spec: &RunSpec) -> OpenRequest {
        OpenRequest {
            grant: self.subject.leave(self.named.clone()),
            geometry_override: self.subject.geometry.clone(),
            layout: self.subject.layout.clone(),
            memory_bytes: spec.memory.0,
            mount_dir: spec.mount_dir.clone(),
        }
    }
}

/// Looks at the boards. Those that lack something, or whose kernel is another one than that of the
/// run or of the first board, are named and given back.
pub fn look(
    berths: Vec<LockedBoard>,
    means: SpreadContext<'_>,
    before: Option<&TestBedFacts>,
) -> Result<Vec<WorkerBoard>, CommandError> {
    let mut wanted = before.map(|facts| (facts.kernel.clone(), facts.machine.clone()));
    let mut crew: Vec<WorkerBoard> = Vec::new();
    let mut last = None;
    for berth in berths {
        let looked = WorkerBoard::look(berth, means).and_then(|member| {
            let found = (member.offers.kernel.clone(), member.offers.machine.clone());
            let wanted = wanted.get_or_insert_with(|| found.clone());
            if *wanted == found {
                return Ok(member);
            }
            let ((kernel, machine), (other, on)) = (found, &*wanted);
            Err(CommandError::new(
                ExitClass::Environment,
                format!(
                    "{} has Linux {kernel} on {machine}, the run has {other} on {on}; such figures \
                     cannot be compared",
                    member.berth.name
                ),
                Some("ask for boards of one kind by their tags"),
            ))
        });
        match looked {
            Ok(member) => crew.push(member),
            Err(error) if error.class() == ExitClass::Interrupted => return Err(error),
            Err(error) => {
                note(&format!("left out: {}", error.message()));
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if crew.is_empty() => Err(error),
        _ => Ok(crew),
    }
}

/// What all of them offer.
pub fn common_offers(crew: &[WorkerBoard]) -> Capabilities {
    let mut common = crew[0].offers.clone();
    for member in &crew[1..] {
        common.programs.retain(|name| member.offers.programs.contains(name));
        common.kinds.retain(|kind| member.offers.kinds.contains(kind));
    }
    common
}

/// Shows each device and asks for its data. A device that is not agreed to is left out.
pub fn agree(crew: &mut Vec<WorkerBoard>, confirmed: &[String]) -> Result<(), CommandError> {
    let given = given(confirmed)?;
    let mut lacking = Vec::new();
    let mut last: Option<TrialError> = None;
    let mut agreed = Vec::new();
    for mut member in crew.drain(..) {
        note(&format!("{}:", member.berth.name));
        announce::geometry(&member.subject);
        let TargetSource::Device(medium) = &member.subject.inspected.source else {
            agreed.push(member);
            continue;
        };
        let place = &mut member.berth.place;
        let mut guard = |agreement: &ConsentMethod| place.check_consent(medium, agreement);
        let name = given.get(&member.berth.name).map(String::as_str);
        match consent::agreed(medium, name, &mut guard) {
            Ok(named) => {
                member.named = Some(named);
                agreed.push(member);
            }
            Err(error) => {
                note(&format!("left out: {}: {error}", member.berth.name));
                if matches!(error, TrialError::NotAgreed { .. }) {
                    lacking.push(format!("{}:{}", member.berth.name, medium.short_name()));
                }
                last = Some(error);
            }
        }
    }
    *crew = agreed;
    match last {
        Some(TrialError::NotAgreed { message, .. }) if crew.is_empty() => Err(CommandError::new(
            ExitClass::Refused,
            message,
            Some(&format!("--confirm {}", lacking.join(","))),
        )),
        Some(error) if crew.is_empty() => Err(error.into()),
        _ => Ok(()),
    }
}

/// `BOARD:NAME` by board.
fn given(confirmed: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    let parts = confirmed.iter().flat_map(|text| text.split(','));
    parts
        .map(|part| match part.split_once(':') {
            Some((board, name)) if !board.is_empty() && !name.is_empty() => {
                Ok((board.to_owned(), name.to_owned()))
            }
            _ => Err(CommandError::new(
                ExitClass::Usage,
                format!("`{part}` does not say whose medium is meant"),
                Some("in a lab: --confirm BOARD:NAME,BOARD:NAME"),
            )),
        })
        .collect()
}

/// What is no choice on any one of the boards is none.
pub fn validity(
    crew: &mut [WorkerBoard],
    means: SpreadContext<'_>,
) -> Result<RunOptionFindings, CommandError> {
    let mut common = RunOptionFindings::default();
    for member in crew {
        let WorkerBoard { berth, subject, .. } = member;
        let own = RunOptionFindings::look(means.spec, subject, means.catalogues, &mut berth.place)?;
        common.and(own);
    }
    Ok(common)
}
