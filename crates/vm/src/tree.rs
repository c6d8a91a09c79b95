//! The guest's file tree in memory, before it is written as an archive.
//!
//! Paths are resolved through the links in the tree: a file added as `/bin/x` goes to `/usr/bin` if
//! `/bin` is a link to it. Files of the host keep their paths, and the links on these paths are
//! copied too.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cpio;

/// Paths with more links are taken for loops.
const MAX_LINKS: usize = 40;

/// Identifies the state of a host file in an archive, to detect changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TreeInput {
    pub path: PathBuf,
    bytes: u64,
    changed_s: i64,
    changed_ns: i64,
}

impl TreeInput {
    fn new(path: PathBuf, facts: &Metadata) -> Self {
        Self { path, bytes: facts.len(), changed_s: facts.ctime(), changed_ns: facts.ctime_nsec() }
    }

    pub(crate) fn is_unchanged(&self) -> bool {
        std::fs::metadata(&self.path)
            .is_ok_and(|facts| Self::new(self.path.clone(), &facts) == *self)
    }
}

#[derive(Debug, Clone)]
enum Node {
    Folder,
    Link(PathBuf),
    Bytes { mode: u32, bytes: Vec<u8> },
    Host { mode: u32, input: TreeInput },
    Character { mode: u32, at: (u32, u32) },
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    /// By absolute path without the first `/`; directories therefore precede their content.
    nodes: BTreeMap<PathBuf, Node>,
    /// Files of the host that are not in the tree but were used to create files in it.
    sources: Vec<TreeInput>,
}

impl Tree {
    /// Adds a directory and its parents.
    pub(crate) fn folder(&mut self, path: impl AsRef<Path>) {
        let resolved = self.resolve(path.as_ref());
        self.make_folders(&resolved);
    }

    pub(crate) fn bytes(&mut self, path: impl AsRef<Path>, mode: u32, bytes: impl Into<Vec<u8>>) {
        self.put(path.as_ref(), Node::Bytes { mode, bytes: bytes.into() });
    }

    pub(crate) fn link(&mut self, path: impl AsRef<Path>, target: impl Into<PathBuf>) {
        self.put(path.as_ref(), Node::Link(target.into()));
    }

    pub(crate) fn character(&mut self, path: impl AsRef<Path>, mode: u32, at: (u32, u32)) {
        self.put(path.as_ref(), Node::Character { mode, at });
    }

