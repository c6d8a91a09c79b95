//! Where what can be made again is kept: `flashfit` in `$XDG_CACHE_HOME` or `~/.cache`.
//!
//! Source: the XDG base directory specification.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder, whether it is there or not; `None` where the user has neither variable.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    folder(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
}

fn folder(cache: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Path::new(&path).is_absolute().then(|| PathBuf::from(path));
    let base =
        cache.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")))?;
    Some(base.join("flashfit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_cache_comes_before_that_at_home() {
        let folder = |cache: &str, home: &str| folder(Some(cache.into()), Some(home.into()));
        assert_eq!(folder("/c", "/h"), Some("/c/flashfit".into()));
        assert_eq!(folder("relative", "/h"), Some("/h/.cache/flashfit".into()));
        assert_eq!(folder("", ""), None);
    }
}
