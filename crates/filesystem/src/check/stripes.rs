//! Whether ext2, ext3, ext4 and XFS know the erase block and the write unit.

use flashfit_device::Bytes;

use crate::improvement::{ExpectedFacts, ImprovedVolume, Improvement};
use crate::plan::numbers::PlacementNumbers;

use super::{CheckFinding, ExaminedDevice, Severity, Volume};

const UNALIGNED: &str = "the allocator does not try to fill whole erase blocks";

pub(super) fn check(examined: &ExaminedDevice, volume: &Volume) -> Option<CheckFinding> {
    let unit = examined.erase_block()?;
    let facts = volume.facts.as_ref()?;
    match facts.kind.as_str() {
        "ext2" | "ext3" | "ext4" => Some(extended(examined, volume, unit)),
        "xfs" => Some(xfs(examined, volume, unit)),
        _ => None,
    }
}

/// The finding where all is well.
fn judge(volume: &Volume, what: &str, bytes: u64, unit: u64) -> Option<CheckFinding> {
    (bytes != 0 && bytes % unit == 0).then(|| {
        let text = format!("the {what} is {}, whole erase blocks of {}", Bytes(bytes), Bytes(unit));
        CheckFinding::new("stripe", &volume.name, Severity::Fine, text)
    })
}

fn xfs(examined: &ExaminedDevice, volume: &Volume, unit: u64) -> CheckFinding {
    let facts = volume.facts.as_ref().expect("looked at before");
    let width = facts.number("swidth_bytes").unwrap_or(0);
    if let Some(fine) = judge(volume, "stripe width", width, unit) {
        return fine;
    }
    let planned = examined.planned(volume).unwrap_or_default();
    if let (0, Some(reason)) = (width, none_fits(&planned, "swidth_units")) {
        return CheckFinding::new("stripe", &volume.name, Severity::Fine, reason);
    }
    let found = if width == 0 {
        "no stripe width is set".to_owned()
    } else {
        format!("the stripe width is {}", Bytes(width))
    };
    let text = format!("{found}; an erase block is {}", Bytes(unit));
    CheckFinding::new("stripe", &volume.name, Severity::Advice, text)
        .costs("large files are not allocated in whole erase blocks")
        .repair(examined.replan(volume, examined.starts_on_boundary(volume)))
}

/// Why the planner sets no stripe here, where that is so.
fn none_fits(planned: &PlacementNumbers, width: &str) -> Option<String> {
    if planned.planned.contains_key(width) {
        return None;
    }
    let reason = planned.warnings.first().map_or("no stripe width fits here", String::as_str);
    Some(format!("no stripe width is set; {reason}"))
}

fn extended(examined: &ExaminedDevice, volume: &Volume, unit: u64) -> CheckFinding {
    let facts = volume.facts.as_ref().expect("looked at before");
    let block = facts.block_bytes.max(1);
    let width = facts.number("stripe_width_blocks").unwrap_or(0);
    if let Some(fine) = judge(volume, "stripe width", width.saturating_mul(block), unit) {
        return fine;
    }
    let stride = facts.number("stride_blocks").unwrap_or(0);
    if let Some(fine) = in_strides(volume, width, stride.saturating_mul(block), unit) {
        return fine;
    }
    let planned = examined.planned(volume).unwrap_or_default();
    if let (0, Some(reason)) = (width, none_fits(&planned, "stripe_width_blocks")) {
        return CheckFinding::new("stripe", &volume.name, Severity::Fine, reason);
    }
    let found = if width == 0 {
        "no stripe width is set".to_owned()
    } else {
        format!("the stripe width is {width} blocks, {}", Bytes(width.saturating_mul(block)))
    };
    let text = format!("{found}; an erase block of {} is {} blocks", Bytes(unit), unit / block);
    let finding =
        CheckFinding::new("stripe", &volume.name, Severity::Advice, text).costs(UNALIGNED);
    let (stride_before, width_before) = (stride, width);
    let number = |name: &str| planned.planned.get(name);
    match (number("stride_blocks"), number("stripe_width_blocks")) {
        (Some(stride), Some(width)) => {
            let before = (stride_before, width_before);
            match stripes(examined, volume, before, (*stride, *width)) {
                Some(improvement) => finding.repair(improvement),
                None => finding,
            }
        }
        _ => finding,
    }
}

/// A stripe width that counts strides instead of blocks, as a published recipe does.
fn in_strides(volume: &Volume, width: u64, stride: u64, unit: u64) -> Option<CheckFinding> {
    let bytes = width.saturating_mul(stride);
    (bytes != 0 && bytes % unit == 0).then(|| {
        let text = format!(
            "the stripe width is {width} strides of {}, whole erase blocks of {}, as the Dreamplug \
             recipe counts; mke2fs(8) counts blocks",
            Bytes(stride),
            Bytes(unit)
        );
        CheckFinding::new("stripe", &volume.name, Severity::Fine, text)
    })
}

/// The numbers of the superblock, which tune2fs(8) changes.
fn stripes(
    examined: &ExaminedDevice,
    volume: &Volume,
    before: (u64, u64),
    (stride, width): (u64, u64),
) -> Option<Improvement> {
    let args = |(stride, width): (u64, u64)| {
        vec!["-E".to_owned(), format!("stride={stride},stripe_width={width}")]
    };
    let number = |name: &str, value| (name.to_owned(), value);
    Some(Improvement::Superblock {
        volume: ImprovedVolume::of(volume)?,
        shown_node: examined.node_for_tools(volume),
        program: "tune2fs".to_owned(),
        args: args((stride, width)),
        restore_args: args(before),
        expected: ExpectedFacts {
            absent_feature: None,
            numbers: vec![number("stride_blocks", stride), number("stripe_width_blocks", width)],
        },
        why: UNALIGNED.to_owned(),
        risk: String::new(),
    })
}
