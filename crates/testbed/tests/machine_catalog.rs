//! Tests every file system of the catalog in a virtual machine: mkfs, mount, write, fsck, mount
//! again and read; squashfs with its writable layer.
//!
//! Skipped without QEMU, busybox or a kernel; in part for file systems without installed programs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../vm/tests/support/guest.rs"]
mod guest;

use std::path::Path;

use flashfit_filesystem::{
    Conditions, FileSystem, FileSystemCatalog, Layers, Recipe, Scheduler, Setup,
};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::{Program, program};
use flashfit_test_support::{TestNeed, skip_part};
use flashfit_vm::{Disk, DiskInterface, Vm};
use guest::{Guest, GuestShell, kernel_or_skip, options};

/// mkfs.xfs needs at least 300 MiB.
const DISK_BYTES: u64 = 512 << 20;
const NODE: &str = "/dev/vda";
const MOUNT: &str = "/mnt/device";
const FILES: &str = "/tmp/files";

/// Runs a command in the guest; panics with its last output if it fails.
#[track_caller]
fn run(guest_shell: &mut GuestShell, what: &str, command: &str) {
    let output = guest_shell.run(&format!(
        "if ( {command} ) >/tmp/output 2>&1 </dev/null; then echo done; \
         else echo $(tail -n 4 /tmp/output); fi"
    ));
    assert_eq!(output, "done", "{what}: {command}");
}

fn lines(programs: &[Program]) -> String {
    programs.iter().map(Program::command_line).collect::<Vec<_>>().join(" && ")
}

fn recipe(filesystem: &FileSystem) -> Recipe {
    let conditions = Conditions { discard: true, volatile_cache: true, ..Conditions::default() };
    let setup = Setup::new::<&str>(filesystem, [], Scheduler::new("none"), &conditions).unwrap();
    Recipe::for_trial(filesystem, &setup, &conditions).unwrap()
}

fn programs(filesystem: &FileSystem) -> [String; 2] {
    [filesystem.mkfs.tool.program.clone(), filesystem.fsck.tool.program.clone()]
}

#[test]
#[ignore = "full: a minute in a virtual machine"]
fn every_file_system_can_be_made_mounted_and_checked() {
    let Some(kernel) = kernel_or_skip() else { return };
    let catalog = FileSystemCatalog::load(None).unwrap();
    let (here, missing): (Vec<&FileSystem>, Vec<&FileSystem>) = catalog
        .filesystems()
        .iter()
        .partition(|found| programs(found).iter().all(|name| program::find(name).is_some()));
    for filesystem in &missing {
        let reason = format!("{}, whose programs are not installed", filesystem.name);
        assert!(skip_part(Some(TestNeed::Tool.missing(reason))));
    }
    let guest = Guest::new();
    let image = guest.folder().join("disk");
    std::fs::File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
    let mut options = options(kernel, &guest);
    options.programs = ["mount", "umount"].map(str::to_owned).to_vec();
    options.programs.extend(here.iter().flat_map(|found| programs(found)));
    // mount(8) calls a file system's own helper if there is one.
    options.programs.extend(here.iter().map(|found| format!("mount.{}", found.kind)));
    options.modules = here.iter().map(|found| module(&found.kind).to_owned()).collect();
    options.modules.extend(["loop", "overlay"].map(str::to_owned));
    options.disks = vec![Disk::file(image, false, DiskInterface::Virtio)];
    options.memory_mib = 512;
    let vm = Vm::start(&options, &Interrupt::new()).unwrap();
    assert!(vm.facts().lacking_modules.is_empty(), "{:?}", vm.facts());
    let mut guest_shell = GuestShell::new(&vm);
    // A busybox shell prefers its applets to programs in the path.
    for name in ["mount", "umount"] {
        let path = program::find(name).unwrap();
        assert_eq!(
            guest_shell.run(&format!("{name}() {{ {} \"$@\"; }}; echo", path.display())),
            ""
        );
    }
    run(
        &mut guest_shell,
        "files",
        &format!(
            "mkdir -p {MOUNT} {FILES}/folder && seq 1 300000 > {FILES}/large && \
             for i in $(seq 1 40); do echo $i > {FILES}/folder/$i; done"
        ),
    );
    for filesystem in &here {
        if filesystem.layered.is_none() {
            life(&mut guest_shell, filesystem);
        }
    }
    if let Some(squashfs) = here.iter().find(|found| found.layered.is_some()) {
        layers(&mut guest_shell, squashfs, catalog.filesystem("ext4").unwrap());
    }
    vm.stop().unwrap();
}

/// Debian's kernels implement ext2 and ext3 with ext4.
fn module(kind: &str) -> &str {
    if ["ext2", "ext3"].contains(&kind) { "ext4" } else { kind }
}

fn make_and_mount(guest_shell: &mut GuestShell, filesystem: &FileSystem) -> Recipe {
    let (name, recipe) = (&filesystem.name, recipe(filesystem));
    let node = Path::new(NODE);
    run(guest_shell, name, &lines(&[&[recipe.mkfs(node)], &recipe.tune(node)[..]].concat()));
    run(guest_shell, name, &recipe.mount(node, Path::new(MOUNT)).command_line());
    recipe
}

fn life(guest_shell: &mut GuestShell, filesystem: &FileSystem) {
    let name = &filesystem.name;
    let recipe = make_and_mount(guest_shell, filesystem);
    run(guest_shell, name, &format!("cp -r {FILES} {MOUNT}/copy && sync && umount {MOUNT}"));
    run(guest_shell, name, &recipe.fsck(Path::new(NODE)).command_line());
    run(guest_shell, name, &recipe.mount(Path::new(NODE), Path::new(MOUNT)).command_line());
    run(guest_shell, name, "echo 3 > /proc/sys/vm/drop_caches");
    run(guest_shell, name, &format!("diff -r {FILES} {MOUNT}/copy"));
    run(guest_shell, name, &format!("umount {MOUNT}"));
}

fn layers(guest_shell: &mut GuestShell, squashfs: &FileSystem, host: &FileSystem) {
    let name = &squashfs.name;
    make_and_mount(guest_shell, host);
    let (recipe, point) = (recipe(squashfs), Path::new("/mnt/whole"));
    let layers = Layers::new(squashfs, Path::new(MOUNT)).unwrap();
    run(guest_shell, name, &lines(&layers.commands(&recipe, Path::new(FILES), point)));
    run(guest_shell, name, &format!("diff -r {FILES} {}", point.display()));
    run(
        guest_shell,
        name,
        &format!("echo new > {}/new && rm {}/large", point.display(), point.display()),
    );
    let unmount = format!("umount {} {}", point.display(), layers.lower().display());
    run(guest_shell, name, &unmount);
    run(guest_shell, name, &recipe.fsck(layers.image()).command_line());
    run(guest_shell, name, &lines(&layers.mounts(&recipe, point).map(|(_, program)| program)));
    run(guest_shell, name, &format!("diff -r {FILES}/folder {}/folder", point.display()));
    run(
        guest_shell,
        name,
        &format!("[ $(cat {}/new) = new ] && [ ! -e {}/large ]", point.display(), point.display()),
    );
    run(guest_shell, name, &format!("{unmount} {MOUNT}"));
}
