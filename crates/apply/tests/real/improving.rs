//! Changes that keep the files, killed at every event: the file system stays whole, the same call
//! continues, and all of it is taken back.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use flashfit_apply::keep_data::{
    ChangeRequest, DeviceAccess, ImproveRequest, Improved, ImprovementJournal, ImprovementStep,
    improve, restore,
};
use flashfit_apply::{ApplyError, ApplyTools, UnfinishedRecords};
use flashfit_device::{DeviceLock, SystemRoots};
use flashfit_filesystem::facts;
use flashfit_filesystem::improvement::{ExpectedFacts, ImprovedVolume};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{AttemptKind, attempted};

use crate::Test;
use crate::bed::ended;
use crate::worker::consent;

pub const TESTS: &[Test] = &[("killed_at_every_step_of_a_change_that_keeps_files", at_every_step)];

/// The first argument that makes this program a worker of this test.
pub const NAME: &str = "improve";

/// More events than the steps have.
const MOST_EVENTS: u32 = 60;

fn run(name: &str, args: &[&str]) -> String {
    SystemRunner::default().run_checked(&Program::new(name).args(args.to_vec())).unwrap().stdout
}

fn steps(image: &Path, fstab: &Path) -> Vec<ImprovementStep> {
    let runner = SystemRunner::default();
    let facts = facts::read(&runner, image).unwrap().unwrap();
    let volume = ImprovedVolume {
        name: image.display().to_string(),
        start_bytes: 0,
        kind: facts.kind,
        uuid: facts.uuid,
        label: None,
        partition_uuid: None,
        mount_points: Vec::new(),
    };
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    let superblock = |args, restore_args, expected| ImprovementStep::Superblock {
        volume: volume.clone(),
        shown_node: None,
        program: "tune2fs".to_owned(),
        args: words(args),
        restore_args: words(restore_args),
        expected,
    };
    let no_journal =
        ExpectedFacts { absent_feature: Some("has_journal".to_owned()), numbers: Vec::new() };
    let stride = vec![("stride_blocks".to_owned(), 4)];
    let stride = ExpectedFacts { absent_feature: None, numbers: stride };
    vec![
        superblock("-E stride=4", "-E stride=0", stride),
        superblock("-O ^has_journal", "-O has_journal", no_journal),
        ImprovementStep::TryOptions { volume, options: words("noatime") },
        ImprovementStep::SystemFile {
            path: fstab.to_owned(),
            before: Some("before\n".to_owned()),
            after: "after\n".to_owned(),
        },
    ]
}

/// Makes the changes in `folder`, or takes them back, and dies at an event; never at 0.
fn carry_out(folder: &Path, back: bool, dies_at: u32) -> Result<Improved, ApplyError> {
    let runner = SystemRunner::default();
    let image = folder.join("image");
    let held = DeviceLock::acquire(&runner, consent(&image)?)?;
    let (system, interrupt) = (SystemRoots::default(), Interrupt::new());
    let records = UnfinishedRecords::in_folder(&folder.join("state"));
    let seen = Cell::new(0);
    let tell = |_: &_| {
        seen.set(seen.get() + 1);
        if seen.get() == dies_at {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
    };
    let tools = ApplyTools {
        system: &system,
        runner: &runner,
        records: &records,
        interrupt: &interrupt,
        on_event: &tell,
    };
    let access = DeviceAccess::Exclusive(held);
    let saved = folder.join("saved");
    if back {
        let journal = ImprovementJournal::read(&saved)?.expect("it was begun");
        return restore(&tools, &access, journal, "undo");
    }
    let request = ImproveRequest {
        access: &access,
        folder: saved,
        steps: steps(&image, &folder.join(FSTAB)),
        asked: ChangeRequest::default(),
        resume_command: "again".to_owned(),
        restore_command: "undo".to_owned(),
    };
    improve(&tools, &request)
}

/// The worker's main function.
pub fn main(args: &[String]) -> ExitCode {
    let [folder, back, dies_at] = args else { return ExitCode::FAILURE };
    match carry_out(Path::new(folder), back == "true", dies_at.parse().unwrap()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The only place where the changes of a system's mounts may be.
const FSTAB: &str = "etc/fstab";

struct ImageFolder(tempfile::TempDir);

impl ImageFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let this = Self(folder);
        std::fs::File::create(this.image()).unwrap().set_len(32 << 20).unwrap();
        run("mkfs.ext4", &["-q", "-F", &this.image().display().to_string()]);
        std::fs::create_dir(this.0.path().join("etc")).unwrap();
        std::fs::write(this.0.path().join(FSTAB), "before\n").unwrap();
        this
    }

    fn image(&self) -> PathBuf {
        self.0.path().join("image")
    }

    /// Whether it died.
    #[track_caller]
    fn dies(&self, back: bool, dies_at: u32) -> bool {
        let child = Command::new(std::env::current_exe().unwrap())
            .arg(NAME)
            .arg(self.0.path())
            .args([back.to_string(), dies_at.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (code, said) = ended(child);
        assert!(matches!(code, None | Some(0)), "at event {dies_at}: {said}");
        attempted(AttemptKind::Kill, usize::from(code.is_none()));
        code.is_none()
    }

    /// Stride, journal and the system's file.
    #[track_caller]
    fn state(&self) -> (u64, bool, String) {
        let image = self.image();
        run("e2fsck", &["-f", "-n", &image.display().to_string()]);
        let facts = facts::read(&SystemRunner::default(), &image).unwrap().unwrap();
        let text = std::fs::read_to_string(self.0.path().join(FSTAB)).unwrap();
        (facts.number("stride_blocks").unwrap_or(0), facts.has_feature("has_journal"), text)
    }
}

fn at_every_step() {
    let folder = ImageFolder::new();
    let before = (0, true, "before\n".to_owned());
    let after = (4, false, "after\n".to_owned());
    for event in 1..MOST_EVENTS {
        let died = folder.dies(false, event);
        folder.state();
        if died {
            carry_out(folder.0.path(), false, 0).unwrap();
        }
        assert_eq!(folder.state(), after, "after event {event}");
        let died_back = folder.dies(true, event);
        folder.state();
        if died_back {
            carry_out(folder.0.path(), true, 0).unwrap();
        }
        assert_eq!(folder.state(), before, "back after event {event}");
        std::fs::remove_dir_all(folder.0.path().join("saved")).unwrap();
        if !died && !died_back {
            assert!(event > 8, "there are more events than {event}");
            return;
        }
    }
    panic!("there are more than {MOST_EVENTS} events");
}
