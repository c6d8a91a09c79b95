//! Tests the validation of job files, also against the options of the installed fio.

use std::collections::BTreeSet;
use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::job_keys::KEYS;

const GOOD: &str = "[global]\ndirectory=${DIRECTORY}\ngroup_reporting=1\n[a]\n";

fn first(text: &str) -> Result<Vec<String>, (usize, String)> {
    let found = check(text);
    match found.mistakes.into_iter().next() {
        Some(mistake) => Err((mistake.line, mistake.reason)),
        None => Ok(found.sections),
    }
}

fn with(line: &str) -> Result<Vec<String>, (usize, String)> {
    first(&format!("{GOOD}{line}\n"))
}

#[test]
fn comments_are_ignored() {
    let text =
        "# exec_prerun=x\n[global]\ndirectory = ${DIRECTORY} ; x\ngroup_reporting\n[a] # y\n";
    assert_eq!(first(text), Ok(vec!["a".to_owned()]));
}

#[test]
fn unsafe_lines_are_rejected_with_their_number() {
    for line in [
        "iomem=mmap:/F",
        "mem=mmapshared:/F",
        "write_bw_log=/abs",
        "write_lat_log=x",
        "ioengine=net",
        "ioengine=exec",
        "ioengine=external:/x.so",
        "hostname=/dev/sda",
        "verify_state_save=1",
        "verify_dump=1",
        "cgroup=x",
        "ioscheduler=none",
        "profile=tiobench",
        "filename=/dev/sda",
        "filename=..",
        "filename=a/../../b",
        "filename=a:/dev/sda",
        "filename_format=/dev/$jobname",
        "filename_format=$jobname/../x",
        "filename_format=${HOME}",
        "directory=/",
        "directory=${DIRECTORY}/..",
        "directory=${DIRECTORY}:/",
        "exec_prerun=rm x",
        "include x",
        "include=x",
        "size=${HOME}",
        "size=$(id)",
        "size=(1+1)",
        "size=$mb_memory",
        "size=4k`id`",
        "bs=/4k",
        "bs=4k:/etc/passwd",
        "rw=read:/x",
        "rw=trim",
        "random_distribution=zoned_abs:/x",
        "[../../etc/x]",
        "[a/b]",
        "[a] filename=/x",
        "bs=4k\u{b}exec_prerun=x",
        "bs=4k\rexec_prerun=x",
        "bs=4k\0",
        "Bs=4k",
    ] {
        let (at, _) = with(line).expect_err(line);
        assert_eq!(at, 5, "{line}");
    }
    // fio would parse the rest after 4095 bytes as a new line.
    let long = format!("#{}exec_prerun=x", "x".repeat(4094));
    assert_eq!(with(&long).unwrap_err().0, 5);
    assert_eq!(first("iomem=x\n[global]\n").unwrap_err().0, 1);
}

#[test]
fn options_of_benchmarks_are_accepted() {
    for line in [
        "bs=4k",
        "bs=4k,64k",
        "bsrange=4k-64k",
        "bssplit=4k/60:64k/40",
        "bssplit=4k/60:64k/",
        "size=${WORK_SET}",
        "size=50%",
        "bs=${BLOCK_SIZE},8k",
        "rw=randrw:8",
        "random_distribution=zipf:1.2",
        "file_service_type=sequential",
        "ioengine=io_uring",
        "runtime=1500ms",
        "filename=data.0",
        "filename_format=f.$jobnum.$filenum",
        "time_based",
        "rate=1m,500k",
    ] {
        assert!(with(line).is_ok(), "{line}: {:?}", with(line));
    }
}

#[test]
fn an_error_names_the_key_and_similar_keys() {
    let (_, text) = with("iodept=4").unwrap_err();
    assert!(text.starts_with("`iodept` is not allowed") && text.contains("`iodepth`"), "{text}");
    let (_, text) = with("ioengine=libaoi").unwrap_err();
    assert!(text.contains("`libaoi`") && text.contains("psync, sync"), "{text}");
}

