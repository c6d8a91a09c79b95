//! Boots virtual machines with a shell script as their program, and runs commands over the channel.
//!
//! Skipped without QEMU, busybox or a kernel.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/guest.rs"]
mod guest;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;
use flashfit_test_support::{TestNeed, skip};
use flashfit_user_error::UserError;
use flashfit_vm::{ClockSpeed, Disk, DiskInterface, Port, Vm, VmError};
use guest::{Guest, GuestShell, kernel_or_skip, options};

#[test]
fn the_program_inside_answers() {
    let Some(kernel) = kernel_or_skip() else { return };
    let guest = Guest::new();
    let mut options = options(kernel, &guest);
    options.programs = ["sfdisk", "fio", "flashfit-no-such-program"].map(str::to_owned).to_vec();
    options.modules = ["ext4", "loop", "flashfit_no_such_module"].map(str::to_owned).to_vec();
    let note = guest.folder().join("note");
    std::fs::write(&note, "a note\n").unwrap();
    options.files = vec![(note, "/srv/notes/note".into())];
    let vm = Vm::start(&options, &Interrupt::new()).unwrap();
    let facts = vm.facts().clone();
    println!("{facts:?}");
    assert_eq!(facts.lacking_modules, ["flashfit_no_such_module"]);
    assert!(facts.lacking_programs.contains(&"flashfit-no-such-program".to_owned()));
    let mut shell = GuestShell::new(&vm);
    assert_eq!(shell.run("echo hello"), "hello");
    assert_eq!(shell.run("uname -r"), facts.kernel_release);
    assert_eq!(shell.run("uname -r"), options.kernel.release);
    assert_eq!(shell.run("hostname"), "flashfit-vm");
    assert_eq!(shell.run("cat /srv/notes/note"), "a note");
    assert_eq!(
        shell.run("cat /sys/fs/cgroup/cgroup.controllers | tr ' ' '\\n' | grep -c memory"),
        "1"
    );
    assert_eq!(shell.run("[ -d /sys/kernel/debug/block ] && echo yes"), "yes");
    assert_eq!(shell.run("modprobe ext4 && grep -c ext4 /proc/filesystems"), "1");
    assert_eq!(shell.run("losetup -f"), "/dev/loop0");
    if !facts.lacking_programs.contains(&"sfdisk".to_owned()) {
        assert!(shell.run("sfdisk --version").starts_with("sfdisk from util-linux"));
    }
    if !facts.lacking_programs.contains(&"fio".to_owned()) {
        assert!(shell.run("fio --version").starts_with("fio-"));
    }
    assert_eq!(shell.run("echo said on standard error >&2; echo"), "");
    assert!(vm.console().contains("said on standard error"), "{}", vm.console());
    assert!(vm.is_running());
    vm.stop().unwrap();
}

#[test]
fn a_machine_ends_with_its_program() {
    let Some(kernel) = kernel_or_skip() else { return };
    let guest = Guest::new();
    let vm = Vm::start(&options(kernel, &guest), &Interrupt::new()).unwrap();
    let mut shell = GuestShell::new(&vm);
    assert_eq!(shell.run("echo going; exit 3"), "going");
    let asked = Instant::now();
    while vm.is_running() && asked.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!vm.is_running());
    assert!(vm.console().contains("the program ended with 3"), "{}", vm.console());
    vm.stop().unwrap();
}

