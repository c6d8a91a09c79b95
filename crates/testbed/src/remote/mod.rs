//! A host that is reached through an agent, and its test bed.

mod link;
mod login_output;
mod rpc_client;
mod ssh;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use flashfit_catalog::FOLDERS;
use flashfit_device::{ConsentMethod, Device, Refusal};
use flashfit_filesystem::Conditions;
use flashfit_host::interrupt::Interrupt;
use flashfit_option_probe::OptionFindings;
use flashfit_user_error::{ExitClass, UserError};

use crate::host::{Capabilities, Host, OpenRequest, ProbeRequest, ProbeResult, Requirements};
use crate::protocol::{AgentRequest, ClientHello, PROTOCOL_VERSION, Reply, WireTrial};
use crate::{TestBed, TestBedFacts, TrialError, TrialReport, TrialRequest};

pub use link::{Link, LinkEnds, LinkError, RETRY_INTERVAL, SILENCE_TIMEOUT};
pub use rpc_client::{RpcClient, Timeouts};
pub use ssh::SshLink;

/// For requests that take little time, even on a slow and busy machine.
const QUERY_TIMEOUT: Duration = Duration::from_secs(120);
/// The folder of recorded traces, which trials do not need and which are large.
const TRACES: &str = "traces";
/// How the names of a catalog's files end. Others, such as the copies of an editor, are not sent.
const CATALOG_EXTENSIONS: [&str; 3] = ["toml", "fio", "txt"];

/// Monitors the backing device on this machine while a remote trial uses it.
pub trait HostMonitor: Send {
    /// Checks before a trial that the backing device may still be written to.
    ///
    /// # Errors
    /// If the guard refuses; the trial must not be made.
    fn check(&self) -> Result<(), TrialError>;
    fn on_initial_state(&mut self);
    /// Adds observations to the report at the end of a trial.
    fn on_trial_end(&mut self, report: &mut TrialReport);
    /// Adds what the agent cannot know.
    fn complete_facts(&self, facts: &mut TestBedFacts);
    /// Why the backing device was lost, if it was.
    fn loss_reason(&self) -> Option<String>;
    /// The error if the backing device caused a failed trial.
    fn failure_cause(&self) -> Option<TrialError>;
}

/// A machine that runs an agent.
pub struct RemoteHost<L: Link> {
    client: RpcClient<L>,
    /// Name of the test bed in the records of a run.
    name: String,
    monitor: Option<Box<dyn HostMonitor>>,
    /// Sent again to a restarted agent, like `open_request`.
    hello: ClientHello,
    open_request: Option<OpenRequest>,
}

impl<L: Link> RemoteHost<L> {
    /// Connects to the agent. `name` is the name of the test bed in the records of a run, `version`
    /// is flashfit's with what it was built from, and `catalog` is the directory of the user's
    /// catalog.
    ///
    /// # Errors
    /// If the agent cannot be reached or has another version.
    pub fn new(
        link: L,
        name: &str,
        interrupt: &Interrupt,
        version: &str,
        catalog: Option<&Path>,
    ) -> Result<Self, TrialError> {
        let timeouts = Timeouts { silence: link.silence_timeout(), answer: Some(QUERY_TIMEOUT) };
        let mut client = RpcClient::new(link, interrupt);
        let hello = ClientHello {
            protocol: PROTOCOL_VERSION,
            version: version.to_owned(),
            catalog: files(catalog)?,
        };
        let reply = client.request(AgentRequest::Hello(hello.clone()), timeouts, &mut || {})?;
        let Reply::Hello(_) = reply else { return Err(unexpected(&reply)) };
        Ok(Self { client, name: name.to_owned(), monitor: None, hello, open_request: None })
    }

    /// Starts a new agent after the old one died, and opens the device again; `false` if that is
    /// not possible. The new agent must find the same `facts`.
    fn restart_agent(&mut self, facts: &TestBedFacts) -> Result<bool, TrialError> {
        let Some(open_request) = self.open_request.clone() else { return Ok(false) };
        if !self.client.restart() {
            return Ok(false);
        }
        let reply = self.query(AgentRequest::Hello(self.hello.clone()))?;
        let Reply::Hello(_) = reply else { return Err(unexpected(&reply)) };
        let now = match self.work(AgentRequest::Open(Box::new(open_request)))? {
            Reply::Opened(now) => now,
            other => return Err(unexpected(&other)),
        };
        let comparable = |facts: &TestBedFacts| {
            let TestBedFacts { kernel, programs, conditions, planned, schedulers, .. } =
                facts.clone();
            (kernel, programs, conditions, planned, schedulers, facts.device.capacity)
        };
        if comparable(&now) == comparable(facts) {
            return Ok(true);
        }
        Err(TrialError::Stopped {
            message: format!(
                "the agent on {} died, and a new agent finds a different kernel, device or programs",
                self.client.link().label()
            ),
            class: ExitClass::Environment,
            hint: Some("undo the change there, or start a new run".into()),
        })
    }

