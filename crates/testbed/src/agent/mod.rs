//! The agent: runs trials for a client on another machine, with the same code as a local run. The
//! messages are in [`crate::protocol`].
//!
//! It ends on request, on a signal, or when its pipe is closed, and leaves nothing mounted or
//! attached. An agent on a socket continues its work after a lost connection and waits for the
//! client to reconnect.

mod catalog;
mod folder;
mod receiver;
mod rpc_server;
mod sender;
mod socket;

use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use flashfit_bench::{Workload, Workloads};
use flashfit_device::ConsentMethod;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_host::SystemRunner;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::private_folder::PrivateFolder;
use flashfit_option_probe::kernel;
use flashfit_user_error::ExitClass;

use crate::host::{CardProgram, Host, LocalHost};
use crate::protocol::{
    AgentHello, AgentRequest, ClientHello, FromAgent, PROTOCOL_VERSION, Reply, WireFailure,
    WireTrial,
};
use crate::{TestBed, TrialError, TrialRequest};

use receiver::{MessageReceiver, TrialGate, channels};
use rpc_server::RpcServer;
use sender::MessageSender;

pub use folder::{AgentFolder, AgentFolderError, LOCK, socket_of};
pub use sender::WORKING_INTERVAL;
pub use socket::{AgentLinger, attach, end, ended, listen};

/// What the agent must know about the program it runs in.
pub struct AgentInfo {
    /// The version of flashfit, with what it was built from.
    pub version: String,
    /// Returns the program that serves simulated cards, given the directory of the user's catalog.
    pub cards: Box<dyn Fn(&Path) -> CardProgram>,
}

/// Serves one connection until it is closed.
///
/// # Errors
/// If no temporary directory can be created.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    about: &AgentInfo,
    interrupt: &Interrupt,
) -> std::io::Result<()> {
    let sender = MessageSender::new();
    let (reader, receiver, gate) = channels(&sender, interrupt, None);
    let number = sender.connect(Box::new(output));
    std::thread::spawn(move || reader.read(input, number));
    work(receiver, &sender, gate, about, interrupt)
}

/// Handles requests until it is time to end.
fn work(
    receiver: MessageReceiver,
    sender: &Arc<MessageSender>,
    gate: TrialGate,
    about: &AgentInfo,
    interrupt: &Interrupt,
) -> std::io::Result<()> {
    let done = answer_all(receiver, sender, gate, about, interrupt);
    sender.send(&FromAgent::Ended {});
    done
}

fn answer_all(
    receiver: MessageReceiver,
    sender: &Arc<MessageSender>,
    gate: TrialGate,
    about: &AgentInfo,
    interrupt: &Interrupt,
) -> std::io::Result<()> {
    let folder = PrivateFolder::new()?;
    let mut server = RpcServer::new(receiver, Arc::clone(sender));
    let Some(known) = greet(&mut server, about, &folder) else { return Ok(()) };
    let runner = SystemRunner::new(interrupt.clone());
    let cards = (about.cards)(folder.path());
    let pause = Pause { gate: Mutex::new(gate), trial: Mutex::default() };
    let (mount_dir, scratch_dir) = (folder.path().join("mnt"), folder.path().join("scratch"));
    let mut host = LocalHost::new(&runner, &known.filesystems, cards, &mount_dir, &scratch_dir)
        .on_initial_state(|| pause.wait_if_requested());
    while let Some((id, request)) = server.next() {
        match &request {
            AgentRequest::Open(open_request) => match host.open(open_request) {
                Ok(test_bed) => {
                    let reply = Reply::Opened(Box::new(test_bed.facts().clone()));
                    server.answer(id, request, reply);
                    trials(&mut server, test_bed, &known.workloads, &pause);
                }
                Err(error) => server.answer(id, request, failed(error)),
            },
            other => {
                let reply = answer(&mut host, other).unwrap_or_else(failed);
                server.answer(id, request, reply);
            }
        }
    }
    Ok(())
}

/// The catalog, loaded after the client's hello.
struct AgentKnowledge {
    filesystems: FileSystemCatalog,
    workloads: Workloads,
}

fn greet(
    server: &mut RpcServer,
    about: &AgentInfo,
    folder: &PrivateFolder,
) -> Option<AgentKnowledge> {
    while let Some((id, request)) = server.next() {
        let AgentRequest::Hello(hello) = &request else {
            server.answer(id, request, refused("say hello first"));
            continue;
        };
        let known = check(hello, about).and_then(|()| catalog::load(hello, folder.path()));
        match known {
            Ok((filesystems, workloads)) => {
                let reply = Reply::Hello(AgentHello {
                    protocol: PROTOCOL_VERSION,
                    version: about.version.clone(),
                    kernel: kernel::release(),
                });
                server.answer(id, request, reply);
                return Some(AgentKnowledge { filesystems, workloads });
            }
            Err(failure) => server.answer(id, request, Reply::Failed(Box::new(failure))),
        }
    }
    None
}

