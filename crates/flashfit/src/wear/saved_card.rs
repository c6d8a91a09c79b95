//! The file of a card that `flashfit wear age` saves.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use flashfit_host::program::{quote, quote_path};
use flashfit_host::replaceable_file::ReplaceableFile;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::wear::age_args::WearAgeArgs;
use crate::wear::record_command::catalog_flag;

/// Refuses a file for the saved card that cannot be written, before the aging that takes minutes.
pub fn check_saved(path: &Path, args: &WearAgeArgs) -> Result<(), CommandError> {
    let refused =
        |message, hint: &str| Err(CommandError::new(ExitClass::Usage, message, Some(hint)));
    if path.exists() && !args.force {
        let message = format!("{} exists; it was not changed", path.display());
        return refused(message, "name another file, or replace this one with --force");
    }
    ReplaceableFile::check(path, &|_| true, args.force)?;
    if args.svg.as_ref().is_some_and(|svg| place_of(svg) == place_of(path)) {
        let message = format!("--save and --svg name the same file: {}", path.display());
        return refused(message, "name two files");
    }
    Ok(())
}

/// The command that serves the saved card, which the state alone does not describe.
pub fn serve_command(args: &WearAgeArgs, catalog: Option<&Path>) -> Option<String> {
    let name = args.card.strip_prefix("sim:").unwrap_or(&args.card);
    let state = quote_path(args.save.as_ref()?);
    let catalog = catalog_flag(catalog);
    Some(format!("flashfit card serve {} --state {state}{catalog}", quote(name)))
}

/// The same for all names of a file that may not exist yet.
fn place_of(path: &Path) -> Option<(PathBuf, &OsStr)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
    Some((folder, path.file_name()?))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: WearAgeArgs,
    }

    #[test]
    fn the_command_that_serves_the_card_can_be_typed() {
        let words = ["age", "sim:my card.toml", "--fs", "ext4", "--usage", "kiosk", "--years", "1"];
        let args = |save: &[&str]| Line::parse_from([&words[..], save].concat()).args;
        let found = serve_command(&args(&["--save", "old card.card"]), Some(Path::new("own")));
        let expected = "flashfit card serve 'my card.toml' --state 'old card.card' --catalog own";
        assert_eq!(found.as_deref(), Some(expected));
        assert_eq!(serve_command(&args(&[]), None), None);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_noticed_before_the_aging() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let check = |save: &str, more: &[&str]| {
            let line = ["age", "usd-a1-pagemap", "--fs", "ext4", "--usage", "kiosk"];
            let line = [&line[..], &["--years", "1", "--save", save], more].concat();
            let args = Line::parse_from(line).args;
            let checked = check_saved(args.save.as_ref().unwrap(), &args);
            checked.err().map(|error| error.message().to_owned()).unwrap_or_default()
        };
        assert_eq!(check(&path("x.card"), &["--svg", &path("x.svg")]), "");
        let missing = check(&path("none/x.card"), &[]);
        assert!(missing.contains("there is no directory"), "{missing}");
        let same = check(&path("x.card"), &["--svg", &path("./x.card")]);
        assert!(same.contains("the same file"), "{same}");
        std::fs::create_dir(folder.path().join("d")).unwrap();
        let directory = check(&path("d"), &["--force"]);
        assert!(directory.contains("a directory"), "{directory}");
        std::fs::write(folder.path().join("old"), "x").unwrap();
        assert!(check(&path("old"), &[]).contains("exists"));
        assert_eq!(check(&path("old"), &["--force"]), "");
    }
}
