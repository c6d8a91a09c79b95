//! Golden files: the expected output that people read.

use std::path::Path;

/// The environment variable that has golden files written again.
pub const BLESS: &str = "FLASHFIT_BLESS";

/// Compares `found` with the golden file `path`, or writes it where [`BLESS`] is set.
///
/// # Panics
/// Where they differ, with the first line that does; or if the file cannot be read or written.
#[track_caller]
pub fn golden(path: impl AsRef<Path>, found: &str) {
    compare(path.as_ref(), found, std::env::var_os(BLESS).is_some());
}

#[track_caller]
fn compare(path: &Path, found: &str, is_blessed: bool) {
    let shown = path.display();
    if is_blessed {
        let folder = path.parent().expect("a golden file is in a directory");
        std::fs::create_dir_all(folder).expect("the source tree can be written");
        std::fs::write(path, found).expect("the source tree can be written");
        return;
    }
    let expected = std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{shown}: {error}; {BLESS}=1 writes it"));
    if expected == found {
        return;
    }
    let differs = expected.lines().zip(found.lines()).position(|(old, new)| old != new);
    let at = differs.unwrap_or_else(|| expected.lines().count().min(found.lines().count()));
    let line = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_owned();
    panic!(
        "{shown} changed, first in line {}:\n  old: {}\n  new: {}\nif that is intended, \
         {BLESS}=1 writes it again",
        at + 1,
        line(&expected),
        line(found)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_on_request_and_compared_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/golden.txt");
        compare(&path, "one\ntwo\n", true);
        compare(&path, "one\ntwo\n", false);
        for (other, line) in [("one\n2\n", "line 2"), ("one\n", "line 2"), ("one\ntwo", "line 3")] {
            let panic = std::panic::catch_unwind(|| compare(&path, other, false)).unwrap_err();
            let text = panic.downcast::<String>().unwrap();
            assert!(text.contains(line), "{other}: {text}");
        }
        assert!(
            std::panic::catch_unwind(|| compare(&folder.path().join("no"), "", false)).is_err()
        );
    }
}
