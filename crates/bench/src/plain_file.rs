//! Lays out the file of a simple job without fio.
//!
//! Where the processor is emulated, fio takes longer to start than to write a few MiB. A job is
//! simple if fio would write one file of random data in order: with `create_only`, it sets the
//! size of the file, writes it through the page cache and calls fsync (`extend_file` in fio's
//! `filesetup.c`, 3.33). All other jobs are left to fio. Limit: a file of more than half of the
//! memory limit too, because the kernel throttles fio by it, and not this program.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use flashfit_device::random::Random;
use flashfit_host::Runner;

use crate::error::BenchError;
use crate::fio::system;
use crate::jobfile;

/// Options that do not matter for the layout of a file.
const IRRELEVANT: [&str; 13] = [
    "bs",
    "direct",
    "directory",
    "end_fsync",
    "fsync",
    "group_reporting",
    "invalidate",
    "norandommap",
    "overwrite",
    "randseed",
    "runtime",
    "rw",
    "thread",
];
const PART_BYTES: usize = 256 << 10;

/// The only file of a job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlainFile {
    name: String,
    bytes: u64,
}

impl PlainFile {
    /// `None` if fio must lay out the files of these sections.
    pub(crate) fn of_job(
        text: &str,
        sections: &[String],
        variables: &[(String, String)],
        memory_bytes: u64,
    ) -> Option<Self> {
        let [section] = sections else { return None };
        let options = jobfile::options(text, section)?;
        // fio uses the last of several values.
        let value = |wanted: &str| {
            options.iter().rev().find(|(key, _)| *key == wanted).map(|(_, value)| *value)
        };
        let is_known = |key: &str| {
            let relevant = ["fallocate", "filename", "ioengine", "refill_buffers", "size"];
            IRRELEVANT.contains(&key) || relevant.contains(&key)
        };
        let is_simple = options.iter().all(|(key, _)| is_known(key))
            && value("fallocate") == Some("none")
            && value("ioengine") == Some("psync")
            && matches!(value("refill_buffers"), Some("1" | ""));
        let variable = value("size")?.strip_prefix("${")?.strip_suffix('}')?;
        let (_, size) = variables.iter().find(|(name, _)| name == variable)?;
        let bytes: u64 = size.parse().ok()?;
        let name = value("filename").map_or_else(|| format!("{section}.0.0"), str::to_owned);
        (is_simple && bytes <= memory_bytes / 2).then_some(Self { name, bytes })
    }

    /// Writes the file, unless it is there with its size.
    ///
    /// # Errors
    /// Of the file system, and at an interrupt.
    pub(crate) fn lay_out(
        &self,
        runner: &dyn Runner,
        folder: &Path,
        seed: u64,
    ) -> Result<(), BenchError> {
        let path = folder.join(&self.name);
        if std::fs::metadata(&path).is_ok_and(|facts| facts.len() >= self.bytes) {
            return Ok(());
        }
        let mut file = File::create(&path).map_err(system(&path))?;
        file.set_len(self.bytes).map_err(system(&path))?;
        let mut random = Random::new(seed);
        let mut part = vec![0; PART_BYTES];
        let mut left = self.bytes;
        while left > 0 {
            runner.wait(Duration::ZERO)?;
            for word in part.chunks_exact_mut(8) {
                word.copy_from_slice(&random.next_u64().to_le_bytes());
            }
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(part.len());
            file.write_all(&part[..length]).map_err(system(&path))?;
            left -= length as u64;
        }
        file.sync_all().map_err(system(&path))
    }
}

#[cfg(test)]
mod tests {
    use crate::Workloads;

    use super::*;

    fn variables() -> Vec<(String, String)> {
        [("SIZE", "4194304"), ("HALF", "2097152")]
            .map(|(name, value)| (name.into(), value.into()))
            .into()
    }

    fn of(text: &str, sections: &[&str]) -> Option<PlainFile> {
        let sections: Vec<String> = sections.iter().map(|&name| name.to_owned()).collect();
        PlainFile::of_job(text, &sections, &variables(), 8 << 20)
    }

    #[test]
    fn jobs_of_one_file_are_simple() {
        let workloads = Workloads::load(None).unwrap();
        let simple: Vec<&str> = workloads
            .all()
            .iter()
            .filter(|found| {
                PlainFile::of_job(&found.text, &found.fill, &variables(), 8 << 20).is_some()
            })
            .map(|found| found.name.as_str())
            .collect();
        let reads = ["linear-read", "random-read"];
        let unpacking = ["untar", "untar-write"];
        assert_eq!(simple, [&["bonnie"][..], &reads, &["random-write"], &unpacking].concat());
    }

    #[test]
    fn what_fio_would_lay_out_otherwise_is_left_to_it() {
        const JOB: &str = "[global]\ndirectory=${DIRECTORY}\nioengine=psync\nfallocate=none\n\
                           refill_buffers=1\n[one]\nsize=${SIZE}\nrw=read\n[two]\nnrfiles=3\n";
        let file = PlainFile { name: "one.0.0".to_owned(), bytes: 4 << 20 };
        assert_eq!(of(JOB, &["one"]), Some(file));
        let named = JOB.replace("rw=read", "filename=data");
        assert_eq!(of(&named, &["one"]).unwrap().name, "data");
        assert_eq!(of(JOB, &["two"]), None);
        assert_eq!(of(JOB, &["one", "two"]), None);
        for (from, to) in [
            ("rw=read", "numjobs=2"),
            ("rw=read", "offset=4k"),
            ("rw=read", "refill_buffers=0"),
            ("fallocate=none", "fallocate=native"),
            ("fallocate=none", ""),
            ("refill_buffers=1", "zero_buffers=1"),
            ("${SIZE}", "4m"),
            ("${SIZE}", "${WORK_SET}"),
        ] {
            assert_eq!(of(&JOB.replace(from, to), &["one"]), None, "{to}");
        }
        let sections = ["one".to_owned()];
        assert_eq!(PlainFile::of_job(JOB, &sections, &variables(), (8 << 20) - 1), None);
    }
}
