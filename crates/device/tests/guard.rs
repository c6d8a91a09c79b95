//! The guard on real loop devices: every reason to refuse, made to happen.

use std::path::Path;

use flashfit_device::in_use::DeviceUse;
use flashfit_device::{ConsentMethod, Device, Refusal, SystemRoots, Target, WriteConsent};
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::mount::Mounted;
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{TestNeed, block_devices, program, skip};
use flashfit_user_error::{ExitClass, UserError};

/// An image file with an ext4 file system, attached to a loop device.
struct Fixture {
    folder: tempfile::TempDir,
    device: LoopDevice,
    runner: SystemRunner,
    system: SystemRoots,
}

impl Fixture {
    /// `None`, with the reason printed, where this cannot be run.
    fn new() -> Option<Self> {
        if skip(block_devices().or_else(|| program("mkfs.ext4"))) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let image = folder.path().join("card.img");
        let file = std::fs::File::create(&image).expect("an image file");
        file.set_len(64 << 20).expect("room for a sparse file");
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        let device = LoopDevice::attach(&image, options).expect("a free loop device");
        let runner = SystemRunner::default();
        let mkfs = Program::new("mkfs.ext4").args(["-q", "-F"]).arg(text(device.node()));
        runner.run_checked(&mkfs).expect("mkfs.ext4 works");
        Some(Self { folder, device, runner, system: SystemRoots::default() })
    }

    fn shown(&self) -> Device {
        Device::of_node(&self.system, &self.runner, self.device.node()).expect("it is attached")
    }

    fn ask(&self, medium: &Device, agreement: &ConsentMethod) -> Result<WriteConsent, Refusal> {
        WriteConsent::ask(&self.system, &self.runner, medium, agreement)
    }

