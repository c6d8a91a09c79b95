//! A device or a simulated card, a fact a line.

use std::fmt::Write;

use flashfit_card::CardModel;
use flashfit_device::{Bytes, DeclaredBytes, Device};
use flashfit_host::path_text::to_text;
use flashfit_report::text::{plain, wrap};

use crate::output;

pub fn card_text(model: &CardModel) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| line(&mut text, name, &value);
    line("simulated card", model.name.clone());
    line("what it is", model.title.clone());
    line("size", size(model.capacity));
    line("erase block", Bytes(model.erase_block_bytes()).to_string());
    line("write unit", Bytes(model.write_unit_bytes()).to_string());
    line("translation", translation(model.layer.kind).to_owned());
    if let Some(open) = model.layer.open_erase_blocks {
        line("open erase blocks", open.to_string());
    }
    let cache = |found: &flashfit_card::model::CacheModel| found.bytes.to_string();
    line("volatile cache", model.cache.as_ref().map_or_else(|| "none".to_owned(), cache));
    line(
        "discards",
        model.discard.as_ref().map_or_else(
            || "not supported".to_owned(),
            |discard| format!("in units of {}", discard.granularity),
        ),
    );
    line("figures from", model.source.clone());
    text
}

pub fn device_text(device: &Device) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| line(&mut text, name, &value);
    line("device", to_text(&device.path));
    line("kind", device.kind.to_string());
    line("size", size(device.capacity));
    line("identity", identity(device));
    if let Some(start) = device.partition_start {
        line("starts at", format!("{start} of {}{}", device.disk, on_unit(device, start)));
    }
    match &device.declared_erase_block {
        Some(declared) => {
            line("erase block", stated(declared));
            let others = device.declared.erase_block.iter().filter(|other| *other != declared);
            others.for_each(|other| line("  or", stated(other)));
        }
        None => line("erase block", "not declared".to_owned()),
    }
    let declared = &device.declared;
    declared.write_unit.iter().for_each(|unit| line("write unit", stated(unit)));
    declared.cache.iter().for_each(|size| line("cache", stated(size)));
    declared.capacity.iter().for_each(|size| line("declared size", stated(size)));
    for fact in &declared.facts {
        line(&fact.name, format!("{} ({})", fact.text, fact.source));
    }
    for rejected in &declared.rejected {
        line("not believed", format!("{}: {}", rejected.register, rejected.reason));
    }
    let queue = &device.queue;
    if queue.logical_sector_bytes > 0 {
        let sectors = (queue.logical_sector_bytes, queue.physical_sector_bytes);
        line("sector", format!("{} bytes, {} physical", sectors.0, sectors.1));
        line("write cache", queue.write_cache.clone().unwrap_or_else(|| "unknown".to_owned()));
        line("discards", queue.discard_text());
        line("largest request", Bytes(queue.max_request_bytes).to_string());
        line("read-ahead", Bytes(queue.read_ahead_bytes).to_string());
        let current = queue.scheduler.as_deref().unwrap_or("none");
        line("scheduler", format!("{current} (of {})", queue.schedulers.join(", ")));
    }
    for partition in &device.partitions {
        let place = format!(
            "{} at {}{}",
            partition.size,
            position(partition.start),
            on_unit(device, partition.start)
        );
        line(&partition.name, place);
    }
    for mount in &device.mounts {
        line("mounted", format!("{} ({}) on {}", mount.node, mount.kind, to_text(&mount.point)));
    }
    if device.read_only {
        line("writes", "refused: it is write-protected".to_owned());
    }
    text
}

/// Columns of the names.
const NAMES: usize = 17;

/// A name and its value, which is wrapped within its column.
fn line(text: &mut String, name: &str, value: &str) {
    let columns = output::width().saturating_sub(NAMES + 1);
    let mut name = plain(name);
    for part in wrap(&plain(value), columns) {
        writeln!(text, "{name:<NAMES$} {part}").expect("a string takes any text");
        name.clear();
    }
}

/// A declared size with its source, a guess marked as one.
fn stated(declared: &DeclaredBytes) -> String {
    let guess = if declared.is_guess { ", not declared by the device" } else { "" };
    format!("{} ({}{guess})", declared.bytes, declared.source)
}

fn size(bytes: Bytes) -> String {
    format!("{bytes} ({}, {} bytes)", bytes.si(), bytes.0)
}

/// A start as people look for it: in sectors where it is on no whole KiB.
fn position(start: Bytes) -> String {
    if start.0 % 1024 == 0 { start.to_string() } else { format!("{} bytes", start.0) }
}

fn identity(device: &Device) -> String {
    let identity = &device.identity;
    let mut parts = vec![identity.summary()];
    let mut part = |name: &str, value: &Option<String>| {
        if let Some(value) = value {
            parts.push(format!("{name} {value}"));
        }
    };
    part("serial", &identity.serial);
    part("CID", &identity.cid);
    part("firmware", &identity.firmware);
    parts.join(", ")
}

/// Whether a start lies on the declared erase block, in words.
fn on_unit(device: &Device, start: Bytes) -> String {
    let Some(declared) = &device.declared_erase_block else { return String::new() };
    if flashfit_filesystem::aligned(start.0, declared.bytes.0) {
        format!(", a multiple of {}", declared.bytes)
    } else {
        format!(", NOT a multiple of {}", declared.bytes)
    }
}

fn translation(kind: flashfit_card::model::LayerKind) -> &'static str {
    match kind {
        flashfit_card::model::LayerKind::BlockMapped => "by erase block",
        flashfit_card::model::LayerKind::LogBlock => {
            "by erase block, small writes in a log by page"
        }
        flashfit_card::model::LayerKind::UpdateLog => "by erase block, with an update log",
        flashfit_card::model::LayerKind::PageMapped => "by page",
    }
}
