//! `flashfit check` on images with real partition tables and file systems.
//!
//! Needs sfdisk; tests that need root, loop devices or an mkfs are skipped without them.
//! `FLASHFIT_BLESS=1 cargo test -p flashfit --test check` rewrites the golden files.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::mount::Mounted;
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{block_devices, program, skip};
use serde_json::Value;

/// An image in its own directory.
struct Card {
    folder: tempfile::TempDir,
}

impl Card {
    fn new(size: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let card = Self { folder };
        std::fs::File::create(card.path()).unwrap().set_len(size).unwrap();
        card
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("card.img")
    }

    fn partitioned(size: u64, script: &str) -> Self {
        let card = Self::new(size);
        // Otherwise sfdisk waits for the writeback of all disks.
        let sfdisk = Program::new("sfdisk").args(["-q", "--no-tell-kernel"]).arg(card.path());
        SystemRunner::default().run_checked(&sfdisk.stdin(script)).unwrap();
        card
    }

    /// Exit code and output.
    fn check(&self, args: &[&str]) -> (i32, String) {
        self.check_target("card.img", args)
    }

    fn check_target(&self, target: &str, args: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flashfit"));
        command.args(["check", target]).args(args).current_dir(self.folder.path());
        command.env("FLASHFIT_STATE_DIR", self.folder.path());
        let output = command.output().expect("the binary was built");
        let text = String::from_utf8(output.stdout).expect("text");
        // The names of partitions contain the directory.
        let folder = format!("{}/", self.folder.path().display());
        (output.status.code().expect("it was not killed"), text.replace(&folder, ""))
    }

    /// The findings of the check with that name, worst first.
    fn severity(&self, args: &[&str], name: &str) -> String {
        let (_, text) = self.check(&[args, &["--json"]].concat());
        let document: Value = serde_json::from_str(&text).expect("one JSON document");
        let findings = document["data"]["findings"].as_array().expect("a list").clone();
        let found = findings.iter().find(|finding| finding["check"] == name);
        found.map_or_else(String::new, |finding| finding["severity"].as_str().unwrap().to_owned())
    }

    fn run(&self, name: &str, args: &[&str]) -> bool {
        if skip(program(name)) {
            return false;
        }
        let made = Program::new(name).args(args.to_vec()).arg(self.path());
        SystemRunner::default().run_checked(&made).unwrap();
        true
    }
}

fn golden(name: &str, rendered: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    flashfit_test_support::golden(folder.join(name), rendered);
}

fn lacking() -> bool {
    skip(block_devices())
}

/// The Pandora's card, according to its page.
const PANDORA: &str = "label: dos\nunit: sectors\nstart=16384, size=127647744, type=83\n\
                       start=127664128, size=2095104, type=82\n";

#[test]
fn the_pandoras_partitions_are_aligned() {
    if lacking() {
        return;
    }
    let card = Card::partitioned(66_436_726_784, PANDORA);
    let (code, text) = card.check(&["--erase-block", "8MiB"]);
    assert_eq!(code, 0, "{text}");
    golden("check-pandora.txt", &text);
}

#[test]
fn a_partition_at_sector_1_is_not() {
    if lacking() {
        return;
    }
    let script = "label: dos\nunit: sectors\nstart=1, size=127647744, type=83\n";
    let card = Card::partitioned(66_436_726_784, script);
    let (code, text) = card.check(&["--erase-block", "8MiB"]);
    assert_eq!(code, 1, "{text}");
    golden("check-sector-1.txt", &text);
}