#[test]
fn a_device_replaces_the_directory_and_file_names() {
    let text = on_device("[global]\ndirectory=${DIRECTORY}\n[a]\nfilename=x\n", "/dev/loop7");
    assert_eq!(text, "[global]\nfilename=/dev/loop7\n[a]\n\n");
}

/// The option names in the first column of `fio --cmdhelp=all`.
fn fio_options() -> BTreeSet<String> {
    let output = Command::new("fio").arg("--cmdhelp=all").output().unwrap();
    let text = String::from_utf8(output.stdout).expect("fio writes ASCII");
    let names = text.lines().map(str::trim_start).filter(|line| line.contains(":"));
    let names = names.filter_map(|line| line.split([' ', ':']).next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_key_is_an_option_of_fio_and_other_options_are_rejected() {
    if flashfit_test_support::skip(flashfit_test_support::program("fio")) {
        return;
    }
    let options = fio_options();
    assert!(options.len() > 180, "{options:?}");
    // fio lists an option by one of its names.
    let aliases = ["readwrite", "blocksize", "blockalign"];
    for (key, _) in KEYS {
        assert!(options.contains(key) || aliases.contains(&key), "fio has no `{key}`");
    }
    for option in options.iter().filter(|option| KEYS.iter().all(|(key, _)| key != option)) {
        for line in [option.clone(), format!("{option}=1"), format!("{option} = /etc/x")] {
            with(&line).expect_err(&line);
        }
    }
}

#[test]
fn fio_accepts_every_alias() {
    let fio = |line: &str| {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("job.fio");
        std::fs::write(&job, format!("[a]\nsize=4k\n{line}\n")).unwrap();
        Command::new("fio").args(["--parse-only"]).arg(&job).current_dir(&folder).output().unwrap()
    };
    if flashfit_test_support::skip(flashfit_test_support::program("fio")) {
        return;
    }
    for line in ["readwrite=read", "blocksize=4k", "blockalign=4k"] {
        let output = fio(line);
        assert!(output.status.success(), "{line}: {output:?}");
    }
    let unknown = fio("exec_prerum=x");
    assert!(!unknown.status.success(), "{unknown:?}");
}

#[test]
fn the_documentation_lists_every_key() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/catalog.md");
    let text = std::fs::read_to_string(file).unwrap();
    let wanted: Vec<String> =
        KEYS.iter().map(|(key, form)| format!("| `{key}` | {form} |")).collect();
    let listed: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("| fio key |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert_eq!(listed, wanted, "the expected list:\n{}", wanted.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_other_key_is_rejected(
        key in "[a-z_]{1,20}|[ -~]{1,20}",
        value in "[ -~]{0,20}",
        index in 0..5_usize,
    ) {
        let bare = key.split([';', '#', '=']).next().unwrap_or("").trim();
        prop_assume!(!bare.is_empty() && !bare.starts_with('['));
        prop_assume!(KEYS.iter().all(|(known, _)| *known != bare));
        let mut lines: Vec<String> = GOOD.lines().map(str::to_owned).collect();
        lines.insert(index.min(lines.len()), format!("{key}={value}"));
        prop_assert!(first(&lines.join("\n")).is_err());
    }

    #[test]
    fn values_with_a_path_or_an_expansion_are_rejected(
        index in 0..KEYS.len(),
        before in "[a-z0-9:,]{0,6}",
        leak in prop::sample::select(vec!["/etc", "../x", "$(id)", "`id`", "${HOME}", "$ncpus", "(2*3)"]),
        after in "[a-z0-9:,]{0,6}",
    ) {
        let (key, form) = KEYS[index];
        let value = format!("{before}{leak}{after}");
        prop_assert!(!form.matches(&value), "{}={}", key, value);
    }
}