    /// Whether `path` exists; follows links.
    pub(crate) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.nodes.contains_key(&self.resolve(path.as_ref()))
    }

    /// Adds a file of the host as `target`, with its permissions.
    pub(crate) fn host_file(&mut self, host: &Path, target: impl AsRef<Path>) -> io::Result<()> {
        let path = host.canonicalize()?;
        let facts = std::fs::metadata(&path)?;
        if !facts.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mode = facts.mode() & 0o7777;
        self.put(target.as_ref(), Node::Host { mode, input: TreeInput::new(path, &facts) });
        Ok(())
    }

    /// Adds a file or directory of the host with its content as `target`; keeps links as links.
    pub(crate) fn host_all(&mut self, host: &Path, target: &Path) -> io::Result<()> {
        if !host.is_dir() {
            return self.host_file(host, target);
        }
        self.folder(target);
        for entry in std::fs::read_dir(host)? {
            let entry = entry?;
            let inside = target.join(entry.file_name());
            if entry.file_type()?.is_symlink() {
                self.link(&inside, std::fs::read_link(entry.path())?);
            } else {
                self.host_all(&entry.path(), &inside)?;
            }
        }
        Ok(())
    }

    /// Adds a file of the host under its own path, with the links on the path, and returns the
    /// resolved path.
    pub(crate) fn as_on_host(&mut self, path: &Path) -> io::Result<PathBuf> {
        let mut at = PathBuf::from("/");
        let mut rest: Vec<PathBuf> = parts(path);
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == Path::new("..") {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            if std::fs::symlink_metadata(&next)?.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::other("too many levels of symbolic links"));
                }
                let target = std::fs::read_link(&next)?;
                self.put(&next, Node::Link(target.clone()));
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                rest.extend(parts(&target));
            } else {
                at = next;
            }
        }
        self.host_file(&at, &at)?;
        Ok(at)
    }

    /// Records that something in the tree was created from a file of the host.
    pub(crate) fn made_from(&mut self, host: &Path) -> io::Result<()> {
        let path = host.canonicalize()?;
        let facts = std::fs::metadata(&path)?;
        self.sources.push(TreeInput::new(path, &facts));
        Ok(())
    }

    /// All files of the host on which the tree depends.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &TreeInput> {
        let inside = self.nodes.values().filter_map(|node| match node {
            Node::Host { input, .. } => Some(input),
            _ => None,
        });
        inside.chain(&self.sources)
    }

    pub(crate) fn archive<W: Write>(&self, to: W) -> io::Result<W> {
        let mut archive = cpio::CpioWriter::new(to);
        for (path, node) in &self.nodes {
            let name = text(path)?;
            match node {
                Node::Folder => archive.folder(name, 0o755)?,
                Node::Link(target) => archive.link(name, text(target)?)?,
                Node::Bytes { mode, bytes } => archive.bytes(name, *mode, bytes)?,
                Node::Character { mode, at } => archive.character(name, *mode, *at)?,
                Node::Host { mode, input } => {
                    let file = std::fs::File::open(&input.path).map_err(|error| {
                        io::Error::new(error.kind(), format!("{}: {error}", input.path.display()))
                    })?;
                    archive.copy(name, *mode, file, input.bytes)?;
                }
            }
        }
        archive.end()
    }

    fn put(&mut self, path: &Path, node: Node) {
        let parent = self.resolve(path.parent().unwrap_or(Path::new("/")));
        self.make_folders(&parent);
        let Some(name) = path.file_name() else { return };
        self.nodes.insert(parent.join(name), node);
    }

    fn make_folders(&mut self, place: &Path) {
        let mut at = PathBuf::new();
        for part in place.components() {
            at.push(part);
            self.nodes.entry(at.clone()).or_insert(Node::Folder);
        }
    }

    /// Resolves `path` through the tree's links, without the first `/`.
    fn resolve(&self, path: &Path) -> PathBuf {
        let mut at = PathBuf::new();
        let mut rest = parts(path);
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == Path::new("..") {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            match self.nodes.get(&next) {
                Some(Node::Link(target)) if links < MAX_LINKS => {
                    links += 1;
                    if target.is_absolute() {
                        at = PathBuf::new();
                    }
                    rest.extend(parts(target));
                }
                _ => at = next,
            }
        }
        at
    }
}

/// The components of a path, last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let named = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    });
    named.collect()
}

fn text(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{}: not UTF-8", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(tree: &Tree) -> Vec<String> {
        tree.nodes.keys().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn paths_are_resolved_through_links() {
        let mut tree = Tree::default();
        tree.link("/bin", "usr/bin");
        tree.bytes("/bin/sh", 0o755, "x");
        tree.link("/usr/lib/x/up", "../../bin");
        tree.bytes("/usr/lib/x/up/y", 0o755, "y");
        assert!(tree.has("/usr/bin/sh") && tree.has("/bin/y"));
        assert_eq!(
            paths(&tree),
            [
                "bin",
                "usr",
                "usr/bin",
                "usr/bin/sh",
                "usr/bin/y",
                "usr/lib",
                "usr/lib/x",
                "usr/lib/x/up"
            ]
        );
    }

    #[test]
    fn link_loops_end() {
        let mut tree = Tree::default();
        tree.link("/a", "b");
        tree.link("/b", "a");
        tree.bytes("/a/file", 0o644, "x");
        assert!(!tree.has("/nothing"));
    }

    #[test]
    fn a_host_file_is_copied_with_the_links_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::write(root.join("real/mke2fs"), "program").unwrap();
        std::os::unix::fs::symlink("real", root.join("sbin")).unwrap();
        std::os::unix::fs::symlink("mke2fs", root.join("real/mkfs.ext4")).unwrap();
        let mut tree = Tree::default();
        let file = tree.as_on_host(&root.join("sbin/mkfs.ext4")).unwrap();
        assert_eq!(file, root.join("real/mke2fs"));
        let names: Vec<String> = paths(&tree)
            .into_iter()
            .filter_map(|path| {
                Path::new("/").join(path).strip_prefix(&root).ok().map(|p| p.display().to_string())
            })
            .collect();
        assert_eq!(names, ["", "real", "real/mke2fs", "real/mkfs.ext4", "sbin"]);
        let input = tree.inputs().next().unwrap().clone();
        assert!(input.is_unchanged());
        std::fs::write(root.join("real/mke2fs"), "another program").unwrap();
        assert!(!input.is_unchanged());
    }

    #[test]
    fn a_link_loop_on_the_host_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("b")).unwrap();
        assert!(Tree::default().as_on_host(&folder.path().join("a")).is_err());
    }
}