#[test]
fn without_an_erase_block_alignment_is_unknown() {
    if lacking() {
        return;
    }
    let card = Card::partitioned(64 << 20, "label: gpt\nstart=2048, size=4096\n");
    let (code, text) = card.check(&[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("Verdict: cannot tell"), "{text}");
}

#[test]
fn impossible_sizes_are_refused() {
    let card = Card::new(256 << 20);
    for size in ["0", "1000", "18446744073709551615", "512MiB"] {
        assert_eq!(card.check(&["--erase-block", size]).0, 2, "{size}");
    }
    for size in ["0", "3KiB", "8MiB"] {
        let args = ["--erase-block", "4MiB", "--write-unit", size];
        assert_eq!(card.check(&args).0, 2, "{size}");
    }
}

#[test]
fn a_check_changes_nothing() {
    let card = Card::partitioned(64 << 20, "label: gpt\nstart=2048, size=4096\n");
    let before = std::fs::read(card.path()).unwrap();
    card.check(&["--erase-block", "4MiB"]);
    assert!(std::fs::read(card.path()).unwrap() == before);
}

#[test]
fn a_damaged_table_is_found() {
    use std::os::unix::fs::FileExt;
    let size = 64 << 20;
    let card = Card::partitioned(size, "label: gpt\nstart=2048, size=4096\n");
    let zero = |at: u64| {
        let file = std::fs::File::options().write(true).open(card.path()).unwrap();
        file.write_all_at(&[0; 512 * 33], at).unwrap();
    };
    zero(512);
    assert_eq!(card.severity(&["--erase-block", "1MiB"], "table"), "bad");
    zero(size - 512 * 33);
    let (code, text) = card.check(&["--erase-block", "1MiB"]);
    assert_eq!(code, 1);
    assert!(text.contains("no readable GPT"), "{text}");
}

/// The text without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes bytes into the image.
fn put(card: &Card, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(card.path()).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

#[test]
fn a_table_of_which_one_header_is_left_is_not_given_up() {
    let size = 64 << 20;
    // The MBR and the first header, or the MBR alone.
    for (zeros, place) in [(34 * 512, "last"), (512, "second")] {
        let card = Card::partitioned(size, "label: gpt\nstart=2048, size=4096\n");
        put(&card, 0, &vec![0; zeros]);
        let (code, text) = card.check(&["--erase-block", "1MiB"]);
        assert_eq!(code, 1, "{text}");
        assert!(words(&text).contains(&format!("the {place} sector has that of a GPT")), "{text}");
        assert!(text.contains("  gdisk card.img  # use the current GPT, then w"), "{text}");
        assert!(!text.contains("flashfit plan"), "{text}");
        // Contents of a kind that flashfit does not read: the repair would overwrite them.
        put(&card, 0, &[b"LUKS\xba\xbe\0\x01aes".as_slice(), &[0; 581]].concat());
        let (_, text) = card.check(&["--erase-block", "1MiB"]);
        assert!(!text.contains("gdisk"), "{text}");
        // A file system was made on the whole device since then.
        if card.run("mkfs.ext4", &["-q", "-F"]) {
            let (code, text) = card.check(&["--erase-block", "1MiB"]);
            assert!(code == 0 && !text.contains("GPT"), "{text}");
        }
    }
}

#[test]
fn a_partition_over_its_own_table_is_found() {
    let card = Card::partitioned(64 << 20, "label: dos\nstart=2048, size=4096, type=83\n");
    put(&card, 446 + 8, &[0u32.to_le_bytes(), (131_072u32).to_le_bytes()].concat());
    let (code, text) = card.check(&["--erase-block", "1MiB"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("bad: table, card.img1"), "{text}");
    assert!(words(&text).contains("it covers the first sector of the device"), "{text}");
    // An image for optical discs that also starts from a stick.
    put(&card, 32_768, b"\x01CD001\x01");
    let (_, text) = card.check(&["--erase-block", "1MiB"]);
    assert!(!text.contains("it covers"), "{text}");
    put(&card, 32_768, &[0; 7]);
    // With --mbr, mkfs.fat makes such a table, and its first sector is part of the file system.
    if card.run("mkfs.fat", &["-F", "32", "--mbr=y"]) {
        let (_, text) = card.check(&["--erase-block", "1MiB"]);
        assert!(!text.contains("it covers"), "{text}");
    }
}

#[test]
fn a_chain_of_partitions_without_an_end_is_one_finding() {
    let script = "label: dos\nstart=2048, size=100000, type=5\nstart=4096, size=2048, type=83\n";
    let card = Card::partitioned(64 << 20, script);
    // The second entry of the first logical partition's table leads back to it.
    let link = [0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0];
    put(&card, 2048 * 512 + 446 + 16, &link);
    let (code, text) = card.check(&["--erase-block", "1MiB"]);
    assert_eq!(code, 1, "{text}");
    assert_eq!(text.matches("bad: ").count(), 1, "{text}");
    assert!(words(&text).contains("leads back to itself"), "{text}");
}

#[test]
fn overlapping_partitions_are_found() {
    use std::os::unix::fs::FileExt;
    let script = "label: dos\nunit: sectors\nstart=2048, size=4096, type=83\n\
                  start=8192, size=4096, type=83\n";
    let card = Card::partitioned(64 << 20, script);
    let file = std::fs::File::options().write(true).open(card.path()).unwrap();
    file.write_all_at(&4096u32.to_le_bytes(), 446 + 16 + 8).unwrap();
    let (code, text) = card.check(&["--erase-block", "1MiB"]);
    assert_eq!(code, 1);
    assert!(text.contains("overlaps card.img1"), "{text}");
}

#[test]
fn the_start_of_data_is_compared_with_the_erase_block() {
    let card = Card::new(256 << 20);
    if !card.run("mkfs.fat", &["-F", "32"]) {
        return;
    }
    assert_eq!(card.severity(&["--erase-block", "4MiB"], "data start"), "bad");
    if card.run("mkfs.exfat", &["-b", "4M"]) {
        assert_eq!(card.severity(&["--erase-block", "4MiB"], "data start"), "fine");
        // mkfs.exfat can align to at most 8 MiB of 24 MiB.
        assert_eq!(card.severity(&["--erase-block", "24MiB"], "data start"), "advice");
        assert_eq!(card.severity(&["--erase-block", "16MiB"], "data start"), "bad");
    }
}

#[test]
fn stripes_and_sections_are_compared_with_the_erase_block() {
    let card = Card::new(512 << 20);
    if card.run("mkfs.ext4", &["-q", "-F", "-b", "4096"]) {
        let (code, text) = card.check(&["--erase-block", "8MiB", "--write-unit", "8KiB"]);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("tune2fs -E stride=2,stripe_width=2048 card.img"), "{text}");
    }
    if card.run("mkfs.ext4", &["-q", "-F", "-b", "4096", "-E", "stride=2,stripe_width=2048"]) {
        assert_eq!(card.severity(&["--erase-block", "8MiB"], "stripe"), "fine");
    }
    if card.run("mkfs.f2fs", &["-q", "-f", "-s", "3"]) {
        assert_eq!(card.severity(&["--erase-block", "6MiB"], "section"), "fine");
        assert_eq!(card.severity(&["--erase-block", "12MiB"], "section"), "advice");
        assert_eq!(card.severity(&["--erase-block", "8MiB"], "section"), "bad");
    }
}

#[test]
fn the_result_of_a_plan_passes_the_check() {
    let card = Card::new(512 << 20);
    let plan = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flashfit"));
        command.arg("plan").arg(card.path()).args(["--table", "none", "--json"]).args(args);
        let output = command.output().expect("the binary was built");
        serde_json::from_slice::<Value>(&output.stdout).expect("one JSON document")
    };
    for name in ["fat32", "ext4", "nilfs2"] {
        let document = plan(&["--fs", name, "--erase-block", "4MiB"]);
        let mkfs = &document["data"]["plans"][0]["commands"][0];
        let args: Vec<&str> =
            mkfs["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        let (_, flags) = args.split_last().unwrap();
        std::fs::File::create(card.path()).unwrap().set_len(512 << 20).unwrap();
        let forced = if name == "ext4" { [&["-F"], flags].concat() } else { flags.to_vec() };
        if card.run(mkfs["program"].as_str().unwrap(), &forced) {
            let (code, text) = card.check(&["--erase-block", "4MiB"]);
            assert_eq!(code, 0, "{name}: {text}");
            assert!(text.contains("Verdict: fine."), "{name}: {text}");
        }
    }
}

#[test]
fn risky_mount_options_are_found() {
    if lacking() {
        return;
    }
    let card = Card::new(64 << 20);
    if !card.run("mkfs.ext4", &["-q", "-F", "-b", "4096"]) {
        return;
    }
    let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
    let device = LoopDevice::attach(&card.path(), options).unwrap();
    let point = card.folder.path().join("point");
    std::fs::create_dir(&point).unwrap();
    let options = ["nobarrier".to_owned(), "data=writeback".to_owned()];
    let runner = SystemRunner::default();
    let mounted = Mounted::new(&runner, device.node(), "ext4", &point, &options).unwrap();
    let node = device.node().display().to_string();
    let (code, text) = card.check_target(&node, &["--erase-block", "4MiB"]);
    mounted.unmount().unwrap();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("mounted with nobarrier: may-corrupt"), "{text}");
    assert!(text.contains("mounted with data=writeback: loses-recent"), "{text}");
    assert!(text.contains("mounted without noatime"), "{text}");
}

#[test]
fn a_simulated_card_has_nothing_to_check() {
    let card = Card::new(1 << 20);
    let (code, _) = card.check_target("sim:sd-c4-block", &[]);
    assert_eq!(code, 2);
}
