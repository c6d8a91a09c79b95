//! Reading and writing places of a device, each with its position in the error.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use flashfit_device::{BlockDev, BlockDevError, Device, DirectDevice, DirectError, WriteConsent};
use flashfit_host::Runner;
use flashfit_host::loop_device::drop_pages_of;
use rustix::fs::{Advice, fadvise};

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

/// Writes back what the kernel caches of the device and drops it, so that the next program reads
/// what the device has. Pages that somebody uses stay.
pub(crate) fn drop_cached(consent: &WriteConsent) -> Result<(), ApplyError> {
    let file = consent.open_for_reading()?;
    file.sync_all().map_err(ApplyError::file(consent.path()))?;
    // The first is for root and block devices only; both are best effort.
    let _ = drop_pages_of(&file);
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    Ok(())
}

/// The offset of the first of `pieces` that the device returns differently. The reads bypass the
/// page cache, which returns what was written whatever the device did with it.
pub(crate) fn differing(
    consent: &WriteConsent,
    pieces: &[(u64, Vec<u8>)],
) -> Result<Option<u64>, ApplyError> {
    // Where the file system of an image does not support direct reads.
    drop_cached(consent)?;
    let mut device = DirectDevice::for_reading_back(consent).map_err(|error| match error {
        DirectError::Refused(refusal) => refusal.into(),
        DirectError::Open { path, source } => ApplyError::File { path, source },
    })?;
    for (offset, bytes) in pieces {
        let mut found = vec![0; bytes.len()];
        device.read(*offset, &mut found).map_err(|error| {
            let source = match error {
                BlockDevError::Io { source, .. } => source,
                other => std::io::Error::other(other.to_string()),
            };
            access(consent.path(), *offset, bytes.len(), source)
        })?;
        if found != *bytes {
            return Ok(Some(*offset));
        }
    }
    Ok(None)
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
