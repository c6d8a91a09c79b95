//! The cache directory: `flashfit` in `$XDG_CACHE_HOME` or `~/.cache`, according to the XDG base
//! directory specification.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The directory, which may not exist; `None` if neither variable is set.
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
    fn xdg_cache_home_takes_precedence() {
        let folder = |cache: &str, home: &str| folder(Some(cache.into()), Some(home.into()));
        assert_eq!(folder("/c", "/h"), Some("/c/flashfit".into()));
        assert_eq!(folder("relative", "/h"), Some("/h/.cache/flashfit".into()));
        assert_eq!(folder("", ""), None);
    }
}
