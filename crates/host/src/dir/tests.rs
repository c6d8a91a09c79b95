//! Links, FIFOs and folders of other users in a data folder.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use flashfit_test_support::{TestNeed, skip};

use super::*;
use flashfit_user_error::{ExitClass, UserError};

const CAP: u64 = 1 << 20;

fn obstacle<T: std::fmt::Debug>(result: Result<T, DirError>) -> DirObstacle {
    match result.expect_err("it is refused") {
        DirError::Invalid { obstacle, .. } => obstacle,
        other => panic!("{other}"),
    }
}

/// A data folder, and outside of it another user's file that must not change.
fn folder() -> (tempfile::TempDir, DirHandle, PathBuf) {
    let root = tempfile::tempdir().expect("a folder");
    let theirs = root.path().join("theirs");
    std::fs::write(&theirs, "theirs").expect("a file");
    let handle = DirHandle::create(&root.path().join("a/b"), 0o700).expect("a new folder");
    (root, handle, theirs)
}

#[test]
fn a_file_is_written_and_read() {
    let (_root, dir, _) = folder();
    assert_eq!(dir.read("f", CAP).expect("a readable folder"), None);
    dir.write("f", b"one", 0o600).expect("enough space");
    dir.write("f", b"two", 0o600).expect("enough space");
    assert_eq!(dir.read("f", CAP).expect("it exists").as_deref(), Some(&b"two"[..]));
    assert_eq!(dir.names().expect("readable"), ["f"], "no draft is left");
    let mode = std::fs::metadata(dir.path().join("f")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(obstacle(dir.read("f", 2)), DirObstacle::Larger(2));
    dir.remove("f").expect("it is a file");
    dir.remove("f").expect("a missing file is not an error");
    assert!(!dir.has("f"));
}

#[test]
fn links_to_files_are_not_followed() {
    let (_root, dir, theirs) = folder();
    for name in ["f", "f.part", "log", "lock"] {
        symlink(&theirs, dir.path().join(name)).expect("a link");
    }
    assert_eq!(obstacle(dir.read("f", CAP)), DirObstacle::NotAFile);
    assert_eq!(obstacle(dir.open_log("log")), DirObstacle::NotAFile);
    assert_eq!(obstacle(dir.lock("lock")), DirObstacle::NotAFile);
    // The link is replaced, not its target.
    dir.write("f", b"ours", 0o600).expect("enough space");
    assert_eq!(dir.read("f", CAP).expect("a file now").as_deref(), Some(&b"ours"[..]));
    assert_eq!(std::fs::read(&theirs).expect("it exists"), b"theirs");
    // A dangling link exists, and its target is not created.
    let nowhere = theirs.with_file_name("nowhere");
    symlink(&nowhere, dir.path().join("dangling")).expect("a link");
    assert!(dir.has("dangling"));
    assert_eq!(obstacle(dir.open_log("dangling")), DirObstacle::NotAFile);
    assert!(!nowhere.exists());
}

#[test]
fn only_of_a_link_another_name_is_proposed() {
    let (root, dir, _) = folder();
    let (link, file) = (root.path().join("link"), root.path().join("file"));
    symlink(dir.path(), &link).expect("a link");
    std::fs::write(&file, "").expect("a file");
    let hinted = |path: &Path| DirHandle::open(path).unwrap_err().hint().is_some();
    assert!(hinted(&link) && hinted(&link.join("")) && !hinted(&file));
}

#[test]
fn links_to_folders_are_not_followed() {
    let (root, dir, _) = folder();
    let link = root.path().join("link");
    symlink(dir.path(), &link).expect("a link");
    assert_eq!(obstacle(DirHandle::open(&link)), DirObstacle::NotAFolder);
    assert_eq!(obstacle(DirHandle::open(&link.join(""))), DirObstacle::NotAFolder, "with a slash");
    assert_eq!(obstacle(DirHandle::create(&link, 0o700)), DirObstacle::NotAFolder);
    symlink(root.path(), dir.path().join("sub")).expect("a link");
    assert_eq!(obstacle(dir.open_dir("sub")), DirObstacle::NotAFolder);
    assert_eq!(obstacle(dir.create_dir("sub")), DirObstacle::NotAFolder);
}

#[test]
fn pipes_and_folders_are_rejected_as_files_without_blocking() {
    let (_root, dir, _) = folder();
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, mode, 0).expect("a pipe");
    dir.create_dir("sub").expect("a folder");
    for name in ["pipe", "sub"] {
        assert_eq!(obstacle(dir.read(name, CAP)), DirObstacle::NotAFile, "{name}");
        assert_eq!(obstacle(dir.open_log(name)), DirObstacle::NotAFile, "{name}");
        assert_eq!(obstacle(dir.lock(name)), DirObstacle::NotAFile, "{name}");
    }
}

