//! The agent: carries out at the place of the trials what a test bed elsewhere asks for. It is the
//! same code as of a run on this machine, behind the messages of [`crate::protocol`].
//!
//! It ends, and leaves nothing mounted or attached, when it is told to, when a signal says so, and
//! when its pipe does; one that listens on a socket waits a while for somebody to come back, and
//! goes on meanwhile with what it was asked for.

mod catalog;
mod folder;
mod receiver;
mod rpc_server;
mod sender;
mod socket;

use std::cell::Cell;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

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

use receiver::{MessageReceiver, TrialGate, inbox};
use rpc_server::RpcServer;
use sender::MessageSender;

pub use folder::{AgentFolder, AgentFolderError, LOCK, socket_of};
pub use sender::WORKING_INTERVAL;
pub use socket::{AgentLinger, attach, end, ended, listen};

/// What an agent is told of its program.
pub struct AgentInfo {
    /// The version of flashfit.
    pub version: String,
    /// Makes the arguments that serve a simulated card, given a folder with the user's catalog.
    pub cards: Box<dyn Fn(&Path) -> CardProgram>,
}

/// Serves one connection to its end.
///
/// # Errors
/// When there is no room for its own folder.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    about: &AgentInfo,
    interrupt: &Interrupt,
) -> std::io::Result<()> {
    let outlet = MessageSender::new();
    let (slot, inbox, go_on) = inbox(&outlet, interrupt, None);
    let number = outlet.connect(Box::new(output));
    std::thread::spawn(move || slot.read(input, number));
    work(inbox, &outlet, go_on, about, interrupt)
}

/// Carries out what comes in, until there is nothing more to come.
fn work(
    inbox: MessageReceiver,
    outlet: &Arc<MessageSender>,
    go_on: TrialGate,
    about: &AgentInfo,
    interrupt: &Interrupt,
) -> std::io::Result<()> {
    let done = answer_all(inbox, outlet, go_on, about, interrupt);
    outlet.send(&FromAgent::Ended {});
    done
}

fn answer_all(
    inbox: MessageReceiver,
    outlet: &Arc<MessageSender>,
    go_on: TrialGate,
    about: &AgentInfo,
    interrupt: &Interrupt,
) -> std::io::Result<()> {
    let folder = PrivateFolder::new()?;
    let mut post = RpcServer::new(inbox, Arc::clone(outlet));
    let Some(known) = greet(&mut post, about, &folder) else { return Ok(()) };
    let runner = SystemRunner::new(interrupt.clone());
    let cards = (about.cards)(folder.path());
    let pause = Pause { go_on, trial: Cell::new(None) };
    let (mount_dir, scratch_dir) = (folder.path().join("mnt"), folder.path().join("scratch"));
    let mut place = LocalHost::new(&runner, &known.filesystems, cards, &mount_dir, &scratch_dir)
        .on_state(|| pause.here());
    while let Some((id, request)) = post.next() {
        match &request {
            AgentRequest::Open(opening) => match place.open(opening) {
                Ok(stand) => {
                    let reply = Reply::Opened(Box::new(stand.facts().clone()));
                    post.answer(id, request, reply);
                    trials(&mut post, stand, &known.workloads, &pause);
                }
                Err(error) => post.answer(id, request, failed(error)),
            },
            other => {
                let reply = answer(&mut place, other).unwrap_or_else(failed);
                post.answer(id, request, reply);
            }
        }
    }
    Ok(())
}

/// What is known once somebody has said who they are.
struct AgentKnowledge {
    filesystems: FileSystemCatalog,
    workloads: Workloads,
}

fn greet(
    post: &mut RpcServer,
    about: &AgentInfo,
    folder: &PrivateFolder,
) -> Option<AgentKnowledge> {
    while let Some((id, request)) = post.next() {
        let AgentRequest::Hello(hello) = &request else {
            post.answer(id, request, refused("say hello first"));
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
                post.answer(id, request, reply);
                return Some(AgentKnowledge { filesystems, workloads });
            }
            Err(failure) => post.answer(id, request, Reply::Failed(Box::new(failure))),
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
            "the agent is flashfit {} (protocol {PROTOCOL_VERSION}), and it is asked by {} \
             (protocol {})",
            about.version, hello.version, hello.protocol
        ),
        Some("use the same flashfit on both sides"),
    ))
}

/// Answers what can be asked before a device is taken over.
fn answer(place: &mut LocalHost<'_>, request: &AgentRequest) -> Result<Reply, TrialError> {
    Ok(match request {
        AgentRequest::Describe(wanted) => Reply::Offers(place.describe(wanted)?),
        AgentRequest::Look { target } => Reply::Medium(Box::new(place.look(target)?)),
        AgentRequest::Ask { shown, named } => {
            let agreement = named.clone().map_or(ConsentMethod::NotAsked, ConsentMethod::Named);
            place.ask(shown, &agreement)?;
            Reply::Done {}
        }
        AgentRequest::Findings { filesystem, conditions, rotational } => {
            Reply::Findings(place.findings(filesystem, conditions, *rotational)?)
        }
        AgentRequest::Probe(wanted) => Reply::Probed(place.probe(wanted)?),
        AgentRequest::Close {} => Reply::Done {},
        AgentRequest::Hello(_) => refused("who asks is known already"),
        AgentRequest::Trial(_) => refused("no medium was taken over"),
        AgentRequest::Open(_) => unreachable!("opening is no question"),
    })
}

/// Makes trials until the device is given back, or it is time to end.
fn trials(
    post: &mut RpcServer,
    mut stand: Box<dyn TestBed + '_>,
    workloads: &Workloads,
    pause: &Pause,
) {
    while let Some((id, request)) = post.next() {
        let reply = match &request {
            AgentRequest::Trial(wanted) => match workloads.find(&wanted.workload) {
                Ok(workload) => {
                    pause.trial.set(wanted.wait_in_state.then_some(id));
                    let made = stand.run_trial(&of_wanted(wanted, workload));
                    made.map_or_else(failed, |report| Reply::Trial(Box::new(report)))
                }
                Err(error) => failed(TrialError::stopped(&error)),
            },
            AgentRequest::Close {} => {
                drop(stand);
                return post.answer(id, request, Reply::Done {});
            }
            _ => refused("a medium is taken over: only trials can be made"),
        };
        post.answer(id, request, reply);
    }
}

fn of_wanted<'a>(wanted: &'a WireTrial, workload: &'a Workload) -> TrialRequest<'a> {
    TrialRequest {
        setup: &wanted.setup,
        workload,
        profile: wanted.profile,
        length: wanted.length,
        state: wanted.state,
        data_bytes: wanted.data_bytes,
        memory_bytes: wanted.memory_bytes,
        runtime_ns: wanted.runtime_ns,
        seed: wanted.seed,
    }
}

/// Where a trial waits, if it was asked to, before its workload begins.
struct Pause {
    go_on: TrialGate,
    trial: Cell<Option<u64>>,
}

impl Pause {
    fn here(&self) {
        if let Some(id) = self.trial.take() {
            self.go_on.wait(id);
        }
    }
}

fn failed(error: TrialError) -> Reply {
    Reply::Failed(Box::new(error.into()))
}

fn refused(why: &str) -> Reply {
    Reply::Failed(Box::new(WireFailure::stopped(ExitClass::Bug, why, None)))
}
