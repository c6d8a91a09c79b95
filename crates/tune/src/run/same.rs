//! Whether a run continues on the device and with the numbers with which it was begun.

use flashfit_card::CardModel;
use flashfit_device::{Device, DeviceKind, Target};
use flashfit_target::TargetSource;
use flashfit_testbed::TestBedFacts;

use super::{RunError, TrialTarget};
use crate::spec::RunHeader;

pub(super) fn device(header: &RunHeader, target: &TrialTarget) -> Result<(), RunError> {
    let before = &header.facts.device;
    let is_same = match &target.inspected.source {
        TargetSource::Card(model) => {
            let card = header.facts.card.as_ref();
            let same = |before: &CardModel| {
                // A card's description may have been reworded since.
                let (title, source) = (model.title.clone(), model.source.clone());
                CardModel { title, source, ..before.clone() } == **model
            };
            card.is_some_and(|card| card.model.as_ref().is_none_or(same))
        }
        TargetSource::Device(now) => {
            let mut identity = now.identity.clone();
            // Counts attachments, not devices: it differs after the card was out, or the machine
            // off.
            identity.disk_sequence = before.identity.disk_sequence;
            let is_image = matches!(target.inspected.target, Target::Image(_));
            same_file(before, now)
                && before.capacity == now.capacity
                && (is_image || before.identity == identity)
        }
    };
    if is_same {
        return Ok(());
    }
    Err(RunError::OtherDevice {
        before: before.identity.summary(),
        capacity: before.capacity,
        is_other_file: target.inspected.device().is_some_and(|now| !same_file(before, now)),
    })
}

/// Whether both looks were at one file: an image, or the same place in what is behind a loop
/// device. A run of an earlier flashfit lacks both.
fn same_file(before: &Device, now: &Device) -> bool {
    let file = |device: &Device| match device.kind {
        DeviceKind::Image => device.object,
        _ => device.backing,
    };
    match (file(before), file(now)) {
        (Some(before_id), Some(now_id)) => {
            before_id.is_same_file(&now_id) && before.backing_offset == now.backing_offset
        }
        _ => true,
    }
}

pub(super) fn numbers(header: &RunHeader, facts: &TestBedFacts) -> Result<(), RunError> {
    let planned = |facts: &TestBedFacts, name: &str| facts.conditions_for(name).planned;
    let names = header.choices.iter().map(|choices| choices.filesystem.as_str());
    match names.into_iter().find(|name| planned(&header.facts, name) != planned(facts, name)) {
        None => Ok(()),
        Some(name) => Err(RunError::OtherNumbers { filesystem: name.to_owned() }),
    }
}
