//! Tests in namespaces of their own, so that tests which start agents, servers or virtual machines
//! can run at the same time and leave no process behind.
//!
//! [`isolated`] runs the test again in a new process of the same test program, with its own process
//! ids, mounts, loopback network and temporary folder (`$TMPDIR`, in memory). Its first process
//! starts the test program; when that ends, the kernel kills everything else in there, detaches the
//! mounts and frees the temporary folder. Limits: loop devices, other devices and control groups
//! are still shared with the machine, and so are `/tmp` and `/run`. There is no network but
//! loopback, so what a test downloads must be there before.

use std::any::type_name;
use std::time::Duration;

use flashfit_host::{Program, Runner, SystemRunner, program as host_program};

use crate::need::{self, MissingNeed, TestNeed};
use crate::skip::{skip, with_test_name};

/// Names the test inside, for the new process.
const INSIDE: &str = "FLASHFIT_TEST_ISOLATED";
/// Beyond this a test hangs; the longest campaigns take two hours.
const LIMIT: Duration = Duration::from_secs(6 * 3600);
/// The first process in there. The shell waits for the test program and for orphans.
const FIRST_PROCESS: &str = "exec 2>&1\n\
    mount -t tmpfs -o mode=1777 tmpfs \"$TMPDIR\" || exit\n\
    (PATH=$PATH:/usr/sbin:/sbin; ip link set lo up || busybox ip link set lo up) || exit\n\
    \"$@\"; exit $?\n";

/// Runs the body of a test isolated; skips the test where that is not possible.
///
/// To be called with a closure by the test function itself: the closure's type has the test's name.
#[track_caller]
pub fn isolated<F: FnOnce()>(test: F) {
    isolated_as(name_of(&test), test);
}

/// The same for a test of this name.
#[track_caller]
pub fn isolated_as(name: &str, test: impl FnOnce()) {
    if is_isolated() || !skip(missing()) {
        isolated_if_root_as(name, test);
    }
}

/// The same for a test that does not depend on it: without root it runs in this process.
#[track_caller]
pub fn isolated_if_root<F: FnOnce()>(test: F) {
    isolated_if_root_as(name_of(&test), test);
}

/// The same for a test of this name.
#[track_caller]
pub fn isolated_if_root_as(name: &str, test: impl FnOnce()) {
    if is_isolated() {
        with_test_name(name, test);
        println!("{}", end_mark(name));
    } else if missing().is_some() {
        test();
    } else {
        run_again(name);
    }
}

/// Whether this process is the one that an isolated test runs in.
pub fn is_isolated() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// The name of the test function that a closure is in: without the crate, without what is in the
/// function.
pub fn name_of<F>(_: &F) -> &'static str {
    let path = type_name::<F>();
    let path = path.split_once("::").map_or(path, |(_, path)| path);
    path.split_once("::{{closure}}").map_or(path, |(path, _)| path)
}

/// What is printed when the test has run: its name could have matched none.
fn end_mark(name: &str) -> String {
    format!("isolated {name}: done")
}

fn missing() -> Option<MissingNeed> {
    let root = || (!need::is_root()).then(|| TestNeed::Root.missing("not running as root"));
    let unshare = || need::program("unshare");
    let ip = || {
        let found = ["ip", "busybox"].iter().any(|name| host_program::find(name).is_some());
        (!found).then(|| TestNeed::Isolation.missing("neither ip nor busybox is installed"))
    };
    root().or_else(unshare).or_else(ip)
}

#[track_caller]
fn run_again(name: &str) {
    // The names of sockets are short, so this one is too.
    let temporary = tempfile::Builder::new().prefix("ff-").tempdir().expect("a temporary folder");
    let own = std::env::current_exe().expect("the test program has a path");
    let program = Program::new("unshare")
        .args(["--pid", "--mount", "--net", "--fork", "--mount-proc", "--kill-child", "--"])
        .args(["sh", "-c", FIRST_PROCESS, "sh"])
        .arg(own.to_string_lossy())
        .args(["--exact", name, "--include-ignored", "--nocapture"])
        .env("TMPDIR", temporary.path().to_string_lossy())
        .env(INSIDE, name)
        .timeout(LIMIT);
    let outcome = SystemRunner::default().run(&program).expect("unshare runs");
    print!("{}{}", outcome.stdout, outcome.stderr);
    let is_done = outcome.stdout.lines().any(|line| line.ends_with(&end_mark(name)));
    assert!(outcome.success() && is_done, "the isolated test failed; its output is above");
}
