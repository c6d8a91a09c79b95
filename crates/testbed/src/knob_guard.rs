//! Sets kernel knobs for a trial (sysctl keys, queue attributes) and restores the previous values.
//!
//! `vm.dirty_bytes` and `vm.dirty_ratio` are two forms of one limit: setting one sets the other to
//! 0, and 0 cannot be written (Documentation/admin-guide/sysctl/vm.rst). Limit: a process killed by
//! SIGKILL restores nothing.

use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Pairs of forms of one knob; the one that is not 0 applies.
const FORMS: [(&str, &str); 2] =
    [("dirty_bytes", "dirty_ratio"), ("dirty_background_bytes", "dirty_background_ratio")];

/// Base directories of the knobs.
#[derive(Debug, Clone)]
pub struct KnobPaths {
    /// `/proc/sys`.
    pub sysctl: PathBuf,
    /// The device's directory in `/sys/block`.
    pub block: PathBuf,
}

/// Restores the knobs on drop.
#[derive(Debug)]
pub struct KnobGuard {
    /// Files and their previous values, in the order they were set.
    before: Vec<(PathBuf, String)>,
}

impl KnobGuard {
    /// Sets sysctl keys and attributes of the device to their values.
    ///
    /// # Errors
    /// If one cannot be read or set, or reads back differently; the others are restored.
    pub fn set(
        paths: &KnobPaths,
        sysctl: &[(String, String)],
        sysfs: &[(String, String)],
    ) -> Result<Self> {
        let keys =
            sysctl.iter().map(|(key, value)| (paths.sysctl.join(key.replace('.', "/")), value));
        let attributes = sysfs.iter().map(|(path, value)| (paths.block.join(path), value));
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
            // The device and its attributes may have disappeared.
            let _ = std::fs::write(file, value);
        }
    }
}

/// The file and value that restore the current state of this knob.
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

    fn paths() -> (tempfile::TempDir, KnobPaths) {
        let folder = tempfile::tempdir().unwrap();
        let paths =
            KnobPaths { sysctl: folder.path().join("sys"), block: folder.path().join("block") };
        std::fs::create_dir_all(paths.sysctl.join("vm")).unwrap();
        std::fs::create_dir_all(paths.block.join("queue")).unwrap();
        for (file, value) in [
            ("sys/vm/dirty_bytes", "0\n"),
            ("sys/vm/dirty_ratio", "20\n"),
            ("sys/vm/dirty_expire_centisecs", "3000\n"),
            ("block/queue/read_ahead_kb", "128\n"),
        ] {
            std::fs::write(folder.path().join(file), value).unwrap();
        }
        (folder, paths)
    }

    fn knob(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.to_owned(), value.to_owned())]
    }

    #[test]
    fn knobs_are_set_and_restored() {
        let (_folder, paths) = paths();
        let expire = paths.sysctl.join("vm/dirty_expire_centisecs");
        let ahead = paths.block.join("queue/read_ahead_kb");
        let guard = KnobGuard::set(
            &paths,
            &knob("vm.dirty_expire_centisecs", "6000"),
            &knob("queue/read_ahead_kb", "1024"),
        )
        .unwrap();
        assert_eq!((read(&expire).unwrap(), read(&ahead).unwrap()), ("6000".into(), "1024".into()));
        drop(guard);
        assert_eq!((read(&expire).unwrap(), read(&ahead).unwrap()), ("3000".into(), "128".into()));
    }

    #[test]
    fn a_limit_in_the_other_form_is_restored_in_that_form() {
        let (_folder, paths) = paths();
        let file = paths.sysctl.join("vm/dirty_bytes");
        let guard = KnobGuard::set(&paths, &knob("vm.dirty_bytes", "16777216"), &[]).unwrap();
        assert_eq!(guard.before, [(paths.sysctl.join("vm/dirty_ratio"), "20".to_owned())]);
        std::fs::write(paths.sysctl.join("vm/dirty_ratio"), "0").unwrap();
        drop(guard);
        assert_eq!(read(&paths.sysctl.join("vm/dirty_ratio")).unwrap(), "20");
        assert_eq!(read(&file).unwrap(), "16777216", "the kernel sets it to 0 by itself");
    }

    #[test]
    fn knobs_are_restored_when_a_later_one_fails() {
        let (_folder, paths) = paths();
        let mut keys = knob("vm.dirty_expire_centisecs", "6000");
        keys.extend(knob("vm.there_is_none", "1"));
        let error = KnobGuard::set(&paths, &keys, &[]).unwrap_err();
        assert!(error.to_string().contains("there_is_none"), "{error}");
        assert_eq!(read(&paths.sysctl.join("vm/dirty_expire_centisecs")).unwrap(), "3000");
    }
}
