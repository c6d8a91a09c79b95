//! Loads I/O schedulers that the kernel has as modules.
//!
//! A queue lists only loaded schedulers (block/elevator.c, `elv_iosched_show`), and the kernel
//! requests `NAME-iosched` only when one is selected. Most distributions build bfq and kyber as
//! modules, so they would never be tried.

use std::path::Path;

use flashfit_filesystem::scheduler;
use flashfit_host::{Program, Runner};

/// Loads the schedulers that the queue does not list, if the kernel has them.
pub fn load_missing(runner: &dyn Runner, queue_dir: &Path) {
    let offered = scheduler::available(queue_dir).unwrap_or_default();
    for lacking in scheduler::mainline().filter(|name| !offered.contains(name)) {
        let module = format!("{lacking}-iosched");
        let _ = runner.run(&Program::new("modprobe").args(["-q", &module]));
    }
}
