//! Trials on other test beds than this machine itself. Each test has its own namespaces, so that an
//! agent is found by looking at all processes.

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
