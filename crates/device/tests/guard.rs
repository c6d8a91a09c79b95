//! Every reason of the guard to refuse, provoked on real loop devices.

use std::path::Path;

use flashfit_device::in_use::DeviceUse;
use flashfit_device::{ConsentMethod, Device, Refusal, SystemRoots, Target, WriteConsent};
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::mount::{Mounted, enter_private_namespace};
use flashfit_host::{Program, ProgramError, ProgramOutcome, Runner, SystemRunner};
use flashfit_test_support::{AttemptKind, TestNeed, attempted, block_devices, program, skip};
use flashfit_user_error::{ExitClass, Hint, UserError, UserSetting};

/// An image file with an ext4 file system, attached to a loop device.
struct Fixture {
    folder: tempfile::TempDir,
    device: LoopDevice,
    runner: SystemRunner,
    system: SystemRoots,
}

impl Fixture {
    /// `None`, with the reason printed, if the test cannot run here.
    fn new() -> Option<Self> {
        if skip(block_devices().or_else(|| program("mkfs.ext4"))) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let image = folder.path().join("card.img");
        let file = std::fs::File::create(&image).expect("an image file");
        file.set_len(64 << 20).expect("a sparse file");
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        let device = LoopDevice::attach(&image, options).expect("a free loop device");
        let runner = SystemRunner::default();
        let mkfs = Program::new("mkfs.ext4").args(["-q", "-F"]).arg(text(device.node()));
        runner.run_checked(&mkfs).expect("mkfs.ext4 works");
        Some(Self { folder, device, runner, system: SystemRoots::default() })
    }

    /// Mounts the device where only this thread sees it: a namespace that another process makes
    /// meanwhile would copy the mount and keep the device busy after it is unmounted here.
    fn mount(&self, point: &Path) -> Mounted {
        enter_private_namespace().expect("root may have a namespace");
        Mounted::new(&self.runner, self.device.node(), "ext4", point, &[]).expect("it is ext4")
    }

    fn shown(&self) -> Device {
        Device::from_node(&self.system, &self.runner, self.device.node()).expect("it is attached")
    }

    fn ask(&self, device: &Device, method: &ConsentMethod) -> Result<WriteConsent, Refusal> {
        WriteConsent::ask(&self.system, &self.runner, device, method)
    }

    fn named(&self) -> ConsentMethod {
        ConsentMethod::Named(text(self.device.node()))
    }
}

/// A device whose first sectors sfdisk cannot read.
struct UnreadableTable(SystemRunner);

impl Runner for UnreadableTable {
    fn run(&self, program: &Program) -> Result<ProgramOutcome, ProgramError> {
        if program.name() != "sfdisk" {
            return self.0.run(program);
        }
        let stderr = "sfdisk: cannot open: Input/output error\n".to_owned();
        Ok(ProgramOutcome { code: Some(1), stderr, ..ProgramOutcome::default() })
    }
}

/// The user would be asked for a device that is shown without partitions.
#[test]
fn a_device_whose_partition_table_cannot_be_read_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let runner = UnreadableTable(SystemRunner::default());
    let shown = Device::from_node(&fixture.system, &runner, fixture.device.node()).unwrap();
    for method in [ConsentMethod::NotAsked, fixture.named()] {
        let refused = WriteConsent::ask(&fixture.system, &runner, &shown, &method).unwrap_err();
        assert!(matches!(refused, Refusal::PartitionsUnknown { .. }), "{refused}");
        assert!(refused.to_string().contains("Input/output error"), "{refused}");
        assert_eq!(refused.class(), ExitClass::Refused);
        assert!(refused.hint().is_some());
    }
    fixture.ask(&shown, &fixture.named()).unwrap();
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[track_caller]
fn assert_in_use(result: Result<WriteConsent, Refusal>, expected: impl Fn(&DeviceUse) -> bool) {
    attempted(AttemptKind::TargetInUse, 1);
    match result {
        Err(error @ Refusal::InUse { .. }) => {
            assert_eq!(error.class(), ExitClass::Refused);
            assert!(error.hint().is_some());
            let Refusal::InUse { uses, .. } = &error else { unreachable!("just matched") };
            assert!(uses.iter().any(expected), "{error}");
        }
        other => panic!("expected a refusal for use, got {other:?}"),
    }
}

#[test]
fn an_unused_device_confirmed_by_name_gets_a_consent() {
    let Some(fixture) = Fixture::new() else { return };
    let device = fixture.shown();
    fixture.ask(&device, &fixture.named()).unwrap();
    fixture.ask(&device, &ConsentMethod::Named(device.short_name())).unwrap();
}

