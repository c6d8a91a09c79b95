//! Setting knobs of the machine for a trial (sysctl keys, attributes of a queue), and putting back
//! what was there.
//!
//! Source: Documentation/admin-guide/sysctl/vm.rst: `vm.dirty_bytes` and `vm.dirty_ratio` are two
//! forms of one limit; setting one sets the other to 0, and 0 cannot be written. Limit: a process
//! that is killed outright puts nothing back.

use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Two forms of one knob: of these the one that is not 0 is in force.
const FORMS: [(&str, &str); 2] =
    [("dirty_bytes", "dirty_ratio"), ("dirty_background_bytes", "dirty_background_ratio")];

/// Where the files of knobs lie.
#[derive(Debug, Clone)]
pub struct KnobPaths {
    /// `/proc/sys`.
    pub sysctl: PathBuf,
    /// The device's folder in `/sys/block`.
    pub block: PathBuf,
}

/// Knobs that are set as long as this lives.
#[derive(Debug)]
pub struct KnobGuard {
    /// In the order they were set: the file to write back, and what.
    before: Vec<(PathBuf, String)>,
}

impl KnobGuard {
    /// Sets keys of sysctl(8) and attributes below the device's folder, each with its value.
    ///
    /// # Errors
    /// When one cannot be read or set, or reads back as something else; what was set is put back.
    pub fn set(
        places: &KnobPaths,
        sysctl: &[(String, String)],
        sysfs: &[(String, String)],
    ) -> Result<Self> {
        let keys =
            sysctl.iter().map(|(key, value)| (places.sysctl.join(key.replace('.', "/")), value));
        let attributes = sysfs.iter().map(|(path, value)| (places.block.join(path), value));
        let mut guard = Self { before: Vec::new() };
        for (file, value) in keys.chain(attributes) {
            guard.set_one(&file, value).map_err(|error| {
                Error::new(error.kind(), format!("{}: {error}", file.display()))
            })?;
        }
        Ok(guard)
    }

    fn set_one(&mut self, file: &Path, value: &str) -> Result<()> {
        self.before.push(in_force(file)?);
        std::fs::write(file, value)?;
        let now = read(file)?;
        if now == value {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidInput, format!("wrote {value}, and it reads {now}")))
    }
}

impl Drop for KnobGuard {
    fn drop(&mut self) {
        for (file, value) in self.before.iter().rev() {
            // The device may be gone, and its attributes with it.
            let _ = std::fs::write(file, value);
        }
    }
}

/// What to write, and where, to have this knob as it is now.
fn in_force(file: &Path) -> Result<(PathBuf, String)> {
    let value = read(file)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let other = FORMS.iter().find(|(one, _)| *one == name).map(|(_, other)| other);
    match other.filter(|_| value == "0") {
        Some(other) => {
            let other = file.with_file_name(other);
            let value = read(&other)?;
            Ok((other, value))
        }
        None => Ok((file.to_owned(), value)),
    }
}

fn read(file: &Path) -> Result<String> {
    Ok(std::fs::read_to_string(file)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> (tempfile::TempDir, KnobPaths) {
        let folder = tempfile::tempdir().unwrap();
        let places =
            KnobPaths { sysctl: folder.path().join("sys"), block: folder.path().join("block") };
        std::fs::create_dir_all(places.sysctl.join("vm")).unwrap();
        std::fs::create_dir_all(places.block.join("queue")).unwrap();
        for (file, value) in [
            ("sys/vm/dirty_bytes", "0\n"),
            ("sys/vm/dirty_ratio", "20\n"),
            ("sys/vm/dirty_expire_centisecs", "3000\n"),
            ("block/queue/read_ahead_kb", "128\n"),
        ] {
            std::fs::write(folder.path().join(file), value).unwrap();
        }
        (folder, places)
    }

    fn knob(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.to_owned(), value.to_owned())]
    }

    #[test]
    fn knobs_are_set_and_put_back() {
        let (_folder, places) = places();
        let expire = places.sysctl.join("vm/dirty_expire_centisecs");
        let ahead = places.block.join("queue/read_ahead_kb");
        let guard = KnobGuard::set(
            &places,
            &knob("vm.dirty_expire_centisecs", "6000"),
            &knob("queue/read_ahead_kb", "1024"),
        )
        .unwrap();
        assert_eq!((read(&expire).unwrap(), read(&ahead).unwrap()), ("6000".into(), "1024".into()));
        drop(guard);
        assert_eq!((read(&expire).unwrap(), read(&ahead).unwrap()), ("3000".into(), "128".into()));
    }

    #[test]
    fn a_limit_in_the_other_form_is_put_back_in_that_form() {
        let (_folder, places) = places();
        let file = places.sysctl.join("vm/dirty_bytes");
        let guard = KnobGuard::set(&places, &knob("vm.dirty_bytes", "16777216"), &[]).unwrap();
        assert_eq!(guard.before, [(places.sysctl.join("vm/dirty_ratio"), "20".to_owned())]);
        std::fs::write(places.sysctl.join("vm/dirty_ratio"), "0").unwrap();
        drop(guard);
        assert_eq!(read(&places.sysctl.join("vm/dirty_ratio")).unwrap(), "20");
        assert_eq!(read(&file).unwrap(), "16777216", "the kernel sets it to 0 by itself");
    }

    #[test]
    fn what_was_set_is_put_back_when_the_next_cannot_be() {
        let (_folder, places) = places();
        let mut keys = knob("vm.dirty_expire_centisecs", "6000");
        keys.extend(knob("vm.there_is_none", "1"));
        let error = KnobGuard::set(&places, &keys, &[]).unwrap_err();
        assert!(error.to_string().contains("there_is_none"), "{error}");
        assert_eq!(read(&places.sysctl.join("vm/dirty_expire_centisecs")).unwrap(), "3000");
    }
}
