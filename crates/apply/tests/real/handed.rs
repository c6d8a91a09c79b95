//! Programs get the open device, not its name: a name that is replaced between the last check and
//! a program's own open leads none of the catalog's programs to another device.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flashfit_apply::ApplyError;
use flashfit_device::{
    ConsentMethod, ConsentedRunError, Device, Refusal, SystemRoots, WriteConsent,
};
use flashfit_filesystem::{
    Conditions, FileSystem, FileSystemCatalog, Recipe, Scheduler, Setup, layout,
};
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::mount::Mounted;
use flashfit_host::{Program, ProgramError, ProgramOutcome, Runner, SystemRunner, mountinfo};
use flashfit_test_support::{AttemptKind, attempted, programs, skip_part};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::Test;

pub const TESTS: &[Test] = &[
    ("no_program_follows_a_replaced_name", no_program_follows_a_replaced_name),
    ("a_name_that_is_replaced_while_mounting_is_noticed", replaced_while_mounting),
];

/// mkfs.xfs refuses less.
const IMAGE_BYTES: u64 = 320 << 20;

/// How a node is replaced while a program starts.
#[derive(Debug, Clone, Copy)]
enum Replacement {
    /// By another node under a new name that is renamed over it.
    Over,
    /// The node is renamed, and another takes its name.
    Aside,
}

/// A node of a device in a folder, and what stands ready to take its place.
struct Nodes {
    folder: tempfile::TempDir,
    device: LoopDevice,
    victim: LoopDevice,
    /// The file behind the victim.
    behind: PathBuf,
}

impl Nodes {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let attach = |name: &str| {
            let path = folder.path().join(name);
            std::fs::File::create(&path).unwrap().set_len(IMAGE_BYTES).unwrap();
            let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
            LoopDevice::attach(&path, options).unwrap()
        };
        let (device, victim) = (attach("image"), attach("victim"));
        let behind = folder.path().join("victim");
        let nodes = Self { folder, device, victim, behind };
        nodes.make(&nodes.node(), &nodes.device);
        nodes
    }

    /// The name that the user gave.
    fn node(&self) -> PathBuf {
        self.folder.path().join("node1")
    }

    fn make(&self, path: &Path, device: &LoopDevice) {
        let _ = std::fs::remove_file(path);
        let number = std::fs::metadata(device.node()).unwrap().rdev();
        mknodat(CWD, path, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, number).unwrap();
    }

    fn replace(&self, how: Replacement) {
        let new = self.folder.path().join("new");
        self.make(&new, &self.victim);
        if let Replacement::Aside = how {
            std::fs::rename(self.node(), self.folder.path().join("aside")).unwrap();
        }
        std::fs::rename(new, self.node()).unwrap();
    }

    fn consent(&self) -> WriteConsent {
        let (system, runner) = (SystemRoots::default(), SystemRunner::default());
        self.make(&self.node(), &self.device);
        let shown = Device::from_node(&system, &runner, &self.node()).unwrap();
        let name = ConsentMethod::Named(shown.short_name());
        WriteConsent::ask(&system, &runner, &shown, &name).unwrap()
    }

    /// Whether nothing was written to the victim: its file has no block.
    fn is_victim_untouched(&self) -> bool {
        rustix::fs::fsync(std::fs::File::open(self.victim.node()).unwrap()).unwrap();
        std::fs::metadata(&self.behind).unwrap().blocks() == 0
    }

    /// What blkid finds on the device.
    fn found(&self, what: &str) -> String {
        let blkid = Program::new("blkid").args(["-p", "-o", "value", "-s", what]);
        let found = SystemRunner::default().run(&blkid.arg(self.device.node())).unwrap();
        found.stdout.trim().to_owned()
    }
}

/// Replaces the node after the last check, right before the program starts.
struct Replacing<'a> {
    nodes: &'a Nodes,
    how: Replacement,
}

impl Runner for Replacing<'_> {
    fn run(&self, program: &Program) -> Result<ProgramOutcome, ProgramError> {
        self.nodes.replace(self.how);
        attempted(AttemptKind::SwappedTarget, 1);
        SystemRunner::default().run(program)
    }
}