    #[must_use]
    pub fn with_monitor(mut self, monitor: Box<dyn HostMonitor>) -> Self {
        self.monitor = Some(monitor);
        self
    }

    /// A request that takes little time.
    fn query(&mut self, request: AgentRequest) -> Result<Reply, TrialError> {
        self.request(request, Some(QUERY_TIMEOUT))
    }

    /// A request that runs programs on a device or on scratch images.
    fn work(&mut self, request: AgentRequest) -> Result<Reply, TrialError> {
        self.request(request, None)
    }

    fn request(
        &mut self,
        request: AgentRequest,
        answer: Option<Duration>,
    ) -> Result<Reply, TrialError> {
        let timeouts = Timeouts { silence: self.client.link().silence_timeout(), answer };
        self.client.request(request, timeouts, &mut || {})
    }
}

impl<L: Link> Host for RemoteHost<L> {
    fn describe(&mut self, requirements: &Requirements) -> Result<Capabilities, TrialError> {
        match self.query(AgentRequest::Describe(requirements.clone()))? {
            Reply::Capabilities(capabilities) => Ok(capabilities),
            other => Err(unexpected(&other)),
        }
    }

    fn inspect(&mut self, target: &str) -> Result<Device, TrialError> {
        match self.query(AgentRequest::Inspect { target: target.to_owned() })? {
            Reply::Device(device) => Ok(*device),
            other => Err(unexpected(&other)),
        }
    }

    fn check_consent(
        &mut self,
        device: &Device,
        consent_method: &ConsentMethod,
    ) -> Result<(), TrialError> {
        let name = match consent_method {
            ConsentMethod::Named(name) => Some(name.clone()),
            ConsentMethod::NotAsked => None,
            // No need to ask the other machine.
            ConsentMethod::Interrupted => {
                return Err(Refusal::Interrupted { path: device.path.clone() }.into());
            }
        };
        let request = AgentRequest::CheckConsent { device: Box::new(device.clone()), name };
        match self.query(request)? {
            Reply::Done {} => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn option_findings(
        &mut self,
        filesystem: &str,
        conditions: &Conditions,
        rotational: Option<bool>,
    ) -> Result<OptionFindings, TrialError> {
        let (filesystem, conditions) = (filesystem.to_owned(), conditions.clone());
        match self.work(AgentRequest::Findings { filesystem, conditions, rotational })? {
            Reply::Findings(findings) => Ok(findings),
            other => Err(unexpected(&other)),
        }
    }

    fn probe(&mut self, request: &ProbeRequest) -> Result<ProbeResult, TrialError> {
        match self.work(AgentRequest::Probe(request.clone()))? {
            Reply::Probed(result) => Ok(result),
            other => Err(unexpected(&other)),
        }
    }

    fn open<'a>(&'a mut self, request: &OpenRequest) -> Result<Box<dyn TestBed + 'a>, TrialError> {
        match self.work(AgentRequest::Open(Box::new(request.clone())))? {
            Reply::Opened(mut facts) => {
                self.open_request = Some(request.clone());
                facts.test_bed.clone_from(&self.name);
                if let Some(monitor) = &self.monitor {
                    monitor.complete_facts(&mut facts);
                }
                Ok(Box::new(RemoteTestBed { host: self, facts: *facts }))
            }
            other => Err(unexpected(&other)),
        }
    }
}

/// A test bed behind an agent. Closes the device on drop.
struct RemoteTestBed<'a, L: Link> {
    host: &'a mut RemoteHost<L>,
    facts: TestBedFacts,
}

impl<L: Link> TestBed for RemoteTestBed<'_, L> {
    fn facts(&self) -> &TestBedFacts {
        &self.facts
    }

    fn run_trial(&mut self, request: &TrialRequest<'_>) -> Result<TrialReport, TrialError> {
        match self.attempt(request, false) {
            Err(error)
                if error.class() == ExitClass::Io && self.host.restart_agent(&self.facts)? =>
            {
                let mut report = self.attempt(request, false)?;
                report.notes.push(
                    "the agent died during this trial; it was restarted and repeated the trial"
                        .to_owned(),
                );
                Ok(report)
            }
            result => result,
        }
    }

    fn run_without_filesystem(
        &mut self,
        request: &TrialRequest<'_>,
    ) -> Result<Option<TrialReport>, TrialError> {
        self.attempt(request, true).map(Some)
    }
}

