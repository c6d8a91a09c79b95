//! Reading and writing places of a device, each with its position in the error.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use flashfit_device::{Device, WriteConsent};
use flashfit_host::Runner;

use crate::error::ApplyError;

/// Reads `length` bytes at `offset` of what was looked at.
pub(crate) fn read(device: &Device, offset: u64, length: usize) -> Result<Vec<u8>, ApplyError> {
    let failed = |source| access(&device.path, offset, length, source);
    read_at(&device.open_for_reading().map_err(failed)?, &device.path, offset, length)
}

/// Reads `length` bytes at `offset` of what the consent contains.
pub(crate) fn read_consented(
    consent: &WriteConsent,
    offset: u64,
    length: usize,
) -> Result<Vec<u8>, ApplyError> {
    read_at(&consent.open_for_reading()?, consent.path(), offset, length)
}

fn read_at(file: &File, path: &Path, offset: u64, length: usize) -> Result<Vec<u8>, ApplyError> {
    let mut bytes = vec![0; length];
    let done = file.read_exact_at(&mut bytes, offset);
    done.map_err(|source| access(path, offset, length, source))?;
    Ok(bytes)
}

/// Looks at the device once more and writes `bytes` at `offset`, synced.
pub(crate) fn write(
    runner: &dyn Runner,
    consent: &WriteConsent,
    offset: u64,
    bytes: &[u8],
) -> Result<(), ApplyError> {
    consent.check(runner)?;
    let file = consent.open()?;
    let done = file.write_all_at(bytes, offset).and_then(|()| file.sync_all());
    done.map_err(|source| access(consent.path(), offset, bytes.len(), source))
}

fn access(path: &Path, offset: u64, length: usize, source: std::io::Error) -> ApplyError {
    ApplyError::Access {
        path: path.to_owned(),
        offset_bytes: offset,
        length_bytes: u64::try_from(length).expect("at most a few MiB"),
        source,
    }
}