/// The programs that write, for each file system: sfdisk, blkdiscard, wipefs, mkfs, the
/// tuning program.
fn writers(filesystem: &FileSystem, node: &Path) -> Vec<Program> {
    let conditions = Conditions { discard: true, volatile_cache: true, ..Conditions::default() };
    let with = |options: &[&str]| {
        let setup = Setup::new(filesystem, options, Scheduler::new("none"), &conditions).ok()?;
        Recipe::for_trial(filesystem, &setup, &conditions).ok()
    };
    let plain = with(&[]).unwrap();
    let script = "label: gpt\nstart=2048, size=4096\n".to_owned();
    let mut programs = vec![
        layout::run_sfdisk(node, script),
        Program::new("blkdiscard").arg("--force").arg(node),
        Program::new("wipefs").args(["--all", "--force", "--quiet"]).arg(node),
        plain.mkfs(node),
    ];
    let tuned = filesystem.options.iter().filter(|option| !option.tune.is_empty());
    programs.extend(tuned.filter_map(|option| with(&[&option.name])).flat_map(|it| it.tune(node)));
    programs
}

fn no_program_follows_a_replaced_name() {
    let nodes = Nodes::new();
    let catalog = FileSystemCatalog::load(None).unwrap();
    for filesystem in catalog.filesystems().iter().filter(|it| !it.mkfs.from_folder) {
        let name = &filesystem.name;
        if skip_part(programs(&[&filesystem.mkfs.tool.program])) {
            continue;
        }
        for program in writers(filesystem, &nodes.node()) {
            let line = program.command_line();
            for how in [Replacement::Over, Replacement::Aside] {
                let consent = nodes.consent();
                // What a tuning program needs, and what shows that mkfs has worked.
                let plain = Program::new("mkfs.ext4").args(["-q", "-F"]);
                if program.name() == filesystem.mkfs.tool.program {
                    let wipe = Program::new("wipefs").args(["--all", "--quiet", "--force"]);
                    let wipe = wipe.arg(nodes.device.node());
                    SystemRunner::default().run_checked(&wipe).unwrap();
                } else if name.starts_with("ext") {
                    let mkfs = plain.arg(nodes.device.node());
                    SystemRunner::default().run_checked(&mkfs).unwrap();
                }
                let done = consent.run(&Replacing { nodes: &nodes, how }, &program);
                let context = format!("{how:?} {line}: {done:?}");
                assert!(nodes.is_victim_untouched(), "{context}");
                match (done, how) {
                    (Err(ConsentedRunError::Refused(Refusal::Changed { .. })), _) => {
                        if program.name() == filesystem.mkfs.tool.program {
                            assert_eq!(nodes.found("TYPE"), filesystem.kind, "{context}");
                        } else if program.name() == "sfdisk" {
                            assert_eq!(nodes.found("PTTYPE"), "gpt", "{context}");
                        }
                    }
                    // A program that resolves the path finds that the node was deleted.
                    (Err(ConsentedRunError::Program(error)), Replacement::Over) => {
                        println!("{line}: {error}");
                    }
                    _ => panic!("it was not noticed: {context}"),
                }
            }
        }
    }
}

/// mount(8) gets the name: that it was replaced is noticed afterwards, and it is unmounted.
fn replaced_while_mounting() {
    let nodes = Nodes::new();
    let (runner, point) = (SystemRunner::default(), nodes.folder.path().join("point"));
    std::fs::create_dir(&point).unwrap();
    for device in [&nodes.device, &nodes.victim] {
        let mkfs = Program::new("mkfs.ext4").args(["-q", "-F"]).arg(device.node());
        runner.run_checked(&mkfs).unwrap();
    }
    let consent = nodes.consent();
    let replacing = Replacing { nodes: &nodes, how: Replacement::Over };
    let mount = || -> Result<Mounted, ApplyError> {
        Ok(Mounted::new(&replacing, consent.path(), "ext4", &point, &[])?)
    };
    let refused = consent.surrounded(mount).unwrap_err();
    let is_changed = matches!(&refused, ApplyError::Refused(Refusal::Changed { .. }));
    assert!(is_changed, "{refused}");
    assert!(mountinfo::at(&point).unwrap().is_none(), "it is still mounted");
    let again = consent.surrounded(|| -> Result<(), ApplyError> { panic!("it was not refused") });
    assert!(again.is_err());
}