#[test]
fn a_missing_or_wrong_confirmation_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let device = fixture.shown();
    let not_asked = fixture.ask(&device, &ConsentMethod::NotAsked).unwrap_err();
    assert!(matches!(not_asked, Refusal::NotConfirmed { .. }));
    let hint =
        Hint::from("add ").and(UserSetting::Confirm).and(format!(" {}", device.short_name()));
    assert_eq!(not_asked.hint(), Some(hint));
    let wrong = fixture.ask(&device, &ConsentMethod::Named("sda".into())).unwrap_err();
    assert!(matches!(wrong, Refusal::WrongName { .. }));
}

#[test]
fn a_mounted_device_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let device = fixture.shown();
    let point = tempfile::tempdir().unwrap();
    let mounted = fixture.mount(point.path());
    assert_in_use(
        fixture.ask(&device, &fixture.named()),
        |found| matches!(found, DeviceUse::Mounted { point, .. } if point == mounted.point()),
    );
    mounted.unmount().unwrap();
    fixture.ask(&device, &fixture.named()).unwrap();
}

#[test]
fn a_device_mounted_in_another_namespace_is_busy() {
    let Some(fixture) = Fixture::new() else { return };
    let device = fixture.shown();
    let point = tempfile::tempdir().unwrap();
    let script = format!(
        "mount {} {} && echo mounted && exec sleep 60",
        text(fixture.device.node()),
        text(point.path())
    );
    let mut hidden = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = hidden.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    assert_eq!(line, "mounted\n");
    let mut refusal = fixture.ask(&device, &fixture.named());
    // A process that another test starts has this test's files open until it executes a program.
    for _ in 0..50 {
        let Err(Refusal::InUse { .. }) = refusal else { break };
        std::thread::sleep(std::time::Duration::from_millis(20));
        refusal = fixture.ask(&device, &fixture.named());
    }
    hidden.kill().unwrap();
    hidden.wait().unwrap();
    assert!(matches!(refusal, Err(Refusal::Busy { .. })), "{refusal:?}");
}

#[test]
fn a_swap_device_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let node = text(fixture.device.node());
    fixture.runner.run_checked(&Program::new("mkswap").arg(&node)).unwrap();
    if let Err(error) = fixture.runner.run_checked(&Program::new("swapon").arg(&node)) {
        let reason = format!("this kernel does not swap to a loop device: {error}");
        assert!(skip(Some(TestNeed::Kernel.missing(reason))));
        return;
    }
    let refusal = fixture.ask(&fixture.shown(), &fixture.named());
    fixture.runner.run_checked(&Program::new("swapoff").arg(&node)).unwrap();
    assert_in_use(refusal, |found| matches!(found, DeviceUse::Swap { .. }));
}

#[test]
fn an_image_behind_a_loop_device_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let image = fixture.folder.path().join("card.img").canonicalize().unwrap();
    let device = Device::from_image(&fixture.runner, &image).unwrap();
    let refusal = fixture.ask(&device, &ConsentMethod::Named("card.img".into()));
    assert_in_use(refusal, |found| matches!(found, DeviceUse::Held { .. }));
}

#[test]
fn an_image_behind_a_loop_device_is_refused_by_its_hard_link() {
    let Some(fixture) = Fixture::new() else { return };
    let other = fixture.folder.path().join("other.img");
    std::fs::hard_link(fixture.folder.path().join("card.img"), &other).unwrap();
    let device = Device::from_image(&fixture.runner, &other).unwrap();
    let refusal = fixture.ask(&device, &ConsentMethod::Named("other.img".into()));
    assert_in_use(refusal, |found| matches!(found, DeviceUse::Held { .. }));
}

#[test]
fn a_loop_device_over_the_device_is_a_holder() {
    let Some(fixture) = Fixture::new() else { return };
    let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
    let above = LoopDevice::attach(fixture.device.node(), options).unwrap();
    assert_in_use(
        fixture.ask(&fixture.shown(), &fixture.named()),
        |found| matches!(found, DeviceUse::Held { holder, .. } if above.node().ends_with(holder)),
    );
}

#[test]
fn a_device_open_in_another_process_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let file = std::fs::File::open(fixture.device.node()).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
    let refusal = fixture.ask(&fixture.shown(), &fixture.named());
    let pid = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_in_use(
        refusal,
        |found| matches!(found, DeviceUse::Open { pid: found, .. } if *found == pid),
    );
}

