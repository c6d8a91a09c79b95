//! What documents of commands have in common: schema, version and data.

use flashfit_device::MeasuredDevice;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::identity::{CardIdentity, hexadecimal};
use crate::record::stored_text;

/// The version of all of them.
const VERSION: u64 = 1;
const COMMAND: &str = "command-";
/// Letters of the hash of a command.
const COMMAND_LETTERS: usize = 12;

/// The data of a document, and the version of flashfit that wrote it.
///
/// # Errors
/// The reason, if it cannot be used.
pub fn data<T: DeserializeOwned>(document: &Value) -> Result<(T, String), String> {
    if document.get("schema_version").and_then(Value::as_u64) != Some(VERSION) {
        return Err("it is a document of another version of flashfit".to_owned());
    }
    let data = document.get("data").cloned().unwrap_or_default();
    let data = serde_json::from_value(data)
        .map_err(|error| format!("it is not a document that this version reads: {error}"))?;
    let tool = document.get("tool_version").and_then(Value::as_str).unwrap_or_default();
    Ok((data, stored_text(tool)))
}

/// Which card it was.
///
/// # Errors
/// If the document does not say it.
pub fn card(device: Option<&MeasuredDevice>) -> Result<CardIdentity, String> {
    let device = device.ok_or_else(|| {
        "it does not say which card it was: an earlier version of flashfit wrote it".to_owned()
    })?;
    Ok(CardIdentity::of_device(
        device.kind,
        &device.identity,
        &device.declared,
        device.capacity_bytes,
        device.partition_start_bytes.is_some(),
    ))
}

/// The firmware of the device at that time.
pub fn firmware(device: Option<&MeasuredDevice>) -> String {
    let firmware = device.and_then(|device| device.identity.firmware.as_deref());
    stored_text(firmware.unwrap_or_default())
}

/// A workload that is a command: the same name for the same words. Commands have paths and other
/// private words in them.
pub fn command_name(words: &[String]) -> String {
    let mut hash = Sha256::new();
    for word in words {
        hash.update(word.as_bytes());
        hash.update([0]);
    }
    let hash = hexadecimal(&hash.finalize());
    format!("{COMMAND}{}", &hash[..COMMAND_LETTERS])
}

/// Whether a workload is the hash of a command.
pub fn is_command_name(workload: &str) -> bool {
    workload.starts_with(COMMAND)
}
