//! The boards of a run before their devices are taken: what each has, whether they can be compared,
//! and the user's consent for each device.

use flashfit_device::ConsentMethod;
use flashfit_target::TargetSource;
use flashfit_testbed::{Capabilities, OpenRequest, TestBedFacts, TrialError};
use flashfit_user_error::{ExitClass, UserError};

use super::super::take::{RunPlan, check_environment};
use super::super::{
    RunError, RunEvent, RunOptionFindings, RunRequest, RunUi, TrialTarget, requirements,
};
use super::LockedBoard;
use crate::record::TrialDevice;

/// A board with its device.
pub struct InspectedBoard<'a> {
    pub board: LockedBoard<'a>,
    pub target: TrialTarget,
    offers: Capabilities,
    /// What the user called its device; nothing for a simulated card.
    named: Option<String>,
}

impl<'a> InspectedBoard<'a> {
    fn inspect(
        request: RunRequest<'_>,
        mut board: LockedBoard<'a>,
        ui: &mut dyn RunUi,
    ) -> Result<Self, RunError> {
        let found = (|| {
            let target = TrialTarget::look(request, board.host.as_mut(), Some(&board.name), ui)?;
            let offers = board.host.describe(&requirements(request))?;
            check_environment(request.spec, &target, &offers)?;
            Ok((target, offers))
        })();
        match found {
            Ok((target, offers)) => Ok(Self { board, target, offers, named: None }),
            Err(error) => Err(RunError::on_board(error, &board.name)),
        }
    }

    /// Where its trials are made, for their records.
    pub fn made_on(&self) -> TrialDevice {
        let inspected = &self.target.inspected;
        let device = match &inspected.source {
            TargetSource::Card(_) => inspected.target.to_string(),
            TargetSource::Device(device) => {
                let identity = &device.identity;
                let own = identity.serial.as_ref().or(identity.cid.as_ref());
                let own = own.map_or_else(String::new, |serial| format!(" {serial}"));
                format!("{}{own}", device.short_name())
            }
        };
        TrialDevice { board: self.board.name.clone(), device }
    }

    /// How its device is taken over.
    pub fn open_request(&self, request: RunRequest<'_>, offers: &Capabilities) -> OpenRequest {
        let grant = self.target.grant(self.named.clone());
        RunPlan { request, target: &self.target, offers }.open_request(grant)
    }
}

/// Inspects the boards. Those that lack something, or whose kernel is another one than that of the
/// run or of the first board, are named and given back.
pub fn inspect<'a>(
    request: RunRequest<'_>,
    boards: Vec<LockedBoard<'a>>,
    before: Option<&TestBedFacts>,
    ui: &mut dyn RunUi,
) -> Result<Vec<InspectedBoard<'a>>, RunError> {
    let mut wanted = before.map(|facts| (facts.kernel.clone(), facts.machine.clone()));
    let mut inspected: Vec<InspectedBoard<'a>> = Vec::new();
    let mut last = None;
    for board in boards {
        let found = InspectedBoard::inspect(request, board, ui).and_then(|board| {
            let (kernel, machine) = (board.offers.kernel.clone(), board.offers.machine.clone());
            let (run_kernel, run_machine) =
                wanted.get_or_insert_with(|| (kernel.clone(), machine.clone())).clone();
            if (&run_kernel, &run_machine) == (&kernel, &machine) {
                return Ok(board);
            }
            let board = board.board.name.clone();
            Err(RunError::OtherKernel { board, kernel, machine, run_kernel, run_machine })
        });
        match found {
            Ok(board) => inspected.push(board),
            Err(error) if error.class() == ExitClass::Interrupted => return Err(error),
            Err(error) => {
                ui.event(RunEvent::BoardLeftOut(&error.to_string()));
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if inspected.is_empty() => Err(error),
        _ => Ok(inspected),
    }
}

/// What all of them offer.
pub fn common_offers(boards: &[InspectedBoard<'_>]) -> Capabilities {
    let mut common = boards[0].offers.clone();
    for board in &boards[1..] {
        common.programs.retain(|name| board.offers.programs.contains(name));
        common.kinds.retain(|kind| board.offers.kinds.contains(kind));
        common.page_bytes = common.page_bytes.max(board.offers.page_bytes);
    }
    common
}

/// Shows each device and asks for its data. A device that is not agreed to is left out.
pub fn agree(boards: &mut Vec<InspectedBoard<'_>>, ui: &mut dyn RunUi) -> Result<(), RunError> {
    let (mut missing, mut agreed) = (Vec::new(), Vec::new());
    let mut last: Option<TrialError> = None;
    // Guests that are alike have one name, and are shown once.
    let mut shown: Option<String> = None;
    for mut board in boards.drain(..) {
        let name = &board.board.name;
        if shown.as_ref() != Some(name) {
            ui.event(RunEvent::Target { board: Some(name), target: &board.target });
            shown = Some(name.clone());
        }
        let Some(device) = board.target.inspected.device() else {
            agreed.push(board);
            continue;
        };
        let host = &mut board.board.host;
        let mut guard = |agreement: &ConsentMethod| host.check_consent(device, agreement);
        match ui.agree(Some(name), device, &mut guard) {
            Ok(named) => {
                board.named = Some(named);
                agreed.push(board);
            }
            Err(error) => {
                ui.event(RunEvent::BoardLeftOut(&format!("{name}: {error}")));
                if matches!(error, TrialError::NotAgreed { .. }) {
                    missing.push((name.clone(), device.short_name().to_string()));
                }
                last = Some(error);
            }
        }
    }
    *boards = agreed;
    match last {
        Some(TrialError::NotAgreed { message, .. }) if boards.is_empty() => {
            Err(RunError::NotAgreed { message, missing })
        }
        Some(error) if boards.is_empty() => Err(error.into()),
        _ => Ok(()),
    }
}

/// What has no effect on one of the boards is not tried on any.
pub fn option_findings(
    request: RunRequest<'_>,
    boards: &mut [InspectedBoard<'_>],
) -> Result<RunOptionFindings, RunError> {
    let mut common = RunOptionFindings::default();
    for board in boards {
        let InspectedBoard { board, target, .. } = board;
        common.and(RunOptionFindings::look(request, target, board.host.as_mut())?);
    }
    Ok(common)
}
