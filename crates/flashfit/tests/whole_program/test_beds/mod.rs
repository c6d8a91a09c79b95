//! Trials on test beds other than this machine. Each test has its own namespaces, so all visible
//! agents belong to it.

mod board_cuts;
mod kills;
mod lab;
#[expect(dead_code, clippy::print_stdout, reason = "it is made for the lab's own tests")]
#[path = "../../../../lab/tests/lab/rack/mod.rs"]
mod rack;
mod ssh;
mod ssh_probe;
mod sshd;
mod twin;
pub mod vm;
mod vm_board;
mod vm_disks;
mod vm_full;
mod vm_wear;
