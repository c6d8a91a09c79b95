//! Whether ext2, ext3, ext4 and XFS know the erase unit and the write unit.

use flashfit_host::program::quote;
use flashfit_medium::Bytes;

use super::{Examined, Finding, Severity, Volume};

pub(super) fn check(examined: &Examined, volume: &Volume) -> Option<Finding> {
    let unit = examined.erase_unit()?;
    let facts = volume.facts.as_ref()?;
    match facts.kind.as_str() {
        "ext2" | "ext3" | "ext4" => Some(extended(examined, volume, unit)),
        "xfs" => {
            let width = facts.number("swidth_bytes").unwrap_or(0);
            Some(judge(volume, "stripe width", width, unit).unwrap_or_else(|| {
                let text = format!(
                    "a stripe width of {} and an erase unit of {}",
                    Bytes(width),
                    Bytes(unit)
                );
                Finding::new("stripe", &volume.name, Severity::Advice, text)
                    .costs("large files are not allocated in whole erase units")
                    .mend(examined.plan_anew(Some("xfs")))
            }))
        }
        _ => None,
    }
}

/// The finding where all is well.
fn judge(volume: &Volume, what: &str, bytes: u64, unit: u64) -> Option<Finding> {
    (bytes != 0 && bytes % unit == 0).then(|| {
        let text = format!("the {what} is {}, whole erase units of {}", Bytes(bytes), Bytes(unit));
        Finding::new("stripe", &volume.name, Severity::Fine, text)
    })
}

fn extended(examined: &Examined, volume: &Volume, unit: u64) -> Finding {
    let facts = volume.facts.as_ref().expect("looked at before");
    let block = facts.block_bytes.max(1);
    let width = facts.number("stripe_width_blocks").unwrap_or(0);
    if let Some(fine) = judge(volume, "stripe width", width.saturating_mul(block), unit) {
        return fine;
    }
    let wanted = unit / block;
    let stride = examined.write_unit().map_or(wanted, |bytes| (bytes / block).max(1));
    let found = if width == 0 {
        "no stripe width is set".to_owned()
    } else {
        format!("the stripe width is {width} blocks, {}", Bytes(width.saturating_mul(block)))
    };
    let text = format!("{found}; an erase unit of {} is {wanted} blocks", Bytes(unit));
    let finding = Finding::new("stripe", &volume.name, Severity::Advice, text)
        .costs("the allocator does not try to fill whole erase units");
    if unit % block == 0 {
        finding.mend(format!(
            "tune2fs -E stride={stride},stripe_width={wanted} {}",
            quote(&volume.name)
        ))
    } else {
        finding
    }
}
