//! Checks what the Debian packages are made of against the rest of the project: versions, the
//! programs that flashfit runs, the files that are installed. That they build and install is
//! checked by `make deb` and `make test-arm64`, which take too long for a test.

use std::path::{Path, PathBuf};
use std::process::Command;

use flashfit_test_support::help_pages;

const FLASHFIT: &str = env!("CARGO_BIN_EXE_flashfit");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect(path)
}

/// The packages that a field of the control file names.
fn packages(field: &str) -> Vec<String> {
    let control = text("packaging/debian/control");
    let start = control.find(&format!("\n{field}:")).expect(field) + field.len() + 2;
    let rest = &control[start..];
    // A field ends at a line that does not begin with a space.
    let lines = rest.lines().enumerate();
    let lines = lines.take_while(|(number, line)| *number == 0 || line.starts_with(' '));
    let value: String = lines.map(|(_, line)| line).collect();
    let names = value.split([',', '|']).map(str::trim);
    names.filter(|name| !name.is_empty() && !name.starts_with('$')).map(str::to_owned).collect()
}

#[test]
fn the_newest_entry_of_both_changelogs_is_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let entry = text("packaging/debian/changelog");
    assert!(entry.starts_with(&format!("flashfit ({version}) ")), "{entry}");
}

#[test]
fn the_packages_bring_what_a_run_needs() {
    let needed = packages("Depends");
    for package in ["fio", "e2fsprogs", "fdisk", "mount"] {
        assert!(needed.iter().any(|name| name == package), "{package} is not in {needed:?}");
    }
    let wanted = packages("Recommends");
    for package in ["btrfs-progs", "f2fs-tools", "xfsprogs", "dosfstools", "exfatprogs"] {
        assert!(wanted.iter().any(|name| name == package), "{package} is not in {wanted:?}");
    }
}

/// A file that was renamed would make the build of the packages fail after minutes.
#[test]
fn every_installed_document_exists() {
    for list in ["docs", "examples"] {
        for path in text(&format!("packaging/debian/{list}")).lines() {
            let is_built = path.starts_with("debian/");
            assert!(is_built || root().join(path).exists(), "{list}: {path}");
        }
    }
}

#[test]
fn there_is_a_man_page_for_every_command() {
    let folder = std::env::temp_dir().join(format!("flashfit-man-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a directory");
    let made = Command::new(FLASHFIT).args(["man", "--dir"]).arg(&folder).status();
    assert!(made.expect("flashfit runs").success());
    let pages: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("pages")
        .map(|entry| entry.expect("readable").path())
        .collect();
    let commands = help_pages(FLASHFIT)[0].subcommands();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands.iter().filter(|command| *command != "help") {
        let name = format!("flashfit-{command}.1");
        assert!(pages.iter().any(|page| page.ends_with(&name)), "{name} is missing");
    }
    for page in &pages {
        let page_text = std::fs::read_to_string(page).expect("text");
        assert!(page_text.contains(".SH NAME") && page_text.contains(".SH SYNOPSIS"), "{page:?}");
    }
    std::fs::remove_dir_all(&folder).expect("removable");
}
