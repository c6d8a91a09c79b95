//! An open file that a program gets instead of a name (proc_pid_fd(5)).
//!
//! The path of this process's descriptor leads to the same file, whatever becomes of its name.
//! Limit: a program that resolves the path gets the file's present name, and may open that.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(crate) struct HandedFile {
    name: PathBuf,
    /// Kept open while the program runs.
    file: Arc<File>,
}

impl HandedFile {
    pub(crate) fn new(name: &Path, file: Arc<File>) -> Self {
        Self { name: name.to_owned(), file }
    }

    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// What the program gets for this argument.
    pub(crate) fn argument(&self, arg: &OsStr) -> OsString {
        if arg == self.name.as_os_str() { self.path().into() } else { arg.to_owned() }
    }

    /// A program's messages, with the name that the user knows.
    pub(crate) fn named(&self, text: &str) -> String {
        text.replace(&self.path(), &self.name.display().to_string())
    }
}
