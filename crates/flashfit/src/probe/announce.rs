//! What a probe will do and cost, shown before it begins.

use flashfit_check::Price;
use flashfit_device::{Bytes, Device};
use flashfit_probe::{ProbeRun, WriteEstimate};
use flashfit_target::InspectedTarget;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command_error::CommandError;
use crate::rendering::price;
use crate::{consent, output};

/// That of an image.
const SMALLEST_SECTOR: u64 = 512;
const TOO_SHORT: &str = " This time may be too short to find anything.";

/// What a probe would do, with nothing done.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct WouldProbe {
    target: String,
    write: bool,
    region: [u64; 2],
    /// Most reads of a probe that only reads.
    most_reads: u64,
    /// Why the device would be refused.
    refusal: Option<String>,
    lost: Vec<String>,
    /// Why only the capacity would be tested; `None` if more would be.
    only_capacity: Option<String>,
    /// The part of the written bytes that is for a twin, at most.
    twin_written_bytes: u64,
    /// Of a probe that writes; `None` if it is unknown.
    price: Option<Price>,
    /// Why the price is unknown.
    price_unknown: Option<String>,
}

impl WouldProbe {
    /// # Errors
    /// If the device cannot be read, unless it would be refused anyway.
    pub fn look(
        name: &str,
        write: bool,
        target: &InspectedTarget,
        probe: &ProbeRun<'_>,
    ) -> Result<Self, CommandError> {
        let device = target.device().filter(|_| write);
        let refusal = device.and_then(consent::would_be_refused);
        let estimate = write.then(|| probe.estimate()).transpose();
        let (price, price_unknown) = match estimate {
            Ok(found) => (found.map(|found| Price::of_probe(target, &found)), None),
            // What is refused may also be unreadable, and that is not the reason.
            Err(error) if refusal.is_some() => (None, Some(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let lost = device.map(|device| lost(device, probe.region())).unwrap_or_default();
        Ok(Self {
            target: name.to_owned(),
            write,
            region: probe.region(),
            most_reads: probe.most_reads(),
            refusal,
            lost: lost.lines().map(str::to_owned).collect(),
            only_capacity: probe.only_capacity().map(|why| why.reason().to_owned()),
            twin_written_bytes: probe.budget().twin_bytes,
            price,
            price_unknown,
        })
    }

    pub fn text(&self) -> String {
        let [start, length] = self.region;
        if !self.write {
            return format!(
                "{} would be opened for reading only, and at most {} reads of a few KiB made in \
                 {} from {start}.\nNothing was done.\n",
                self.target,
                self.most_reads,
                Bytes(length)
            );
        }
        let mut lines: Vec<String> = self.refusal.iter().cloned().collect();
        if self.lost.is_empty() {
            lines.push("A simulated card: nothing is lost.".to_owned());
        }
        lines.extend(self.consequences());
        lines.push("Nothing was done.\n".to_owned());
        lines.join("\n")
    }

    /// What a user should see before agreeing.
    pub fn consequences(&self) -> Vec<String> {
        let mut lines = self.lost.clone();
        lines.extend(self.only_capacity.as_deref().map(only_capacity));
        let twin_bytes = self.twin_written_bytes;
        lines.extend(self.price.as_ref().map(|price| cost(price, twin_bytes)));
        let unknown = |error| format!("The cost of the probe is unknown: {error}.");
        lines.extend(self.price_unknown.as_ref().map(unknown));
        lines
    }
}

/// Shows what writing to the device that is `shown` elsewhere, or here, destroys and costs.
pub fn show(
    target: &InspectedTarget,
    probe: &ProbeRun<'_>,
    shown: &Device,
    estimate: &WriteEstimate,
) {
    output::note(&lost(target.device().unwrap_or(shown), probe.region()));
    let only = probe.only_capacity().map(|why| only_capacity(why.reason()));
    only.iter().for_each(|text| output::note(text));
    output::note(&cost(&Price::of_probe(target, estimate), estimate.budget.twin_bytes));
}

/// What writing will cost, with at most so many bytes for a twin.
pub fn cost(price: &Price, twin_bytes: u64) -> String {
    let twin = match twin_bytes {
        0 => String::new(),
        bytes => {
            let probe = price.written_bytes[1].saturating_sub(bytes);
            format!(" Up to {} are for the probe and {} for the twin.", Bytes(probe), Bytes(bytes))
        }
    };
    let short = if price.written_bytes[0] == 0 { TOO_SHORT } else { "" };
    format!(
        "Price of probing: {}.{twin}{short} --max-write SIZE limits what is written, --max-time TIME how \
         long it takes.",
        price::text(price)
    )
}

/// What a probe of this target leaves out.
pub fn only_capacity(reason: &str) -> String {
    format!("Only the capacity will be tested: {reason}.")
}

/// What a user should see before agreeing.
pub fn lost(device: &Device, [start, length]: [u64; 2]) -> String {
    let all = consent::what_is_lost(device);
    // An image can end within a sector, which is not written.
    if device.capacity.0.saturating_sub(length)
        < device.queue.logical_sector_bytes.max(SMALLEST_SECTOR)
    {
        return all;
    }
    format!("{all}\nOnly {} from byte {start} on are overwritten.", Bytes(length))
}