    fn named(&self) -> ConsentMethod {
        ConsentMethod::Named(text(self.device.node()))
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[track_caller]
fn assert_in_use(result: Result<WriteConsent, Refusal>, wanted: impl Fn(&DeviceUse) -> bool) {
    match result {
        Err(error @ Refusal::InUse { .. }) => {
            assert_eq!(error.class(), ExitClass::Refused);
            assert!(error.hint().is_some());
            let Refusal::InUse { uses, .. } = &error else { unreachable!("just matched") };
            assert!(uses.iter().any(wanted), "{error}");
        }
        other => panic!("expected a refusal for use, got {other:?}"),
    }
}

#[test]
fn an_unused_medium_that_is_named_gets_a_consent() {
    let Some(fixture) = Fixture::new() else { return };
    let medium = fixture.shown();
    fixture.ask(&medium, &fixture.named()).unwrap();
    fixture.ask(&medium, &ConsentMethod::Named(medium.short_name())).unwrap();
}

#[test]
fn without_agreement_or_with_a_wrong_name_there_is_none() {
    let Some(fixture) = Fixture::new() else { return };
    let medium = fixture.shown();
    let not_asked = fixture.ask(&medium, &ConsentMethod::NotAsked).unwrap_err();
    assert!(matches!(not_asked, Refusal::NotAgreed { .. }));
    assert_eq!(not_asked.hint(), Some(format!("add --confirm {}", medium.short_name())));
    let wrong = fixture.ask(&medium, &ConsentMethod::Named("sda".into())).unwrap_err();
    assert!(matches!(wrong, Refusal::WrongName { .. }));
}

#[test]
fn a_mounted_medium_is_refused_and_named() {
    let Some(fixture) = Fixture::new() else { return };
    let medium = fixture.shown();
    let point = tempfile::tempdir().unwrap();
    let mounted =
        Mounted::new(&fixture.runner, fixture.device.node(), "ext4", point.path(), &[]).unwrap();
    assert_in_use(
        fixture.ask(&medium, &fixture.named()),
        |found| matches!(found, DeviceUse::Mounted { point, .. } if point == mounted.point()),
    );
    mounted.unmount().unwrap();
    fixture.ask(&medium, &fixture.named()).unwrap();
}

#[test]
fn a_medium_that_is_mounted_where_we_cannot_see_it_is_busy() {
    let Some(fixture) = Fixture::new() else { return };
    let medium = fixture.shown();
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
    let refusal = fixture.ask(&medium, &fixture.named());
    hidden.kill().unwrap();
    hidden.wait().unwrap();
    assert!(matches!(refusal, Err(Refusal::Busy { .. })), "{refusal:?}");
}

#[test]
fn swap_is_refused() {
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
    let medium = Device::of_image(&fixture.runner, &image).unwrap();
    let refusal = fixture.ask(&medium, &ConsentMethod::Named("card.img".into()));
    assert_in_use(refusal, |found| matches!(found, DeviceUse::Held { .. }));
}

#[test]
fn an_image_behind_a_loop_device_is_refused_under_its_other_name() {
    let Some(fixture) = Fixture::new() else { return };
    let other = fixture.folder.path().join("other.img");
    std::fs::hard_link(fixture.folder.path().join("card.img"), &other).unwrap();
    let medium = Device::of_image(&fixture.runner, &other).unwrap();
    let refusal = fixture.ask(&medium, &ConsentMethod::Named("other.img".into()));
    assert_in_use(refusal, |found| matches!(found, DeviceUse::Held { .. }));
}

#[test]
fn a_loop_device_over_the_medium_is_a_holder() {
    let Some(fixture) = Fixture::new() else { return };
    let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
    let above = LoopDevice::attach(fixture.device.node(), options).unwrap();
    assert_in_use(
        fixture.ask(&fixture.shown(), &fixture.named()),
        |found| matches!(found, DeviceUse::Held { holder, .. } if above.node().ends_with(holder)),
    );
}

#[test]
fn a_medium_that_another_process_has_open_is_refused() {
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
fn a_process_that_only_looks_into_the_medium_is_waited_for() {
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
    let medium = Device::of_node(&system, &runner, node).unwrap();
    let refusal = WriteConsent::ask(&system, &runner, &medium, &ConsentMethod::Named(disk));
    assert_in_use(refusal, |found| matches!(found, DeviceUse::SystemDisk { .. }));
}

#[test]
fn a_medium_that_changed_since_it_was_shown_is_refused() {
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
fn a_consent_is_void_once_the_medium_is_mounted() {
    let Some(fixture) = Fixture::new() else { return };
    let consent = fixture.ask(&fixture.shown(), &fixture.named()).unwrap();
    let point = tempfile::tempdir().unwrap();
    let mounted =
        Mounted::new(&fixture.runner, fixture.device.node(), "ext4", point.path(), &[]).unwrap();
    assert!(matches!(consent.check(&fixture.runner), Err(Refusal::InUse { .. })));
    assert!(matches!(consent.open(), Err(Refusal::Busy { .. })));
    mounted.unmount().unwrap();
    consent.check(&fixture.runner).unwrap();
}

#[test]
fn a_write_protected_medium_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let node = text(fixture.device.node());
    fixture.runner.run_checked(&Program::new("blockdev").args(["--setro", &node])).unwrap();
    let refusal = fixture.ask(&fixture.shown(), &fixture.named());
    // The kernel keeps the flag for the next user of this loop device.
    fixture.runner.run_checked(&Program::new("blockdev").args(["--setrw", &node])).unwrap();
    assert!(matches!(refusal, Err(Refusal::ReadOnly { .. })), "{refusal:?}");
}

#[test]
fn an_ordinary_loop_device_is_no_simulated_card() {
    let Some(fixture) = Fixture::new() else { return };
    let (system, runner) = (&fixture.system, &fixture.runner);
    let refusal = WriteConsent::for_simulated_card(system, runner, fixture.device.node(), 1);
    assert!(matches!(refusal, Err(Refusal::NotSimulated { .. })));
}

/// An image of 1 MiB in a folder of its own, and the name that agrees to it.
fn image() -> (tempfile::TempDir, std::path::PathBuf, ConsentMethod) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.img");
    std::fs::write(&path, vec![1; 1 << 20]).expect("room for a small file");
    (folder, path, ConsentMethod::Named("t.img".into()))
}

#[track_caller]
fn assert_another_file(refusal: Result<(), Refusal>) {
    let refusal = refusal.expect_err("it was replaced");
    assert!(refusal.to_string().contains("it is another file now"), "{refusal}");
    assert_eq!(refusal.class(), ExitClass::Refused);
}

#[test]
fn an_image_that_was_replaced_is_refused_here_and_where_only_its_description_came() {
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let (folder, path, named) = image();
    let shown = Device::of_image(&runner, &path).unwrap();
    let sent = serde_json::to_string(&shown).unwrap();
    let received: Device = serde_json::from_str(&sent).unwrap();
    let before = WriteConsent::ask(&system, &runner, &received, &named).unwrap();
    let other = folder.path().join("other.img");
    std::fs::write(&other, vec![2; 1 << 20]).unwrap();
    std::fs::rename(&path, folder.path().join("aside")).unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert_another_file(before.check(&runner));
    // What it opens is still what was agreed to.
    let mut first = [0];
    std::io::Read::read_exact(&mut before.open().unwrap(), &mut first).unwrap();
    assert_eq!(first, [1]);
    for shown in [shown, received] {
        let asked = WriteConsent::ask(&system, &runner, &shown, &named);
        assert_another_file(asked.map(drop));
    }
    std::fs::remove_file(&path).unwrap();
    let gone = before.check(&runner).unwrap_err();
    assert!(gone.to_string().contains("not there any more"), "{gone}");
}

#[test]
fn a_description_without_an_identity_is_refused() {
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let (_folder, path, named) = image();
    let mut shown = Device::of_image(&runner, &path).unwrap();
    shown.object = None;
    shown.target = None;
    assert_another_file(WriteConsent::ask(&system, &runner, &shown, &named).map(drop));
}

#[test]
fn an_image_that_another_became_as_large_as_is_not_set_back() {
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let (_folder, path, named) = image();
    let shown = Device::of_image(&runner, &path).unwrap();
    let resize = |bytes| {
        std::fs::File::options().write(true).open(&path).unwrap().set_len(bytes).unwrap();
    };
    let consent = WriteConsent::ask(&system, &runner, &shown, &named).unwrap();
    resize(4096);
    let refusal = consent.check(&runner).unwrap_err();
    assert!(matches!(refusal, Refusal::Resized { .. }), "{refusal}");
    assert_eq!(refusal.class(), ExitClass::Io);
    let asked = WriteConsent::ask(&system, &runner, &shown, &named).unwrap_err();
    assert!(matches!(asked, Refusal::Changed { .. }), "nothing was begun: {asked}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
}

#[test]
fn a_loop_device_over_another_file_of_that_name_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let (folder, path, named) = image();
    let shown = Device::of_image(&fixture.runner, &path).unwrap();
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
        // The first time there is none to remove.
        let _ = std::fs::remove_file(&node);
        rustix::fs::mknodat(rustix::fs::CWD, &node, kind, mode, number).unwrap();
    };
    make(fixture.device.node());
    let shown = Device::of_node(&fixture.system, &fixture.runner, &node).unwrap();
    let named = ConsentMethod::Named("node".into());
    let consent = fixture.ask(&shown, &named).unwrap();
    make(second.node());
    for refusal in [consent.check(&fixture.runner), fixture.ask(&shown, &named).map(drop)] {
        let refusal = refusal.unwrap_err();
        assert!(refusal.to_string().contains("it is another device now"), "{refusal}");
    }
}

#[test]
fn to_look_at_a_device_is_no_use_of_it() {
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
