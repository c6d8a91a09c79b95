//! The command that repeats a run in a directory next to it.

use std::path::{Path, PathBuf};

use flashfit_host::program::quote_path;

pub fn reproduce(dir: &Path) -> String {
    let [config, again] = [dir.join("config.toml"), again(dir)].map(|path| quote_path(&path));
    format!("flashfit tune --config {config} --dir {again}")
}

/// Names such as `.` have no last part.
fn again(dir: &Path) -> PathBuf {
    let real = if dir.file_name().is_none() { dir.canonicalize().ok() } else { None };
    let dir = real.as_deref().unwrap_or(dir);
    let mut name = dir.file_name().unwrap_or_else(|| "run".as_ref()).to_owned();
    name.push("-again");
    dir.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repeated_run_is_next_to_the_first() {
        for dir in ["runs/card", "runs/card/", "runs/card/."] {
            assert_eq!(again(Path::new(dir)), Path::new("runs/card-again"), "{dir}");
        }
        assert_eq!(reproduce(Path::new("a b/")).matches("'a b").count(), 2);
        let here = std::env::current_dir().unwrap();
        let name = here.file_name().unwrap().to_str().unwrap();
        assert_eq!(again(Path::new(".")), here.with_file_name(format!("{name}-again")));
    }
}
