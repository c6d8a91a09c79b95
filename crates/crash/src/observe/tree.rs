//! Reads everything on a mounted file system.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::blocks::SECTOR_BYTES;
use crate::content::{SectorContent, parse};
use crate::model::NodeKind;

/// What is not the workload's and not judged: where e2fsck and fsck.exfat put what lost its name,
/// and a file that mkfs.nilfs2 makes.
const NOT_JUDGED: [&str; 3] = ["lost+found", "LOST+FOUND", ".nilfs"];
/// A larger file is not one of the workload's.
const MOST_BYTES: u64 = 64 << 20;

/// A file or directory as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedNode {
    pub kind: NodeKind,
    pub inode: u64,
    pub size_bytes: u64,
    pub content: Vec<SectorContent>,
    /// Why it could not be read.
    pub error: Option<String>,
}

/// Everything that was found, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedTree {
    pub nodes: BTreeMap<String, ObservedNode>,
}

impl ObservedTree {
    /// Reads what is mounted at `root`.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        let mut dirs = vec![String::new()];
        while let Some(dir) = dirs.pop() {
            let mut names: Vec<String> = fs::read_dir(root.join(&dir))?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect::<io::Result<_>>()?;
            // The order of reading is then the same for the same names.
            names.sort_unstable();
            for name in names.into_iter().filter(|name| is_judged(name)) {
                let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
                let node = read_node(&root.join(&path));
                if node.kind == NodeKind::Dir {
                    dirs.push(path.clone());
                }
                tree.nodes.insert(path, node);
            }
        }
        Ok(tree)
    }
}

fn is_judged(name: &str) -> bool {
    !NOT_JUDGED.contains(&name) && !is_of_repair(name)
}

/// Whether a repair gave this name to what had lost its own: fsck.fat `FSCK0000.REC` or
/// `FSCK0000.000`, fsck.exfat `FILE0000000.CHK`.
fn is_of_repair(name: &str) -> bool {
    let Some((stem, extension)) = name.split_once('.') else { return false };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match (stem.strip_prefix("FSCK"), stem.strip_prefix("FILE")) {
        (Some(number), _) => is_number(number) && (extension == "REC" || is_number(extension)),
        (_, Some(number)) => is_number(number) && extension == "CHK",
        (None, None) => false,
    }
}

fn read_node(path: &Path) -> ObservedNode {
    let mut node = ObservedNode {
        kind: NodeKind::File,
        inode: 0,
        size_bytes: 0,
        content: Vec::new(),
        error: None,
    };
    if let Err(error) = fill_node(path, &mut node) {
        node.error = Some(error.to_string());
    }
    node
}

fn fill_node(path: &Path, node: &mut ObservedNode) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    node.inode = metadata.ino();
    node.size_bytes = metadata.len();
    if metadata.is_dir() {
        node.kind = NodeKind::Dir;
    } else if metadata.is_file() && metadata.len() <= MOST_BYTES {
        node.content = fs::read(path)?.chunks(SECTOR_BYTES).map(parse).collect();
    } else {
        return Err(io::Error::other("it is not a file of the workload"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_repair_named_is_not_judged() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["FSCK0000.REC", "FSCK0001.000", "FILE0000001.CHK", "file-1", "FSCK.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        for name in ["lost+found", "LOST+FOUND", "a"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("f"), "").unwrap();
        }
        let tree = ObservedTree::read(folder.path()).unwrap();
        let names: Vec<&str> = tree.nodes.keys().map(String::as_str).collect();
        assert_eq!(names, ["FSCK.txt", "a", "a/f", "file-1"]);
    }
}