#[test]
fn names_do_not_lead_out() {
    let (_root, dir, _) = folder();
    for name in ["", ".", "..", "../theirs", "a/b", "/etc/hosts"] {
        assert_eq!(obstacle(dir.read(name, CAP)), DirObstacle::NotAName, "{name}");
        assert_eq!(obstacle(dir.write(name, b"x", 0o600)), DirObstacle::NotAName, "{name}");
        assert_eq!(obstacle(dir.remove(name)), DirObstacle::NotAName, "{name}");
    }
}

#[test]
fn a_folder_of_another_user_is_refused() {
    let (_root, dir, _) = folder();
    let other = 12_345;
    if std::os::unix::fs::chown(dir.path(), Some(other), None).is_err() {
        assert!(skip(Some(TestNeed::Root.missing("only root can give a folder away"))));
        return;
    }
    let error = DirHandle::open(dir.path()).expect_err("it belongs to another user");
    assert_eq!(error.class(), ExitClass::Refused);
    assert!(error.hint().expect("a hint").contains("cp -r"), "{error}");
    assert_eq!(obstacle(DirHandle::open(dir.path())), DirObstacle::Owner(other));
}

#[test]
fn a_log_is_appended_to_truncated_and_has_one_name() {
    let (_root, dir, _) = folder();
    let mut log = dir.open_log("log").expect("a new file");
    log.append(b"one\n").expect("enough space");
    drop(log);
    let mut log = dir.open_log("log").expect("it exists");
    log.append(b"two\n").expect("enough space");
    log.truncate(4).expect("it is longer");
    log.append(b"three\n").expect("enough space");
    let mut text = String::new();
    log.reader().expect("readable").read_to_string(&mut text).expect("text");
    assert_eq!(text, "one\nthree\n");
    let path = dir.path().join("log");
    std::fs::hard_link(&path, dir.path().join("other")).expect("another name");
    assert_eq!(std::fs::metadata(&path).expect("a file").nlink(), 2);
    assert_eq!(obstacle(dir.open_log("log")), DirObstacle::SeveralNames);
}

#[test]
fn only_one_opener_gets_the_lock() {
    let (_root, dir, _) = folder();
    let first = dir.lock("lock").expect("a file").expect("free");
    assert!(dir.lock("lock").expect("a file").is_none());
    drop(first);
    assert!(dir.lock("lock").expect("a file").is_some());
}

#[test]
fn a_folder_that_everybody_may_write_to_is_refused() {
    let (_root, dir, _) = folder();
    for mode in [0o777, 0o1777] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(dir.path(), permissions).expect("it is ours");
        let error = DirHandle::open(dir.path()).expect_err("it is refused");
        assert_eq!(error.class(), ExitClass::Refused);
        assert!(error.hint().is_some_and(|hint| hint.contains("chmod o-w")), "{error}");
        assert_eq!(obstacle(Err::<(), _>(error)), DirObstacle::OthersMayWrite);
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o775)).expect("ours");
    DirHandle::open(dir.path()).expect("its group is trusted");
}
