//! Trials on other stands than this machine itself.

mod kills;
mod lab;
#[expect(dead_code, clippy::print_stdout, reason = "it is made for the lab's own tests")]
#[path = "../../../../lab/tests/lab/rack/mod.rs"]
mod rack;
mod ssh;
mod sshd;
mod vm;
mod vm_board;
mod vm_disks;
mod vm_full;

use std::sync::{Mutex, MutexGuard, PoisonError};

static ALONE: Mutex<()> = Mutex::new(());

/// One test at a time has an agent, so that it is known whose it is.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
