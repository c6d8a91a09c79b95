//! Skips a test and records the skip.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::Write;
use std::sync::OnceLock;

use crate::need::{MissingNeed, TestNeed};

/// Environment variable: needs that must be met.
pub const REQUIRE: &str = "FLASHFIT_REQUIRE";
/// Environment variable: file to which skips are appended.
pub const SKIP_LOG: &str = "FLASHFIT_SKIP_LOG";
/// Prefix of the recorded reason of a test that ran in part.
pub const IN_PART: &str = "in part: ";

thread_local! {
    static TEST_NAME: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns whether the test must be skipped. Panics if the missing need is required.
#[must_use]
#[track_caller]
pub fn skip(missing: Option<MissingNeed>) -> bool {
    record(missing, "")
}

/// Like [`skip`], for a part of a test; the rest of the test still runs.
#[must_use]
#[track_caller]
pub fn skip_part(missing: Option<MissingNeed>) -> bool {
    record(missing, IN_PART)
}

/// Sets the name recorded for skips, for test programs with their own main function.
pub fn with_test_name<T>(name: &str, test: impl FnOnce() -> T) -> T {
    TEST_NAME.with_borrow_mut(|current| *current = Some(name.to_owned()));
    let result = test();
    TEST_NAME.with_borrow_mut(|current| *current = None);
    result
}

#[track_caller]
fn record(missing: Option<MissingNeed>, prefix: &str) -> bool {
    let required = required().unwrap_or_else(|error| panic!("{error}"));
    let Some(MissingNeed { need, reason }) = missing else { return false };
    if let Some(by) = required.iter().find(|by| need.is_required_by(**by)) {
        panic!("{REQUIRE} lists {}, but: {reason}", by.name());
    }
    println!("skipped: {prefix}{reason}");
    if let Some(path) = std::env::var_os(SKIP_LOG) {
        let line = format!("{}\t{prefix}{}\n", test_name(), reason.replace(['\n', '\t'], " "));
        append(&path, &line).unwrap_or_else(|error| panic!("{SKIP_LOG}: {error}"));
    }
    true
}

fn required() -> Result<&'static [TestNeed], &'static str> {
    static REQUIRED: OnceLock<Result<Vec<TestNeed>, String>> = OnceLock::new();
    let parsed = REQUIRED.get_or_init(|| parse(&std::env::var(REQUIRE).unwrap_or_default()));
    parsed.as_deref().map_err(String::as_str)
}

fn parse(list: &str) -> Result<Vec<TestNeed>, String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let known = || TestNeed::ALL.map(TestNeed::name).join(", ");
    names
        .map(|name| {
            TestNeed::from_name(name)
                .ok_or_else(|| format!("{REQUIRE}: unknown need `{name}`, expected {}", known()))
        })
        .collect()
}

/// Appends with one write, so that lines of concurrent tests do not mix.
fn append(path: &OsStr, line: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::options().create(true).append(true).open(path)?;
    file.write_all(line.as_bytes())
}

/// libtest names the thread after its test, except with `--test-threads=1`.
fn test_name() -> String {
    let explicit = TEST_NAME.with_borrow(Clone::clone);
    let thread = || std::thread::current().name().map(str::to_owned);
    explicit.or_else(thread).unwrap_or_else(|| "unnamed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_needs_is_parsed_and_an_unknown_name_is_rejected() {
        assert_eq!(parse(""), Ok(vec![]));
        assert_eq!(parse("root, fuse"), Ok(vec![TestNeed::Root, TestNeed::Fuse]));
        let error = parse("root,floop").unwrap_err();
        assert!(error.contains("unknown need `floop`") && error.contains("labgrid"), "{error}");
    }

    #[test]
    fn requiring_any_test_bed_requires_the_generic_need() {
        for bed in [TestNeed::Qemu, TestNeed::Ssh, TestNeed::Labgrid] {
            assert!(
                TestNeed::TestBed.is_required_by(bed) && !bed.is_required_by(TestNeed::TestBed)
            );
        }
        assert!(!TestNeed::TestBed.is_required_by(TestNeed::Root));
    }

    #[test]
    fn the_thread_name_is_used_without_an_explicit_name() {
        assert!(test_name().ends_with("the_thread_name_is_used_without_an_explicit_name"));
        assert_eq!(with_test_name("other", test_name), "other");
    }
}
