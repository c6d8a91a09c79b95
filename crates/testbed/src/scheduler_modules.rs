//! I/O schedulers that the kernel has as modules.
//!
//! A queue lists only those that are loaded: most distributions' kernels have bfq and kyber as
//! modules, so that they would never be tried. Source: block/elevator.c, `elv_iosched_show`; the
//! kernel's own request for `NAME-iosched` comes only when one is chosen.

use std::path::Path;

use flashfit_filesystem::scheduler;
use flashfit_host::{Program, Runner};

/// Has modprobe bring in the schedulers that the queue does not list; those that the kernel does
/// not have either stay away.
pub fn bring_in(runner: &dyn Runner, queue_dir: &Path) {
    let offered = scheduler::available(queue_dir).unwrap_or_default();
    for lacking in scheduler::mainline().filter(|name| !offered.contains(name)) {
        let module = format!("{lacking}-iosched");
        let _ = runner.run(&Program::new("modprobe").args(["-q", &module]));
    }
}