fn check(hello: &ClientHello, about: &AgentInfo) -> Result<(), WireFailure> {
    if (hello.protocol, &hello.version) == (PROTOCOL_VERSION, &about.version) {
        return Ok(());
    }
    Err(WireFailure::stopped(
        ExitClass::Environment,
        format!(
            "the agent is flashfit {} (protocol {PROTOCOL_VERSION}), but the client is flashfit {} \
             (protocol {})",
            about.version, hello.version, hello.protocol
        ),
        Some("use a flashfit from the same source on both machines".into()),
    ))
}

/// Answers requests that need no open device.
fn answer(host: &mut LocalHost<'_>, request: &AgentRequest) -> Result<Reply, TrialError> {
    Ok(match request {
        AgentRequest::Describe(wanted) => Reply::Capabilities(host.describe(wanted)?),
        AgentRequest::Inspect { target } => Reply::Device(Box::new(host.inspect(target)?)),
        AgentRequest::CheckConsent { device, name } => {
            let consent_method = name.clone().map_or(ConsentMethod::NotAsked, ConsentMethod::Named);
            host.check_consent(device, &consent_method)?;
            Reply::Done {}
        }
        AgentRequest::Findings { filesystem, conditions, rotational } => {
            Reply::Findings(host.option_findings(filesystem, conditions, *rotational)?)
        }
        AgentRequest::Probe(wanted) => Reply::Probed(host.probe(wanted)?),
        AgentRequest::Close {} => Reply::Done {},
        AgentRequest::Hello(_) => refused("hello was already received"),
        AgentRequest::Trial(_) => refused("no device is open"),
        AgentRequest::Open(_) => unreachable!("handled by the caller"),
    })
}

/// Runs trials until the device is closed or it is time to end.
fn trials(
    server: &mut RpcServer,
    mut test_bed: Box<dyn TestBed + '_>,
    workloads: &Workloads,
    pause: &Pause,
) {
    while let Some((id, request)) = server.next() {
        let reply = match &request {
            AgentRequest::Trial(wanted) => match workloads.find(&wanted.workload) {
                Ok(workload) => {
                    pause.request(wanted.wait_before_workload.then_some(id));
                    let request = of_wanted(wanted, workload);
                    let made = if wanted.without_filesystem {
                        test_bed.run_without_filesystem(&request).map(Option::unwrap_or_default)
                    } else {
                        test_bed.run_trial(&request)
                    };
                    made.map_or_else(failed, |report| Reply::Trial(Box::new(report)))
                }
                Err(error) => failed(TrialError::stopped(&error)),
            },
            AgentRequest::Close {} => {
                drop(test_bed);
                return server.answer(id, request, Reply::Done {});
            }
            _ => refused("a device is open: only trials can be run"),
        };
        server.answer(id, request, reply);
    }
}

fn of_wanted<'a>(wanted: &'a WireTrial, workload: &'a Workload) -> TrialRequest<'a> {
    TrialRequest {
        setup: &wanted.setup,
        workload,
        profile: wanted.profile,
        length: wanted.length,
        state: wanted.state,
        start: wanted.start.as_ref(),
        data_bytes: wanted.data_bytes,
        memory_bytes: wanted.memory_bytes,
        runtime_ns: wanted.runtime_ns,
        seed: wanted.seed,
        exercise: wanted.exercise,
    }
}

/// Makes a trial wait before its workload, if the client requested it.
struct Pause {
    gate: Mutex<TrialGate>,
    trial: Mutex<Option<u64>>,
}

impl Pause {
    fn request(&self, trial: Option<u64>) {
        *self.trial.lock().unwrap_or_else(PoisonError::into_inner) = trial;
    }

    fn wait_if_requested(&self) {
        let trial = self.trial.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(id) = trial {
            self.gate.lock().unwrap_or_else(PoisonError::into_inner).wait(id);
        }
    }
}

fn failed(error: TrialError) -> Reply {
    Reply::Failed(Box::new(error.into()))
}

fn refused(why: &str) -> Reply {
    Reply::Failed(Box::new(WireFailure::stopped(ExitClass::Bug, why, None)))
}
