//! A virtual machine as a place for trials.

use flashfit_testbed::vm::{VmContext, VmHost};
use flashfit_testbed::{Host, VmChoice};
use flashfit_tune::RunSpec;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::commands::card_server;
use crate::test_beds::{TestBedContext, local};

/// A machine that starts when it is first needed.
pub fn place<'a>(
    choice: &VmChoice,
    spec: &RunSpec,
    means: TestBedContext<'a>,
) -> Result<Box<dyn Host + 'a>, CommandError> {
    let catalog = spec.catalog_dir.clone();
    let program = std::env::current_exe().map_err(|error| {
        let message = format!("cannot find this program's own file: {error}");
        CommandError::new(ExitClass::Environment, message, None)
    })?;
    let means = VmContext {
        runner: means.runner,
        catalog: &means.catalogs.filesystems,
        local: local(spec, means),
        program,
        card_args: Box::new(move |name, socket| {
            let mut args = card_server::args(name, catalog.as_deref());
            let mut nbd = std::ffi::OsString::from("--nbd=");
            nbd.push(socket);
            args.push(nbd);
            args
        }),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        catalog_dir: spec.catalog_dir.clone(),
        seed: spec.seed,
        memory_bytes: spec.memory.0,
        data_bytes: spec.data_size.0,
        fill_hundredths: spec.state.fill_hundredths,
    };
    Ok(Box::new(VmHost::new(means, choice.clone())))
}
