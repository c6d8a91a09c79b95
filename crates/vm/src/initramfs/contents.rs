//! Collects the contents of the guest's initramfs.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use flashfit_host::program::quote;
use flashfit_host::{Program, ProgramError, Runner, program};

use crate::VmError;
use crate::kernel::Kernel;
use crate::modules::{ModulePresence, Modules};
use crate::options::VmOptions;
use crate::programs::{self, unused_libraries};
use crate::tree::Tree;

const INIT: &str = include_str!("init.sh");
/// The guest's PATH, in addition to the directories of the copied programs.
const DEFAULT_PATH: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Last in PATH, so that copied programs of the host take precedence over busybox.
const APPLETS: &str = "/busybox";
/// Needed for the disks and the channel.
const ALWAYS: [&str; 2] = ["virtio_pci", "virtio_console"];

/// Needed for ports.
const NETWORK: &str = "virtio_net";

/// A guest's files, and what was requested but not found.
pub(super) struct GuestFiles {
    pub tree: Tree,
    pub lacking_programs: Vec<String>,
    pub lacking_modules: Vec<String>,
}

/// The cache key: everything that determines the archive except the contents of files.
pub(super) fn request(options: &VmOptions) -> String {
    let mut text = String::new();
    let found = |name: &String| program::find(name);
    let programs: Vec<_> = options.programs.iter().map(|name| (name, found(name))).collect();
    let _ = writeln!(text, "{} {INIT}", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "{:?} {:?}", options.agent, options.agent_args);
    let unused: Vec<_> = options.programs.iter().map(|name| unused_libraries(name)).collect();
    let _ = writeln!(text, "{programs:?} {unused:?} {:?}", program::find("busybox"));
    let _ = writeln!(text, "{:?} {:?}", options.kernel, options.modules);
    let _ = writeln!(text, "{:?} {:?}", options.files, boot_modules(options));
    text
}

/// The modules to load at boot, in this order.
pub(crate) fn boot_modules(options: &VmOptions) -> Vec<&'static str> {
    let mut modules = ALWAYS.to_vec();
    for disk in &options.disks {
        for module in disk.device.modules() {
            if !modules.contains(module) {
                modules.push(module);
            }
        }
    }
    if !options.ports.is_empty() {
        modules.push(NETWORK);
    }
    modules
}

pub(super) fn gather(options: &VmOptions, runner: &dyn Runner) -> Result<GuestFiles, VmError> {
    let mut tree = Tree::default();
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let path = Path::new("/").join(name);
        if let Ok(target) = std::fs::read_link(&path) {
            tree.folder(Path::new("/").join(&target));
            tree.link(path, target);
        }
    }
    for path in ["/dev", "/proc", "/sys", "/tmp", "/run", "/mnt", "/root", "/var/tmp", "/etc"] {
        tree.folder(path);
    }
    tree.character("/dev/console", 0o600, (5, 1));
    tree.character("/dev/null", 0o666, (1, 3));
    let mut folders = BTreeSet::new();
    let lacking_programs = bring_programs(&mut tree, options, &mut folders, runner)?;
    bring_agent(&mut tree, options, runner)?;
    let lacking_modules = bring_modules(
        &mut tree,
        &options.kernel,
        &boot_modules(options),
        &options.modules,
        runner,
    )?;
    for (host, guest) in &options.files {
        tree.host_all(host, guest).map_err(VmError::file("copy", host))?;
    }
    bring_shell(&mut tree, runner)?;
    settings(&mut tree, &folders);
    tree.bytes("/init", 0o755, INIT);
    Ok(GuestFiles { tree, lacking_programs, lacking_modules })
}

fn bring_programs(
    tree: &mut Tree,
    options: &VmOptions,
    folders: &mut BTreeSet<PathBuf>,
    runner: &dyn Runner,
) -> Result<Vec<String>, VmError> {
    let mut lacking = Vec::new();
    for name in &options.programs {
        match programs::bring(tree, name, runner).map_err(VmError::file("copy", name))? {
            Some(path) => folders.extend(path.parent().map(Path::to_owned)),
            None => lacking.push(name.clone()),
        }
    }
    Ok(lacking)
}

fn bring_agent(tree: &mut Tree, options: &VmOptions, runner: &dyn Runner) -> Result<(), VmError> {
    let agent = &options.agent;
    let error = VmError::file("copy", agent);
    tree.host_file(agent, "/bin/flashfit").map_err(&error)?;
    let file = agent.canonicalize().map_err(&error)?;
    programs::bring_needs(tree, &file, runner).map_err(&error)?;
    let args: Vec<String> = options.agent_args.iter().map(|arg| quote(arg)).collect();
    let run = format!("#!/bin/busybox sh\nexec /bin/flashfit {}\n", args.join(" "));
    tree.bytes("/etc/flashfit-vm/run", 0o755, run);
    Ok(())
}

