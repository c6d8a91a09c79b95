//! The command that was typed, for a hint to continue a campaign with it.

use std::ffi::OsString;
use std::path::Path;

use flashfit_host::program::quote_path;

/// The command of this process, with its directory.
pub fn same_command(dir: &Path, is_dir_named: bool) -> String {
    repeated(std::env::args_os().skip(1), dir, is_dir_named)
}

fn repeated(typed: impl Iterator<Item = OsString>, dir: &Path, is_dir_named: bool) -> String {
    let words = typed.map(|word| quote_path(Path::new(&word)));
    let mut words: Vec<String> = std::iter::once("flashfit".to_owned()).chain(words).collect();
    // The next that does not exist would be another.
    if !is_dir_named {
        words.extend(["--dir".to_owned(), quote_path(dir)]);
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_command_names_its_directory() {
        let repeated = |typed: &[&str], is_dir_named| {
            let typed = typed.iter().map(OsString::from);
            repeated(typed, Path::new("crash run"), is_dir_named)
        };
        assert_eq!(
            repeated(&["crash", "states", "--workload", "my work"], false),
            "flashfit crash states --workload 'my work' --dir 'crash run'"
        );
        let typed = ["crash", "states", "--dir", "x"];
        assert_eq!(repeated(&typed, true), "flashfit crash states --dir x");
    }
}
