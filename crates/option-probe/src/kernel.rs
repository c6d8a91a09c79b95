//! Whether the running kernel has a file system: built in or loaded (`/proc/filesystems`), or to
//! be loaded when it is first mounted (`modules.dep`, `modules.builtin`, `modules.alias`;
//! modprobe(8)).

use std::path::Path;

use flashfit_filesystem::kernel_list;

pub fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Whether this kernel has the file system that mount(8) calls `kind`.
pub fn has(kind: &str) -> bool {
    if kernel_list::has(kind) {
        return true;
    }
    let folder = Path::new("/lib/modules").join(release());
    let read = |index: &str| std::fs::read_to_string(folder.join(index)).unwrap_or_default();
    ["modules.dep", "modules.builtin"].iter().any(|index| is_indexed(&read(index), kind))
        || is_alias(&read("modules.alias"), kind)
}

/// Whether another file system's module answers for it, as ext4's does for ext3.
fn is_alias(aliases: &str, kind: &str) -> bool {
    let wanted = format!("fs-{kind}");
    aliases.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("alias") && words.next() == Some(wanted.as_str())
    })
}

fn is_indexed(modules: &str, kind: &str) -> bool {
    modules.lines().any(|line| {
        let path = line.split(':').next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        file.split('.').next() == Some(kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_a_module_away() {
        let dep = "kernel/fs/f2fs/f2fs.ko.xz: kernel/lib/lz4/lz4_compress.ko.xz\n";
        assert!(is_indexed(dep, "f2fs"));
        assert!(!is_indexed(dep, "lz4_compress"), "only what comes first is the module");
        assert!(
            is_alias("alias fs-ext3 ext4\n", "ext3") && !is_alias("alias fs-ext3 ext4\n", "ext")
        );
    }
}
