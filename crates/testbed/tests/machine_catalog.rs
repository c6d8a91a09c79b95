//! Every file system of the catalog in a virtual machine, whose kernel has them all: made,
//! mounted, written to, checked, mounted again and read back; squashfs under its writable layer.
//!
//! Skipped, with the reason, where there is no QEMU, no busybox or no kernel; of a file system
//! whose programs are not here that is said too.

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
use guest::{Guest, Talk, kernel_or_skip, options};

/// xfs is not made on less than 300 MiB.
const DISK_BYTES: u64 = 512 << 20;
const NODE: &str = "/dev/vda";
const MOUNT: &str = "/mnt/medium";
const FILES: &str = "/tmp/files";

/// Does it in the guest; what it printed last where it fails.
#[track_caller]
fn done(talk: &mut Talk, what: &str, command: &str) {
    let said = talk.ask(&format!(
        "if ( {command} ) >/tmp/said 2>&1 </dev/null; then echo done; \
         else echo $(tail -n 4 /tmp/said); fi"
    ));
    assert_eq!(said, "done", "{what}: {command}");
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
fn every_file_system_goes_through_its_life() {
    let Some(kernel) = kernel_or_skip() else { return };
    let catalogue = FileSystemCatalog::load(None).unwrap();
    let (here, missing): (Vec<&FileSystem>, Vec<&FileSystem>) = catalogue
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
    // mount(8) has a file system's own program do it where there is one.
    options.programs.extend(here.iter().map(|found| format!("mount.{}", found.kind)));
    options.modules = here.iter().map(|found| module(&found.kind).to_owned()).collect();
    options.modules.extend(["loop", "overlay"].map(str::to_owned));
    options.disks = vec![Disk::file(image, false, DiskInterface::Virtio)];
    options.memory_mib = 512;
    let vm = Vm::start(&options, &Interrupt::new()).unwrap();
    assert!(vm.facts().lacking_modules.is_empty(), "{:?}", vm.facts());
    let mut talk = Talk::new(&vm);
    // A busybox shell takes its own before those in the path.
    for name in ["mount", "umount"] {
        let path = program::find(name).unwrap();
        assert_eq!(talk.ask(&format!("{name}() {{ {} \"$@\"; }}; echo", path.display())), "");
    }
    done(
        &mut talk,
        "files",
        &format!(
            "mkdir -p {MOUNT} {FILES}/folder && seq 1 300000 > {FILES}/large && \
             for i in $(seq 1 40); do echo $i > {FILES}/folder/$i; done"
        ),
    );
    for filesystem in &here {
        if filesystem.layered.is_none() {
            life(&mut talk, filesystem);
        }
    }
    if let Some(squashfs) = here.iter().find(|found| found.layered.is_some()) {
        layers(&mut talk, squashfs, catalogue.filesystem("ext4").unwrap());
    }
    vm.stop().unwrap();
}

/// ext4's module has the older two.
fn module(kind: &str) -> &str {
    if ["ext2", "ext3"].contains(&kind) { "ext4" } else { kind }
}

fn make_and_mount(talk: &mut Talk, filesystem: &FileSystem) -> Recipe {
    let (name, recipe) = (&filesystem.name, recipe(filesystem));
    let node = Path::new(NODE);
    done(talk, name, &lines(&[&[recipe.mkfs(node)], &recipe.tune(node)[..]].concat()));
    done(talk, name, &recipe.mount(node, Path::new(MOUNT)).command_line());
    recipe
}

fn life(talk: &mut Talk, filesystem: &FileSystem) {
    let name = &filesystem.name;
    let recipe = make_and_mount(talk, filesystem);
    done(talk, name, &format!("cp -r {FILES} {MOUNT}/copy && sync && umount {MOUNT}"));
    done(talk, name, &recipe.fsck(Path::new(NODE)).command_line());
    done(talk, name, &recipe.mount(Path::new(NODE), Path::new(MOUNT)).command_line());
    done(talk, name, "echo 3 > /proc/sys/vm/drop_caches");
    done(talk, name, &format!("diff -r {FILES} {MOUNT}/copy"));
    done(talk, name, &format!("umount {MOUNT}"));
}

fn layers(talk: &mut Talk, squashfs: &FileSystem, host: &FileSystem) {
    let name = &squashfs.name;
    make_and_mount(talk, host);
    let (recipe, point) = (recipe(squashfs), Path::new("/mnt/whole"));
    let layers = Layers::new(squashfs, Path::new(MOUNT)).unwrap();
    done(talk, name, &lines(&layers.commands(&recipe, Path::new(FILES), point)));
    done(talk, name, &format!("diff -r {FILES} {}", point.display()));
    done(
        talk,
        name,
        &format!("echo new > {}/new && rm {}/large", point.display(), point.display()),
    );
    let unmount = format!("umount {} {}", point.display(), layers.lower().display());
    done(talk, name, &unmount);
    done(talk, name, &recipe.fsck(layers.image()).command_line());
    done(talk, name, &lines(&layers.mounts(&recipe, point).map(|(_, program)| program)));
    done(talk, name, &format!("diff -r {FILES}/folder {}/folder", point.display()));
    done(
        talk,
        name,
        &format!("[ $(cat {}/new) = new ] && [ ! -e {}/large ]", point.display(), point.display()),
    );
    done(talk, name, &format!("{unmount} {MOUNT}"));
}
