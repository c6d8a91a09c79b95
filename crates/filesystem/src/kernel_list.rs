//! The file systems that this kernel has built in or loaded (`/proc/filesystems`,
//! proc_filesystems(5)). One that is not listed may still be loaded as a module when it is first
//! mounted.

/// Whether the kernel lists the file system that mount(8) calls `kind`.
pub fn has(kind: &str) -> bool {
    lists(&std::fs::read_to_string("/proc/filesystems").unwrap_or_default(), kind)
}

pub(crate) fn lists(proc_filesystems: &str, kind: &str) -> bool {
    proc_filesystems.lines().any(|line| line.split_whitespace().next_back() == Some(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_whole_word() {
        let text = "nodev\tsysfs\n\text4\n";
        assert!(lists(text, "ext4") && lists(text, "sysfs"));
        assert!(!lists(text, "ext") && !lists(text, "nodev"));
    }
}