#[test]
fn disks_appear_in_order_and_file_systems_can_be_mounted() {
    let Some(kernel) = kernel_or_skip() else { return };
    let guest = Guest::new();
    let images = [64, 32, 128, 16].map(|mib| image(&guest, mib));
    let devices =
        [DiskInterface::Virtio, DiskInterface::Nvme, DiskInterface::SdCard, DiskInterface::Usb];
    let mut options = options(kernel, &guest);
    options.disks =
        images.iter().zip(devices).map(|(path, device)| Disk::file(path, false, device)).collect();
    options.disks[0].sector_bytes = 4096;
    options.disks[0].discard_bytes = Some(16384);
    options.programs = ["mkfs.ext4", "mount", "umount"].map(str::to_owned).to_vec();
    options.modules = vec!["ext4".to_owned()];
    let vm = Vm::start(&options, &Interrupt::new()).unwrap();
    let mut shell = GuestShell::new(&vm);
    let size = |shell: &mut GuestShell, number: usize| {
        shell.run(&format!("cat /sys/block/$(basename $(readlink -f /dev/flashfit/{number}))/size"))
    };
    let sizes: Vec<String> = (0..4).map(|number| size(&mut shell, number)).collect();
    assert_eq!(sizes, ["131072", "65536", "262144", "32768"]);
    for (number, name) in
        [(0, "/dev/vda"), (1, "/dev/nvme0n1"), (2, "/dev/mmcblk0"), (3, "/dev/sda")]
    {
        assert_eq!(shell.run(&format!("readlink -f /dev/flashfit/{number}")), name);
    }
    let queue =
        |shell: &mut GuestShell, what: &str| shell.run(&format!("cat /sys/block/vda/queue/{what}"));
    assert_eq!(queue(&mut shell, "rotational"), "0");
    assert_eq!(queue(&mut shell, "logical_block_size"), "4096");
    assert_eq!(queue(&mut shell, "discard_granularity"), "16384");
    assert_eq!(queue(&mut shell, "write_cache"), "write back");
    if !vm.facts().lacking_programs.is_empty() {
        let reason = format!("{:?} not installed", vm.facts().lacking_programs);
        assert!(skip(Some(TestNeed::Tool.missing(reason))));
        return;
    }
    assert_eq!(shell.run("mkfs.ext4 -q /dev/flashfit/0 && echo made"), "made");
    assert_eq!(shell.run("mount -t ext4 /dev/flashfit/0 /mnt && echo mounted"), "mounted");
    assert_eq!(shell.run("echo kept >/mnt/file && umount /mnt && echo unmounted"), "unmounted");
    vm.stop().unwrap();
    let bytes = std::fs::read(&images[0]).unwrap();
    assert_eq!(bytes[1024 + 56..1024 + 58], [0x53, 0xef], "ext4's magic number is in the image");
}

#[test]
#[ignore = "full: boots virtual machines"]
fn counted_instructions_take_the_same_time_each_time() {
    let Some(kernel) = kernel_or_skip() else { return };
    let guest = Guest::new();
    let mut options = options(kernel, &guest);
    options.speed = ClockSpeed::Counted { shift: 0 };
    let vm = Vm::start(&options, &Interrupt::new()).unwrap();
    let mut shell = GuestShell::new(&vm);
    // The guest's clock in hundredths of a second, before and after work and a sleep.
    let clock = "cut -d' ' -f1 /proc/uptime | tr -d .";
    let work = "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done; sleep 0.5";
    let command = format!("a=$({clock}); {work}; b=$({clock}); echo $((b-a))");
    let times: Vec<i64> = (0..4).map(|_| shell.run(&command).parse().unwrap()).collect();
    println!("in hundredths of a second: {times:?}");
    let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    assert!(*least >= 50 && most - least <= 1, "{times:?}");

    // While the guest waits for the host its clock skips ahead, unless it is paused.
    vm.pause().unwrap();
    vm.resume().unwrap();
    assert_eq!(shell.run("echo hello"), "hello");
    vm.stop().unwrap();
}

#[test]
#[ignore = "full: boots virtual machines"]
fn a_saved_machine_can_be_restored() {
    let Some(kernel) = kernel_or_skip() else { return };
    let guest = Guest::new();
    let mut options = options(kernel, &guest);
    options.disks = vec![Disk::file(image(&guest, 64), false, DiskInterface::Virtio)];
    let mut vm = Vm::start(&options, &Interrupt::new()).unwrap();
    let mut shell = GuestShell::new(&vm);
    assert_eq!(shell.run("NAME=kept; echo set"), "set");
    let state = guest.folder().join("the state");
    vm.save(&state).unwrap();
    assert_eq!(shell.run("NAME=changed; echo $NAME"), "changed");
    vm.stop().unwrap();
    for _ in 0..2 {
        let vm = Vm::restored(&options, &state, &Interrupt::new()).unwrap();
        let (seconds, mib) =
            (vm.facts().boot_ns as f64 / 1e9, state.metadata().unwrap().len() >> 20);
        println!("restored in {seconds:.2} s from {mib} MiB");
        let mut shell = GuestShell::new(&vm);
        assert_eq!(shell.run("echo $NAME; NAME=changed"), "kept");
        assert_eq!(shell.run("head -c 512 /dev/flashfit/0 | wc -c"), "512");
        vm.stop().unwrap();
    }
    options.memory_mib += 64;
    let error = Vm::restored(&options, &state, &Interrupt::new()).unwrap_err();
    assert!(matches!(error, VmError::Ended { .. }), "{error}");
    let error = Vm::restored(&options, &guest.folder().join("none"), &Interrupt::new());
    assert!(matches!(error.unwrap_err(), VmError::File { .. }));
}

