//! A place that is reached through an agent, and the test bed there.

mod link;
mod rpc_client;
mod ssh;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use flashfit_catalog::FOLDERS;
use flashfit_device::{ConsentMethod, Device};
use flashfit_filesystem::Conditions;
use flashfit_host::interrupt::Interrupt;
use flashfit_option_probe::OptionFindings;
use flashfit_user_error::{ExitClass, UserError};

use crate::host::{Capabilities, Host, OpenRequest, ProbeRequest, ProbeResult, Requirements};
use crate::local::LONGEST_PROBE;
use crate::protocol::{AgentRequest, ClientHello, PROTOCOL_VERSION, Reply, WireTrial};
use crate::{TestBed, TestBedFacts, TrialError, TrialReport, TrialRequest};

pub use link::{Link, LinkEnds, LinkError, RETRY_INTERVAL, SILENCE};
pub use rpc_client::{RpcClient, Timeouts};
pub use ssh::SshLink;

/// What should be answered at once, on a machine that may be slow and busy.
const QUESTION: Duration = Duration::from_secs(120);
/// Scratch images are made and mounted for each option.
const FINDINGS: Duration = Duration::from_secs(1200);
/// A large device is discarded first.
const OPENING: Duration = Duration::from_secs(600);
/// Beside what a trial measures: what its programs may take at most, each of them.
const TRIAL: Duration = Duration::from_secs(3600);

/// Looks at what is behind a device while a trial is made elsewhere.
pub trait HostMonitor: Send {
    /// The workload begins.
    fn in_state(&mut self);
    /// The trial is over; what was seen goes into its report.
    fn ended(&mut self, report: &mut TrialReport);
    /// What the test bed is told to be, beside what its agent says.
    fn complete(&self, facts: &mut TestBedFacts);
    /// Whether what is behind the device is lost, and how.
    fn lost(&self) -> Option<String>;
    /// What is behind the device may be why a trial failed that says it was the device.
    fn cause(&self) -> Option<TrialError>;
}

/// A place with an agent.
pub struct RemoteHost<L: Link> {
    talk: RpcClient<L>,
    /// What the test bed is called in the records of a run.
    name: String,
    beside: Option<Box<dyn HostMonitor>>,
    /// What an agent is told first, and what it has taken over, for one that follows it.
    hello: ClientHello,
    opening: Option<OpenRequest>,
}

impl<L: Link> RemoteHost<L> {
    /// Connects and says hello; `name` is what the test bed is called in the records of a run,
    /// `catalog` the user's own catalog, `version` that of flashfit.
    ///
    /// # Errors
    /// When the agent cannot be reached or is another flashfit's.
    pub fn new(
        link: L,
        name: &str,
        interrupt: &Interrupt,
        version: &str,
        catalog: Option<&Path>,
    ) -> Result<Self, TrialError> {
        let waits = Timeouts { silence: link.silence(), answer: QUESTION };
        let mut talk = RpcClient::new(link, interrupt);
        let hello = ClientHello {
            protocol: PROTOCOL_VERSION,
            version: version.to_owned(),
            catalogue: files(catalog)?,
        };
        let reply = talk.ask(AgentRequest::Hello(hello.clone()), waits, &mut || {})?;
        let Reply::Hello(_) = reply else { return Err(unexpected(&reply)) };
        Ok(Self { talk, name: name.to_owned(), beside: None, hello, opening: None })
    }

    /// Has another agent take the device over, the one before having died; `false` where there can
    /// be none. What it finds must be what `facts` has.
    fn renew(&mut self, facts: &TestBedFacts) -> Result<bool, TrialError> {
        let Some(opening) = self.opening.clone() else { return Ok(false) };
        if !self.talk.renew() {
            return Ok(false);
        }
        let reply = self.ask(AgentRequest::Hello(self.hello.clone()), QUESTION)?;
        let Reply::Hello(_) = reply else { return Err(unexpected(&reply)) };
        let now = match self.ask(AgentRequest::Open(Box::new(opening)), OPENING)? {
            Reply::Opened(now) => now,
            other => return Err(unexpected(&other)),
        };
        let told = |facts: &TestBedFacts| {
            let TestBedFacts { kernel, programs, conditions, planned, schedulers, .. } =
                facts.clone();
            (kernel, programs, conditions, planned, schedulers, facts.medium.capacity)
        };
        if told(&now) == told(facts) {
            return Ok(true);
        }
        Err(TrialError::Stopped {
            message: format!(
                "the agent on {} died, and the one that followed it does not find there what was \
                 there before",
                self.talk.link().place()
            ),
            class: ExitClass::Environment,
            hint: Some("look at what has changed there, or begin a new run".to_owned()),
        })
    }

    /// With somebody who looks at what is behind the device.
    #[must_use]
    pub fn beside(mut self, beside: Box<dyn HostMonitor>) -> Self {
        self.beside = Some(beside);
        self
    }

    fn ask(&mut self, request: AgentRequest, wait: Duration) -> Result<Reply, TrialError> {
        let waits = Timeouts { silence: self.talk.link().silence(), answer: wait };
        self.talk.ask(request, waits, &mut || {})
    }
}

impl<L: Link> Host for RemoteHost<L> {
    fn describe(&mut self, wanted: &Requirements) -> Result<Capabilities, TrialError> {
        match self.ask(AgentRequest::Describe(wanted.clone()), QUESTION)? {
            Reply::Offers(offers) => Ok(offers),
            other => Err(unexpected(&other)),
        }
    }

