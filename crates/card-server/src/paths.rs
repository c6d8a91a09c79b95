//! The files that serving a card makes must be different ones: each is replaced or removed at the
//! end.

use crate::serve::{ServeError, ServeOptions};
use crate::state_lock::{lock_of, real};

/// # Errors
/// [`ServeError::SamePath`].
pub fn check(options: &ServeOptions) -> Result<(), ServeError> {
    let state = options.state.as_deref().and_then(|path| real(path).ok());
    let lock = state.as_deref().map(lock_of);
    let resolved = |path: &Option<_>| path.as_deref().and_then(|path| real(path).ok());
    let files = [
        ("the state", state),
        ("the lock file of the state", lock),
        ("the NBD socket", resolved(&options.nbd)),
        ("the trace", resolved(&options.trace)),
    ];
    for (index, (second, path)) in files.iter().enumerate() {
        let Some(path) = path else { continue };
        let same = files[..index].iter().find(|(_, other)| other.as_ref() == Some(path));
        if let Some((first, _)) = same {
            return Err(ServeError::SamePath { first, second, path: path.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn files_are_compared_by_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Some(folder.path().join(name));
        let options = |state: &str, nbd: Option<PathBuf>, trace: &str| ServeOptions {
            state: at(state),
            nbd,
            trace: at(trace),
            ..ServeOptions::default()
        };
        std::fs::write(folder.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
        assert!(check(&options("a", at("b"), "c")).is_ok());
        assert!(check(&options("a", None, "c")).is_ok());
        for (state, nbd, trace, what) in [
            ("a", "a", "c", "the state and the NBD socket"),
            ("a", "a.lock", "c", "the lock file of the state and the NBD socket"),
            ("a", "b", "../x/a", ""),
            ("a", "b", "./b", "the NBD socket and the trace"),
            ("file", "b", "link", "the state and the trace"),
        ] {
            let error = check(&options(state, at(nbd), trace)).err();
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(text.starts_with(what) && text.is_empty() == what.is_empty(), "{text}");
        }
    }
}