impl<L: Link> RemoteTestBed<'_, L> {
    fn attempt(
        &mut self,
        request: &TrialRequest<'_>,
        without_filesystem: bool,
    ) -> Result<TrialReport, TrialError> {
        let RemoteHost { client, monitor, .. } = &mut *self.host;
        monitor.as_ref().map_or(Ok(()), |monitor| monitor.check())?;
        let waits = monitor.is_some() && !without_filesystem;
        let trial = WireTrial { without_filesystem, ..wire_trial(request, waits) };
        let trial = AgentRequest::Trial(Box::new(trial));
        let mut on_initial_state = || {
            if let Some(monitor) = monitor.as_deref_mut() {
                monitor.on_initial_state();
            }
        };
        let timeouts = Timeouts { silence: client.link().silence_timeout(), answer: None };
        let result = client.request(trial, timeouts, &mut on_initial_state);
        if let Some(lost) = monitor.as_ref().and_then(|monitor| monitor.loss_reason()) {
            return Err(TrialError::Device { what: format!("disappeared: {lost}") });
        }
        let result = result.map_err(|error| match (error.class(), monitor.as_deref()) {
            (ExitClass::Interrupted, _) | (_, None) => error,
            (_, Some(monitor)) => monitor.failure_cause().unwrap_or(error),
        });
        match result? {
            Reply::Trial(mut report) => {
                if let Some(monitor) = monitor {
                    monitor.on_trial_end(&mut report);
                }
                Ok(*report)
            }
            other => Err(unexpected(&other)),
        }
    }
}

impl<L: Link> Drop for RemoteTestBed<'_, L> {
    fn drop(&mut self) {
        // If the agent does not answer, it has closed the device or its machine is down.
        let _ = self.host.query(AgentRequest::Close {});
    }
}

fn wire_trial(request: &TrialRequest<'_>, wait_before_workload: bool) -> WireTrial {
    WireTrial {
        setup: request.setup.clone(),
        workload: request.workload.name.clone(),
        profile: request.profile,
        length: request.length,
        state: request.state,
        start: request.start.cloned(),
        data_bytes: request.data_bytes,
        memory_bytes: request.memory_bytes,
        runtime_ns: request.runtime_ns,
        seed: request.seed,
        wait_before_workload,
        exercise: request.exercise,
        without_filesystem: false,
    }
}

fn unexpected(reply: &Reply) -> TrialError {
    TrialError::Stopped {
        message: format!("the agent sent `{}`, which does not answer the request", reply.name()),
        class: ExitClass::Bug,
        hint: None,
    }
}

/// The files of the user's catalog, by their path in it.
fn files(catalog: Option<&Path>) -> Result<BTreeMap<String, String>, TrialError> {
    let mut found = BTreeMap::new();
    let Some(catalog) = catalog else { return Ok(found) };
    let is_entry = |path: &Path| {
        let extension = path.extension().unwrap_or_default();
        CATALOG_EXTENSIONS.iter().any(|known| extension == *known) && path.is_file()
    };
    for folder in FOLDERS.into_iter().filter(|folder| *folder != TRACES) {
        let folder = catalog.join(folder);
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_entry(path)) {
            let entry =
                flashfit_catalog::read(&path).map_err(|error| TrialError::stopped(&error))?;
            let inside = path.strip_prefix(catalog).expect("it is in the catalog");
            found.insert(inside.display().to_string(), entry.text);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_of_a_catalog_are_sent() {
        let catalog = tempfile::tempdir().unwrap();
        for folder in ["cards", "traces", "other"] {
            std::fs::create_dir(catalog.path().join(folder)).unwrap();
        }
        let write = |path, bytes: &[u8]| std::fs::write(catalog.path().join(path), bytes).unwrap();
        write("cards/mine.toml", b"name = 1\n");
        write("cards/.mine.toml.swp", b"b0VIM \xff\xfe");
        std::fs::create_dir(catalog.path().join("cards/folder.toml")).unwrap();
        write("traces/mine.toml", b"");
        write("other/mine.toml", b"");
        let sent = files(Some(catalog.path())).unwrap();
        assert_eq!(sent, BTreeMap::from([("cards/mine.toml".to_owned(), "name = 1\n".to_owned())]));
        write("cards/binary.toml", b"\xff\xfe");
        let refused = files(Some(catalog.path())).unwrap_err();
        assert!(refused.to_string().contains("binary.toml"), "{refused}");
        assert_eq!(refused.class(), ExitClass::Usage);
    }
}