#[test]
fn the_check_waits_for_a_process_to_close_the_device() {
    let Some(fixture) = Fixture::new() else { return };
    let consent = fixture.ask(&fixture.shown(), &fixture.named()).unwrap();
    let file = std::fs::File::open(fixture.device.node()).unwrap();
    let mut child = std::process::Command::new("sleep").arg("0.5").stdin(file).spawn().unwrap();
    consent.check(&fixture.runner).unwrap();
    assert!(child.try_wait().unwrap().is_some(), "the check came before the process had ended");
    child.wait().unwrap();
}

#[test]
fn the_disk_of_the_running_system_is_refused() {
    if skip(block_devices()) {
        return;
    }
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let root = flashfit_host::mountinfo::at(Path::new("/")).unwrap().unwrap();
    let Some(disk) = system.name_of(root.device).map(|name| system.whole_disk(&name)) else {
        assert!(skip(Some(TestNeed::Isolation.missing("/ is not on a block device"))));
        return;
    };
    let Ok(target) = Target::parse(&format!("/dev/{disk}")) else {
        let reason = format!("/dev/{disk} is not visible here");
        assert!(skip(Some(TestNeed::Isolation.missing(reason))));
        return;
    };
    let node = target.path().expect("a node has a path");
    let device = Device::from_node(&system, &runner, node).unwrap();
    let refusal = WriteConsent::ask(&system, &runner, &device, &ConsentMethod::Named(disk));
    assert_in_use(refusal, |found| matches!(found, DeviceUse::SystemDisk { .. }));
}

#[test]
fn a_device_that_changed_after_display_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let mut other_size = fixture.shown();
    other_size.capacity.0 += 512;
    let mut other_card = fixture.shown();
    other_card.identity.disk_sequence = other_card.identity.disk_sequence.map(|count| count + 1);
    for shown in [other_size, other_card] {
        let refusal = fixture.ask(&shown, &fixture.named()).unwrap_err();
        assert!(matches!(refusal, Refusal::Changed { .. }), "{refusal}");
        assert_eq!(refusal.class(), ExitClass::Refused);
    }
}

#[test]
fn a_consent_is_invalid_once_the_device_is_mounted() {
    let Some(fixture) = Fixture::new() else { return };
    let consent = fixture.ask(&fixture.shown(), &fixture.named()).unwrap();
    let point = tempfile::tempdir().unwrap();
    let mounted = fixture.mount(point.path());
    assert!(matches!(consent.check(&fixture.runner), Err(Refusal::InUse { .. })));
    assert!(matches!(consent.open(), Err(Refusal::Busy { .. })));
    mounted.unmount().unwrap();
    consent.check(&fixture.runner).unwrap();
}

#[test]
fn a_write_protected_device_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let node = text(fixture.device.node());
    fixture.runner.run_checked(&Program::new("blockdev").args(["--setro", &node])).unwrap();
    let refusal = fixture.ask(&fixture.shown(), &fixture.named());
    // The kernel keeps the flag for the next user of this loop device.
    fixture.runner.run_checked(&Program::new("blockdev").args(["--setrw", &node])).unwrap();
    assert!(matches!(refusal, Err(Refusal::ReadOnly { .. })), "{refusal:?}");
}

#[test]
fn an_ordinary_loop_device_is_not_a_simulated_card() {
    let Some(fixture) = Fixture::new() else { return };
    let (system, runner) = (&fixture.system, &fixture.runner);
    let refusal = WriteConsent::for_simulated_card(system, runner, fixture.device.node(), 1);
    assert!(matches!(refusal, Err(Refusal::NotSimulated { .. })));
}

/// An image of 1 MiB in its own folder, and its confirmation.
fn image() -> (tempfile::TempDir, std::path::PathBuf, ConsentMethod) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.img");
    std::fs::write(&path, vec![1; 1 << 20]).expect("a small file");
    (folder, path, ConsentMethod::Named("t.img".into()))
}

#[track_caller]
fn assert_another_file(refusal: Result<(), Refusal>) {
    let refusal = refusal.expect_err("it was replaced");
    assert!(refusal.to_string().contains("it is now another file"), "{refusal}");
    assert_eq!(refusal.class(), ExitClass::Refused);
}

#[test]
fn a_replaced_image_is_refused_locally_and_by_description() {
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let (folder, path, named) = image();
    let shown = Device::from_image(&runner, &path).unwrap();
    let sent = serde_json::to_string(&shown).unwrap();
    let received: Device = serde_json::from_str(&sent).unwrap();
    let before = WriteConsent::ask(&system, &runner, &received, &named).unwrap();
    let other = folder.path().join("other.img");
    std::fs::write(&other, vec![2; 1 << 20]).unwrap();
    std::fs::rename(&path, folder.path().join("aside")).unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert_another_file(before.check(&runner));
    // The consent still opens the confirmed file.
    let mut first = [0];
    std::io::Read::read_exact(&mut before.open().unwrap(), &mut first).unwrap();
    assert_eq!(first, [1]);
    for shown in [shown, received] {
        let asked = WriteConsent::ask(&system, &runner, &shown, &named);
        assert_another_file(asked.map(drop));
    }
    std::fs::remove_file(&path).unwrap();
    let gone = before.check(&runner).unwrap_err();
    assert!(gone.to_string().contains("no longer exists"), "{gone}");
}

