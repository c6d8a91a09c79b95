//! Requests that were recorded elsewhere, in the format of dm-log-writes.
//!
//! The kernel's dm-log-writes and QEMU's `blklogwrites` write such files. A file or a block device
//! is read once, from its beginning, and never written.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use flashfit_host::input_file;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::CrashError;
use crate::log::{CrashLog, DmLogError, DmLogStart};
use crate::workload::CrashWorkload;

/// The files of such requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestFiles<'a> {
    pub log: &'a Path,
    /// The mark that the work begins after.
    pub mark: Option<&'a str>,
    /// The contents of the device before the first request.
    pub image: Option<&'a Path>,
}

/// Which requests a campaign checks.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RequestsPlan {
    /// SHA-256 of the log.
    pub log: String,
    /// The mark that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// SHA-256 of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

impl RequestFiles<'_> {
    /// Reads them, for states of this setup.
    ///
    /// # Errors
    /// When a file cannot be read or is no such log, or a check would have nothing to look for.
    pub fn load(
        &self,
        setup: &str,
        workload: &CrashWorkload,
    ) -> Result<(CrashLog, RequestsPlan), CrashError> {
        let mut log = Hashing::open(self.log)?;
        let mut image = self.image.map(Hashing::open).transpose()?;
        let start = DmLogStart {
            mark: self.mark,
            image: image.as_mut().map(|image| image as &mut dyn Read),
        };
        let read = CrashLog::from_dm_log(&mut log, start);
        let mut read = read.map_err(|source| refused(self.log, source))?;
        if matches!(workload, CrashWorkload::Program(_)) && read.operations.is_empty() {
            return Err(CrashError::NothingAcknowledged);
        }
        read.setup = setup.to_owned();
        let plan = RequestsPlan {
            log: log.sum(),
            mark: self.mark.map(str::to_owned),
            image: image.map(Hashing::sum),
        };
        Ok((read, plan))
    }
}

fn refused(path: &Path, source: DmLogError) -> CrashError {
    CrashError::Requests { path: path.to_owned(), source }
}

/// A file whose bytes are hashed while they are read.
struct Hashing {
    from: BufReader<File>,
    sum: Sha256,
}

impl Hashing {
    fn open(path: &Path) -> Result<Self, CrashError> {
        let failed = |source: io::Error| refused(path, source.into());
        let kind = path.metadata().map_err(failed)?.file_type();
        // The kernel records to a device.
        let file = if kind.is_block_device() {
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
            File::options().read(true).custom_flags(flags).open(path).map_err(failed)?
        } else {
            input_file::open(path).map_err(|error| failed(error.into_io()))?
        };
        Ok(Self { from: BufReader::with_capacity(1 << 20, file), sum: Sha256::new() })
    }

    fn sum(self) -> String {
        format!("{:x}", self.sum.finalize())
    }
}

impl Read for Hashing {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(bytes)?;
        self.sum.update(&bytes[..count]);
        Ok(count)
    }
}