#[test]
fn failed_starts_are_explained() {
    let Some(kernel) = kernel_or_skip() else { return };
    let guest = Guest::new();
    let mut gone = options(kernel.clone(), &guest);
    gone.disks = vec![Disk::nbd(guest.folder().join("nobody.sock"), DiskInterface::Virtio)];
    let error = Vm::start(&gone, &Interrupt::new()).unwrap_err();
    assert!(matches!(error, VmError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("nobody.sock"), "{error}");

    let mut hasty = options(kernel.clone(), &guest);
    hasty.ready_wait = Duration::from_millis(200);
    let error = Vm::start(&hasty, &Interrupt::new()).unwrap_err();
    assert!(matches!(error, VmError::NotReady { .. }), "{error}");
    assert!(error.hint().is_some());

    let interrupt = Interrupt::new();
    interrupt.raise();
    let error = Vm::start(&options(kernel, &guest), &interrupt).unwrap_err();
    assert_eq!(error.class(), flashfit_user_error::ExitClass::Interrupted, "{error}");
}

#[test]
#[ignore = "full: boots virtual machines"]
fn a_long_message_arrives_complete() {
    let Some(kernel) = kernel_or_skip() else { return };
    let guest = Guest::new();
    let vm = Vm::start(&options(kernel, &guest), &Interrupt::new()).unwrap();
    let mut shell = GuestShell::new(&vm);
    let text = "x".repeat(200_000);
    assert_eq!(shell.run(&format!("LINE={text}; echo ${{#LINE}}")), "200000");
    assert_eq!(shell.run("echo $LINE").len(), 200_000);
    vm.stop().unwrap();
}

#[test]
#[ignore = "full: boots virtual machines"]
fn ports_of_concurrent_machines_are_reachable() {
    let Some(kernel) = kernel_or_skip() else { return };
    let guest = Guest::new();
    let start = |number: u16| {
        let mut options = options(kernel.clone(), &guest);
        // Unlikely to be taken by another process before QEMU binds it.
        let here = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        options.ports = vec![Port { here, guest: 7 }];
        let vm = Vm::start(&options, &Interrupt::new()).unwrap();
        let mut shell = GuestShell::new(&vm);
        assert_eq!(shell.run("nc -ll -p 7 -e cat & echo served"), "served");
        assert_eq!(answer_at(here, &format!("hello {number}")), format!("hello {number}"));
        // This address would lead to the host's loopback address.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let out = listener.local_addr().unwrap().port();
        let reach = format!("nc -w 2 10.0.2.2 {out} </dev/null && echo reached || echo refused");
        assert_eq!(shell.run(&reach), "refused");
        let error = Vm::start(&options, &Interrupt::new()).unwrap_err();
        assert!(error.to_string().contains("host forwarding rule"), "{error}");
        vm.stop().unwrap();
        assert!(TcpStream::connect(("127.0.0.1", here)).is_err());
    };
    std::thread::scope(|scope| {
        scope.spawn(|| start(1));
        scope.spawn(|| start(2));
    });
}

/// Sends a line and returns the answer; retries while the server is not listening yet.
fn answer_at(port: u16, line: &str) -> String {
    let asked = Instant::now();
    loop {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut answer = String::new();
        let told = writeln!(stream, "{line}");
        if told.and_then(|()| BufReader::new(stream).read_line(&mut answer)).is_ok_and(|n| n > 0) {
            return answer.trim_end().to_owned();
        }
        assert!(asked.elapsed() < Duration::from_secs(30), "nobody answers");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn image(guest: &Guest, mib: u64) -> PathBuf {
    let path = guest.folder().join(format!("{mib}.img"));
    std::fs::File::create(&path).unwrap().set_len(mib << 20).unwrap();
    path
}