#[test]
fn a_description_without_an_identity_is_refused() {
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let (_folder, path, named) = image();
    let mut shown = Device::from_image(&runner, &path).unwrap();
    shown.object = None;
    shown.target = None;
    assert_another_file(WriteConsent::ask(&system, &runner, &shown, &named).map(drop));
}

#[test]
fn a_resized_image_is_refused_and_keeps_its_size() {
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let (_folder, path, named) = image();
    let shown = Device::from_image(&runner, &path).unwrap();
    let resize = |bytes| {
        std::fs::File::options().write(true).open(&path).unwrap().set_len(bytes).unwrap();
    };
    let consent = WriteConsent::ask(&system, &runner, &shown, &named).unwrap();
    resize(4096);
    let refusal = consent.check(&runner).unwrap_err();
    assert!(matches!(refusal, Refusal::Resized { .. }), "{refusal}");
    assert_eq!(refusal.class(), ExitClass::Io);
    let asked = WriteConsent::ask(&system, &runner, &shown, &named).unwrap_err();
    assert!(matches!(asked, Refusal::Changed { .. }), "nothing was started: {asked}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
}

#[test]
fn an_image_that_is_open_in_no_listed_process_is_in_use() {
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let (_folder, path, named) = image();
    let shown = Device::from_image(&runner, &path).unwrap();
    // This process's files are not listed.
    let unlisted = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let no_leases = flashfit_host::lease::is_only_opener(&unlisted).is_none();
    if skip(no_leases.then(|| TestNeed::Kernel.missing("no leases here"))) {
        return;
    }
    let ask = || WriteConsent::ask(&system, &runner, &shown, &named);
    assert_in_use(ask(), |found| matches!(found, DeviceUse::OpenUnlisted { .. }));
    drop(unlisted);
    let consent = ask().unwrap();
    let _own = consent.open().unwrap();
    consent.check(&runner).unwrap();
}

#[test]
fn a_loop_device_over_another_file_of_that_name_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let (folder, path, named) = image();
    let shown = Device::from_image(&fixture.runner, &path).unwrap();
    let consent = fixture.ask(&shown, &named).unwrap();
    std::fs::rename(&path, folder.path().join("aside")).unwrap();
    std::fs::write(&path, vec![2; 1 << 20]).unwrap();
    let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
    let device = LoopDevice::attach(&path, options).unwrap();
    let refusal = consent.through_loop(&fixture.runner, device.node()).unwrap_err();
    assert!(refusal.to_string().contains("it is not attached to"), "{refusal}");
}

#[test]
fn a_node_that_another_device_was_given_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let image = fixture.folder.path().join("second.img");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
    let second = LoopDevice::attach(&image, options).unwrap();
    let node = fixture.folder.path().join("node");
    let make = |device: &Path| {
        use std::os::unix::fs::MetadataExt;
        let number = std::fs::metadata(device).unwrap().rdev();
        let kind = rustix::fs::FileType::BlockDevice;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        // There is nothing to remove the first time.
        let _ = std::fs::remove_file(&node);
        rustix::fs::mknodat(rustix::fs::CWD, &node, kind, mode, number).unwrap();
    };
    make(fixture.device.node());
    let shown = Device::from_node(&fixture.system, &fixture.runner, &node).unwrap();
    let named = ConsentMethod::Named("node".into());
    let consent = fixture.ask(&shown, &named).unwrap();
    make(second.node());
    for refusal in [consent.check(&fixture.runner), fixture.ask(&shown, &named).map(drop)] {
        let refusal = refusal.unwrap_err();
        assert!(refusal.to_string().contains("it is now another device"), "{refusal}");
    }
}

#[test]
fn an_o_path_descriptor_does_not_count_as_a_use() {
    let Some(fixture) = Fixture::new() else { return };
    let shown = fixture.shown();
    let target = shown.target.as_ref().expect("it was opened");
    let node = std::fs::File::from(rustix::io::dup(target.file()).unwrap());
    let mut child = std::process::Command::new("sleep").arg("60").stdin(node).spawn().unwrap();
    let asked = fixture.ask(&shown, &fixture.named());
    child.kill().unwrap();
    child.wait().unwrap();
    asked.unwrap();
}
