//! The test bed of a run, as words of the command that continues it.

use flashfit_host::program::{quote, quote_path};
use flashfit_testbed::{TestBedSpec, VmChoice};
use flashfit_tune::RunSpec;

/// What the command that goes on with a run says besides its directory.
pub fn again_words(spec: &RunSpec) -> String {
    let mut words = match &spec.on {
        TestBedSpec::Ssh { host } => format!(" --on {}", quote(&format!("ssh:{host}"))),
        TestBedSpec::Vm(VmChoice { kernel: Some(kernel), .. }) => {
            format!(" --vm-kernel {}", quote_path(kernel))
        }
        TestBedSpec::Here | TestBedSpec::Vm(_) | TestBedSpec::Lab { .. } => String::new(),
    };
    if let Some(catalog) = &spec.catalog_dir {
        words.push_str(&format!(" --catalog {}", quote_path(catalog)));
    }
    words
}