    fn look(&mut self, target: &str) -> Result<Device, TrialError> {
        match self.ask(AgentRequest::Look { target: target.to_owned() }, QUESTION)? {
            Reply::Medium(medium) => Ok(*medium),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&mut self, shown: &Device, agreement: &ConsentMethod) -> Result<(), TrialError> {
        let named = match agreement {
            ConsentMethod::Named(name) => Some(name.clone()),
            ConsentMethod::NotAsked => None,
        };
        let request = AgentRequest::Ask { shown: Box::new(shown.clone()), named };
        match self.ask(request, QUESTION)? {
            Reply::Done {} => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn findings(
        &mut self,
        filesystem: &str,
        conditions: &Conditions,
        rotational: Option<bool>,
    ) -> Result<OptionFindings, TrialError> {
        let (filesystem, conditions) = (filesystem.to_owned(), conditions.clone());
        match self.ask(AgentRequest::Findings { filesystem, conditions, rotational }, FINDINGS)? {
            Reply::Findings(findings) => Ok(findings),
            other => Err(unexpected(&other)),
        }
    }

    fn probe(&mut self, wanted: &ProbeRequest) -> Result<ProbeResult, TrialError> {
        match self.ask(AgentRequest::Probe(wanted.clone()), LONGEST_PROBE)? {
            Reply::Probed(made) => Ok(made),
            other => Err(unexpected(&other)),
        }
    }

    fn open<'a>(&'a mut self, opening: &OpenRequest) -> Result<Box<dyn TestBed + 'a>, TrialError> {
        match self.ask(AgentRequest::Open(Box::new(opening.clone())), OPENING)? {
            Reply::Opened(mut facts) => {
                self.opening = Some(opening.clone());
                facts.stand.clone_from(&self.name);
                if let Some(beside) = &self.beside {
                    beside.complete(&mut facts);
                }
                Ok(Box::new(RemoteStand { place: self, facts: *facts }))
            }
            other => Err(unexpected(&other)),
        }
    }
}

/// A stand behind an agent; the device is given back when it goes.
struct RemoteStand<'a, L: Link> {
    place: &'a mut RemoteHost<L>,
    facts: TestBedFacts,
}

impl<L: Link> TestBed for RemoteStand<'_, L> {
    fn facts(&self) -> &TestBedFacts {
        &self.facts
    }

    fn run_trial(&mut self, request: &TrialRequest<'_>) -> Result<TrialReport, TrialError> {
        match self.attempt(request) {
            Err(error) if error.class() == ExitClass::Io && self.place.renew(&self.facts)? => {
                let mut report = self.attempt(request)?;
                report.notes.push(
                    "the agent died during this trial; another was started, and made it again"
                        .to_owned(),
                );
                Ok(report)
            }
            made => made,
        }
    }
}

impl<L: Link> RemoteStand<'_, L> {
    fn attempt(&mut self, request: &TrialRequest<'_>) -> Result<TrialReport, TrialError> {
        let RemoteHost { talk, beside, .. } = &mut *self.place;
        let wanted = AgentRequest::Trial(Box::new(wanted(request, beside.is_some())));
        let mut in_state = || {
            if let Some(beside) = beside.as_deref_mut() {
                beside.in_state();
            }
        };
        let waits = Timeouts { silence: talk.link().silence(), answer: TRIAL };
        let made = talk.ask(wanted, waits, &mut in_state);
        if let Some(lost) = beside.as_ref().and_then(|beside| beside.lost()) {
            return Err(TrialError::Medium { what: format!("is gone: {lost}") });
        }
        let made = made.map_err(|error| match (error.class(), beside.as_deref()) {
            (ExitClass::Interrupted, _) | (_, None) => error,
            (_, Some(beside)) => beside.cause().unwrap_or(error),
        });
        match made? {
            Reply::Trial(mut report) => {
                if let Some(beside) = beside {
                    beside.ended(&mut report);
                }
                Ok(*report)
            }
            other => Err(unexpected(&other)),
        }
    }
}

impl<L: Link> Drop for RemoteStand<'_, L> {
    fn drop(&mut self) {
        // An agent that is gone has given it back, or its machine is gone too.
        let _ = self.place.ask(AgentRequest::Close {}, QUESTION);
    }
}

fn wanted(request: &TrialRequest<'_>, wait_in_state: bool) -> WireTrial {
    WireTrial {
        setup: request.setup.clone(),
        workload: request.workload.name.clone(),
        profile: request.profile,
        length: request.length,
        state: request.state,
        data_bytes: request.data_bytes,
        memory_bytes: request.memory_bytes,
        runtime_ns: request.runtime_ns,
        seed: request.seed,
        wait_in_state,
    }
}

fn unexpected(reply: &Reply) -> TrialError {
    TrialError::Stopped {
        message: format!("the agent answered with `{}`, which was not asked for", reply.name()),
        class: ExitClass::Bug,
        hint: None,
    }
}

/// The files of a catalog of the user's, by their path in it.
fn files(catalog: Option<&Path>) -> Result<BTreeMap<String, String>, TrialError> {
    let mut found = BTreeMap::new();
    let Some(catalog) = catalog else { return Ok(found) };
    let failed = |path: &Path, error: std::io::Error| TrialError::Stopped {
        message: format!("cannot read {}: {error}", path.display()),
        class: ExitClass::Usage,
        hint: None,
    };
    for folder in FOLDERS {
        let folder = catalog.join(folder);
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
            let text = std::fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
            let inside = path.strip_prefix(catalog).expect("it is in the catalogue");
            found.insert(inside.display().to_string(), text);
        }
    }
    Ok(found)
}
