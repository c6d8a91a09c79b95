//! A machine that is reached by SSH as a place for trials.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use flashfit_host::input_file::{TEXT_BYTES, read_text};
use flashfit_host::{SshAddress, SystemRunner};
use flashfit_testbed::remote::{LinkError, RETRY_INTERVAL, SshLink};
use flashfit_testbed::{Host, RemoteHost, TestBedSpec};
use flashfit_tune::RunSpec;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::test_beds::{BUILD, TestBedContext};
use crate::timeouts::shortened;

/// Names a configuration file for ssh, as its `-F` does.
const CONFIGURATION: &str = "FLASHFIT_SSH_CONFIG";

/// The same for a run that goes on as when it was begun, so that it finds the agent that may be
/// left there, and another for every other run.
pub fn token(dir: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    machine_id().hash(&mut hasher);
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn machine_id() -> String {
    read_text(Path::new("/etc/machine-id"), TEXT_BYTES).unwrap_or_default()
}

/// The place of a run.
pub fn place<'a>(
    host: &str,
    spec: &RunSpec,
    means: TestBedContext<'a>,
) -> Result<Box<dyn Host + 'a>, CommandError> {
    let catalog = spec.catalog_dir.as_deref();
    Ok(Box::new(reach(host, &token(means.dir), means.runner, catalog)?))
}

/// The arguments of ssh that the user's own choice makes.
pub fn configured() -> Vec<String> {
    let file = crate::environment::value(CONFIGURATION).and_then(|file| file.into_string().ok());
    file.into_iter().flat_map(|file| ["-F".to_owned(), file]).collect()
}

/// Looks at a machine and puts this program there, in the folder that `token` names.
pub fn link(address: SshAddress, token: &str, runner: &SystemRunner) -> Result<SshLink, LinkError> {
    let own = std::env::current_exe().map_err(|error| LinkError {
        message: format!("cannot find this program's own file: {error}"),
        hint: None,
        class: ExitClass::Environment,
        is_transient: false,
    })?;
    let link = SshLink::new(runner, address, &own, BUILD, token)?;
    Ok(link.with_retry_interval(shortened(RETRY_INTERVAL)))
}

/// Reaches a machine and starts an agent there, in the folder that `token` names.
pub fn reach(
    host: &str,
    token: &str,
    runner: &SystemRunner,
    catalog: Option<&Path>,
) -> Result<RemoteHost<SshLink>, CommandError> {
    let address = SshAddress { host: host.to_owned(), options: configured() };
    let link = link(address, token, runner)?;
    let name = TestBedSpec::Ssh { host: host.to_owned() }.to_string();
    Ok(RemoteHost::new(link, &name, runner.interrupt(), BUILD, catalog)?)
}
