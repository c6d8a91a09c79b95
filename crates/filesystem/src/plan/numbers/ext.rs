//! ext2, ext3, ext4: stride and stripe width.
//!
//! Sources: mke2fs(8), which counts both in blocks; `ext4_get_stripe_size()` in the kernel's
//! fs/ext4/super.c, which passes over a stripe that is wider than a block group. The seeds differ
//! in what the stripe width counts: Gentoo and Linutop count blocks, Dreamplug strides.

use flashfit_device::Bytes;

use super::super::arithmetic::{gcd, lcm};
use super::super::document::{NumberUnit, StripeWidth};
use super::{PlacementContext, PlacementNumbers, multiple};

pub(super) fn fit(site: &PlacementContext) -> PlacementNumbers {
    let mut fitted = PlacementNumbers::default();
    let block = site.block_bytes;
    fitted.add(
        "block_bytes",
        block,
        NumberUnit::Bytes,
        "the page of most machines, which is the largest block that Linux mounts there",
    );
    let Some(erase_block) = site.erase_block_bytes else { return fitted };
    let whole = lcm(erase_block, block).map(|bytes| bytes / block);
    // One bitmap block describes the blocks of a group.
    let Some(width) = whole.filter(|blocks| *blocks <= 8 * block) else {
        fitted.warn(format!(
            "the erase block of {} is wider than a block group of {}: the kernel would pass over \
             such a stripe width, so none is set",
            Bytes(erase_block),
            Bytes(8 * block * block)
        ));
        return fitted;
    };
    let stride = stride(site, width, &mut fitted);
    let (value, reason) = stripe_width(site, erase_block, width, stride);
    fitted.set("stripe_width_blocks", value);
    fitted.add("stripe_width_blocks", value, NumberUnit::Blocks, reason);
    fitted
}

/// The stride in blocks: the write unit, where it is known.
fn stride(site: &PlacementContext, width: u64, fitted: &mut PlacementNumbers) -> u64 {
    let block = site.block_bytes;
    let (stride, reason) = match site.write_unit_bytes {
        None => (
            width,
            "the write unit is not known, so the stride is set equal to the stripe width, as the \
             Linutop recipe does"
                .to_owned(),
        ),
        Some(write_unit) if write_unit <= block => {
            (1, format!("the write unit of {} is not more than a block", Bytes(write_unit)))
        }
        Some(write_unit) if write_unit % block == 0 => (
            write_unit / block,
            format!("the write unit of {} / a block of {}", Bytes(write_unit), Bytes(block)),
        ),
        Some(write_unit) => (
            lcm(write_unit, block).map_or(width, |bytes| bytes / block),
            format!("the least multiple of the write unit of {write_unit} bytes in blocks"),
        ),
    };
    let (stride, reason) = if width % stride == 0 {
        (stride, reason)
    } else {
        let common = gcd(width, stride);
        (common, format!("{reason}, which the erase block is not a multiple of: what divides both"))
    };
    fitted.set("stride_blocks", stride);
    fitted.add("stride_blocks", stride, NumberUnit::Blocks, reason);
    stride
}

fn stripe_width(
    site: &PlacementContext,
    erase_block: u64,
    width: u64,
    stride: u64,
) -> (u64, String) {
    let block = site.block_bytes;
    match (site.stripe_width, site.write_unit_bytes) {
        (StripeWidth::Strides, Some(_)) => (
            width / stride,
            format!(
                "{} / a stride of {}: the Dreamplug recipe counts strides; mke2fs(8) counts \
                 blocks, which would be {width}",
                Bytes(width * block),
                Bytes(stride * block)
            ),
        ),
        _ if width * block == erase_block => (
            width,
            format!("the erase block of {} / a block of {}", Bytes(erase_block), Bytes(block)),
        ),
        _ => (width, format!("{} in blocks", multiple("erase block", width * block, erase_block))),
    }
}
