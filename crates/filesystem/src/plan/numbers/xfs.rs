//! XFS: stripe unit and stripe width.
//!
//! Source: mkfs.xfs(8): `su` is a multiple of the block, `sw` counts stripe units. mkfs.xfs makes
//! four allocation groups on a device of less than 4 TiB and wants several stripes in each.

use flashfit_device::Bytes;

use super::super::arithmetic::lcm;
use super::super::document::NumberUnit;
use super::{PlacementContext, PlacementNumbers, multiple};

const MIN_GROUPS: u64 = 4;
const MIN_STRIPES: u64 = 4;

pub(super) fn fit(site: &PlacementContext) -> PlacementNumbers {
    let mut fitted = PlacementNumbers::default();
    let Some(erase_block) = site.erase_block_bytes else { return fitted };
    let (sunit, why) = match site.write_unit_bytes {
        Some(write_unit) => (
            lcm(write_unit, site.block_bytes),
            if write_unit % site.block_bytes == 0 {
                format!("the write unit of {}", Bytes(write_unit))
            } else {
                format!("the write unit of {} in whole blocks", Bytes(write_unit))
            },
        ),
        None => (
            lcm(erase_block, site.block_bytes),
            "the write unit is not known, so the stripe unit is the erase block".to_owned(),
        ),
    };
    let both = sunit.and_then(|sunit| Some((sunit, lcm(sunit, erase_block)?)));
    let room = site.place.size_bytes / MIN_GROUPS / MIN_STRIPES;
    let Some((sunit, swidth)) = both.filter(|(_, swidth)| *swidth <= room) else {
        fitted.warn(format!(
            "with an erase block of {} there are no {MIN_STRIPES} stripes in an allocation group, \
             so no stripe is set",
            Bytes(erase_block)
        ));
        return fitted;
    };
    fitted.set("sunit_bytes", sunit);
    fitted.set("swidth_units", swidth / sunit);
    fitted.add("sunit_bytes", sunit, NumberUnit::Bytes, why);
    let why = format!("{}, in whole stripe units", multiple("erase block", swidth, erase_block));
    fitted.add("swidth_bytes", swidth, NumberUnit::Bytes, why);
    fitted
}
