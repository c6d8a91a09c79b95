//! Checks what the Debian packages are made of against the rest of the project: versions, the
//! programs that flashfit runs, the files that are installed. That they build and install is
//! checked by `make deb` and `make test-arm64`, which take too long for a test.

use std::collections::BTreeSet;
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

/// The lines of a man page that are not filled, as they are printed.
fn unbroken(page: &str) -> Vec<String> {
    let mut is_verbatim = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        match line {
            ".nf" => is_verbatim = true,
            ".fi" => is_verbatim = false,
            line if is_verbatim => {
                let line = line.replace("\\-", "-").replace("\\(aq", "'").replace("\\(ti", "~");
                lines.push(line.replace("\\(ga", "`").replace("\\(ha", "^").replace("\\e", "\\"));
            }
            _ => {}
        }
    }
    lines
}

/// The names of variables in string literals of the sources, except for those of tests and builds.
fn variables(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a directory of the project") {
        let path = entry.expect("readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["tests", "benches", "test-support"].contains(&name.as_str()) {
                variables(&path, found);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).expect("text");
            for (start, _) in text.match_indices("\"FLASHFIT_") {
                let name: String =
                    text[start + 1..].chars().take_while(|sign| *sign != '"').collect();
                let is_own = ["FLASHFIT_TEST", "FLASHFIT_BLESS", "FLASHFIT_BUILD"];
                if !is_own.iter().any(|own| name.starts_with(own)) {
                    found.insert(name);
                }
            }
        }
    }
}

#[test]
fn every_variable_is_in_the_table_of_the_installation_and_in_the_man_page() {
    let mut found = BTreeSet::new();
    variables(&root().join("crates"), &mut found);
    assert!(found.len() >= 5, "{found:?}");
    let table = text("docs/install.md");
    let page = Command::new(FLASHFIT).arg("man").output().expect("flashfit runs");
    let page = String::from_utf8(page.stdout).expect("UTF-8");
    for name in &found {
        assert!(table.contains(&format!("| `{name}` |")), "{name} is not in docs/install.md");
        // This one is set by flashfit, not read.
        let is_set = name == "FLASHFIT_SEED";
        assert!(is_set || page.contains(&format!("\\fB{name}\\fR")), "{name}: {page}");
    }
}

/// The questions and answers link to the workloads.
#[test]
fn the_package_has_the_workloads() {
    let rules = text("packaging/debian/rules");
    assert!(rules.contains("catalog/workloads/* debian/flashfit/usr/share/doc/flashfit/catalog/"));
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
        for section in ["NAME", "SYNOPSIS", "\"EXIT STATUS\"", "ENVIRONMENT"] {
            assert!(page_text.contains(&format!(".SH {section}\n")), "{page:?}: {section}");
        }
        assert!(page_text.contains("FLASHFIT_CATALOG") && !page_text.contains("EXTRA"), "{page:?}");
    }
    for help in help_pages(FLASHFIT) {
        let words: Vec<&str> = help.command.iter().map(String::as_str).collect();
        let name = [&["flashfit"][..], &words].concat().join("-");
        let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).expect("its page");
        let lines = unbroken(&page);
        let examples = help.text.lines().skip_while(|line| !line.starts_with("Example"));
        for example in examples.skip(1).take_while(|line| !line.is_empty()) {
            let example = example.strip_prefix("  ").expect("indented");
            assert!(lines.iter().any(|line| line == example), "{name}: {example}");
        }
    }
    std::fs::remove_dir_all(&folder).expect("removable");
}