fn bring_modules(
    tree: &mut Tree,
    kernel: &Kernel,
    boot: &[&str],
    further: &[String],
    runner: &dyn Runner,
) -> Result<Vec<String>, VmError> {
    let folder = &kernel.modules;
    let modules = Modules::read(folder).map_err(VmError::file("read", folder))?;
    let is_lacking = |name: &str| modules.presence(name) == ModulePresence::Lacking;
    if let Some(module) = boot.iter().find(|module| is_lacking(module)) {
        let module = (*module).to_owned();
        return Err(VmError::Module { release: kernel.release.clone(), module });
    }
    let wanted: Vec<&str> =
        boot.iter().copied().chain(further.iter().map(String::as_str)).collect();
    let chosen = modules.with_dependencies(&wanted);
    let target = Path::new("/lib/modules").join(&kernel.release);
    for file in chosen.files() {
        let host = chosen.folder().join(file);
        let error = VmError::file("copy", &host);
        let ending = file.extension().and_then(|ending| ending.to_str());
        match ending.and_then(decompressor) {
            None => tree.host_file(&host, target.join(file)).map_err(&error)?,
            Some(program) => {
                tree.made_from(&host).map_err(&error)?;
                let bytes = decompress(program, &host, runner).map_err(&error)?;
                tree.bytes(target.join(file.with_extension("")), 0o644, bytes);
            }
        }
    }
    if let Some(index) = modules.index_file() {
        tree.made_from(&index).map_err(VmError::file("read", &index))?;
    }
    for (name, text) in chosen.index() {
        tree.bytes(target.join(name), 0o644, text);
    }
    let nodes = chosen.nodes().into_iter();
    let nodes = nodes.map(|(name, major, minor)| format!("{name} {major} {minor}\n"));
    tree.bytes("/etc/flashfit-vm/nodes", 0o644, nodes.collect::<String>());
    let lacking = further.iter().filter(|name| is_lacking(name));
    Ok(lacking.cloned().collect())
}

/// The decompression program for a file name extension.
fn decompressor(ending: &str) -> Option<&'static str> {
    match ending {
        "xz" => Some("xz"),
        "zst" => Some("zstd"),
        "gz" => Some("gzip"),
        _ => None,
    }
}

/// Uses a temporary file, because the output of programs is read as text.
fn decompress(program: &str, file: &Path, runner: &dyn Runner) -> std::io::Result<Vec<u8>> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let work = std::env::temp_dir().join(format!("flashfit-{}-{name}", std::process::id()));
    let script = "\"$1\" -dc -- \"$2\" > \"$3\"";
    let run = Program::new("sh").args(["-c", script, "sh", program]).args([file, &work]);
    let bytes = runner.run_checked(&run).map_err(std::io::Error::other);
    let bytes = bytes.and_then(|_| std::fs::read(&work));
    let _ = std::fs::remove_file(&work);
    bytes
}

/// Adds busybox, with a link for each of its applets in a directory that is last in PATH.
fn bring_shell(tree: &mut Tree, runner: &dyn Runner) -> Result<(), VmError> {
    let missing = || ProgramError::Missing { name: "busybox".to_owned() };
    let busybox = program::find("busybox").ok_or_else(missing)?;
    let error = VmError::file("copy", &busybox);
    tree.host_file(&busybox, "/bin/busybox").map_err(&error)?;
    let file = busybox.canonicalize().map_err(&error)?;
    programs::bring_needs(tree, &file, runner).map_err(&error)?;
    let listed = runner.run_checked(&Program::new("busybox").arg("--list"))?;
    for applet in listed.stdout.split_whitespace() {
        tree.link(Path::new(APPLETS).join(applet), "/bin/busybox");
    }
    for name in ["/bin/sh", "/usr/bin/env", "/sbin/modprobe"] {
        if !tree.has(name) {
            tree.link(name, "/bin/busybox");
        }
    }
    Ok(())
}

/// The few files of `/etc` that programs expect.
fn settings(tree: &mut Tree, folders: &BTreeSet<PathBuf>) {
    let usual = DEFAULT_PATH.map(PathBuf::from);
    let further = folders.iter().filter(|folder| !usual.contains(folder));
    let path: Vec<String> = further
        .chain(&usual)
        .map(|folder| folder.display().to_string())
        .chain([APPLETS.to_owned()])
        .collect();
    tree.bytes("/etc/flashfit-vm/path", 0o644, path.join(":") + "\n");
    tree.bytes("/etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\n");
    tree.bytes("/etc/group", 0o644, "root:x:0:\n");
    tree.bytes("/etc/hosts", 0o644, "127.0.0.1 localhost flashfit-vm\n");
    tree.bytes("/etc/fstab", 0o644, "");
    tree.link("/etc/mtab", "/proc/self/mounts");
    // The loader needs it for libraries in nonstandard directories of the host.
    let _ = tree.as_on_host(Path::new("/etc/ld.so.cache"));
}

#[cfg(test)]
mod tests {
    use flashfit_host::SystemRunner;

    use super::*;

    /// A change of the index or of any module makes another archive.
    #[test]
    fn decompressed_modules_are_inputs_too() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("kernel");
        std::fs::create_dir(&inside).unwrap();
        let index = folder.path().join("modules.dep");
        std::fs::write(&index, "kernel/one.ko:\nkernel/two.ko.gz: kernel/one.ko\n").unwrap();
        std::fs::write(inside.join("one.ko"), "one").unwrap();
        std::fs::write(inside.join("two.ko"), "two").unwrap();
        let gzip = Program::new("gzip").arg(inside.join("two.ko"));
        let runner = SystemRunner::default();
        runner.run_checked(&gzip).unwrap();
        let kernel = Kernel {
            image: "/boot/vmlinuz".into(),
            modules: folder.path().to_owned(),
            release: "6".to_owned(),
        };
        let mut tree = Tree::default();
        let wanted = ["two", "three"].map(str::to_owned);
        let lacking = bring_modules(&mut tree, &kernel, &["one"], &wanted, &runner).unwrap();
        assert_eq!(lacking, ["three"]);
        assert!(tree.has("/lib/modules/6/kernel/two.ko"));
        let changed = || tree.inputs().filter(|input| !input.is_unchanged()).count();
        let paths = [inside.join("one.ko"), inside.join("two.ko.gz"), index];
        for (before, path) in paths.iter().enumerate() {
            assert_eq!(changed(), before);
            std::fs::write(path, "another").unwrap();
        }
        assert_eq!(changed(), paths.len());
    }
}
