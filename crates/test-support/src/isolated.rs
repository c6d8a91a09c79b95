//! Runs tests in their own namespaces, so that tests which start agents, servers or
//! virtual machines can run concurrently and leave no process behind.
//!
//! [`isolated`] reruns the test in a new process of the same test program, with its own PID,
//! mount and network namespaces and its own temporary folder (`$TMPDIR`, in memory).
//! When the test program ends, the kernel kills all other processes of the namespace, removes the
//! mounts and frees the temporary folder. Limits: devices, control groups, `/tmp` and `/run` are
//! shared with the host. Only the loopback network is available, so downloads must be present
//! already.

use std::any::type_name;
use std::time::Duration;

use flashfit_host::{Program, Runner, SystemRunner, program as host_program};

use crate::need::{self, MissingNeed, TestNeed};
use crate::skip::{skip, with_test_name};

/// Environment variable: name of the test to run inside the namespaces.
const ISOLATED_TEST: &str = "FLASHFIT_TEST_ISOLATED";
/// A test that runs longer hangs; the longest campaigns take two hours.
const TIMEOUT: Duration = Duration::from_secs(6 * 3600);
/// PID 1 of the namespace. The shell waits for the test program and reaps orphans. Shells that a
/// test starts through ssh find no start-up file: what that runs on some computers takes a lock,
/// and a killed shell would leave the lock to all tests after it.
const INIT_SCRIPT: &str = "exec 2>&1\n\
    mount -t tmpfs -o mode=1777 tmpfs \"$TMPDIR\" || exit\n\
    [ ! -e \"$HOME/.bashrc\" ] || mount --bind /dev/null \"$HOME/.bashrc\" || exit\n\
    (PATH=$PATH:/usr/sbin:/sbin; ip link set lo up || busybox ip link set lo up) || exit\n\
    \"$@\"; exit $?\n";

/// Runs the body of a test isolated; skips the test if that is not possible.
///
/// The test function itself must create the closure, because the test's name is derived from it.
#[track_caller]
pub fn isolated<F: FnOnce()>(test: F) {
    isolated_as(name_of(&test), test);
}

/// Like [`isolated`], with an explicit test name.
#[track_caller]
pub fn isolated_as(name: &str, test: impl FnOnce()) {
    if is_isolated() || !skip(missing()) {
        isolated_if_root_as(name, test);
    }
}

/// Like [`isolated`], but runs the test in this process without root.
#[track_caller]
pub fn isolated_if_root<F: FnOnce()>(test: F) {
    isolated_if_root_as(name_of(&test), test);
}

/// Like [`isolated_if_root`], with an explicit test name.
#[track_caller]
pub fn isolated_if_root_as(name: &str, test: impl FnOnce()) {
    if is_isolated() {
        with_test_name(name, test);
        println!("{}", end_mark(name));
    } else if missing().is_some() {
        test();
    } else {
        rerun_isolated(name);
    }
}

/// Whether this process runs an isolated test.
pub fn is_isolated() -> bool {
    std::env::var_os(ISOLATED_TEST).is_some()
}

/// The path of the test function that contains a closure, without the crate name.
pub fn name_of<F>(_: &F) -> &'static str {
    let path = type_name::<F>();
    let path = path.split_once("::").map_or(path, |(_, path)| path);
    path.split_once("::{{closure}}").map_or(path, |(path, _)| path)
}

/// Printed after the test ran. Without it, the name may have matched no test.
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
fn rerun_isolated(name: &str) {
    // A short name, because the paths of sockets are limited to 108 bytes.
    let temporary = tempfile::Builder::new().prefix("ff-").tempdir().expect("a temporary folder");
    let test_program = std::env::current_exe().expect("the test program has a path");
    let program = Program::new("unshare")
        .args(["--pid", "--mount", "--net", "--fork", "--mount-proc", "--kill-child", "--"])
        .args(["sh", "-c", INIT_SCRIPT, "sh"])
        .arg(test_program)
        .args(["--exact", name, "--include-ignored", "--nocapture"])
        .env("TMPDIR", temporary.path().to_string_lossy())
        .env(ISOLATED_TEST, name)
        .timeout(TIMEOUT);
    let outcome = SystemRunner::default().run(&program).expect("unshare runs");
    print!("{}{}", outcome.stdout, outcome.stderr);
    let is_done = outcome.stdout.lines().any(|line| line.ends_with(&end_mark(name)));
    assert!(outcome.success() && is_done, "the isolated test failed; its output is above");
}
