//! Requests and their answers. An answer is kept for a while: a request that comes again under its
//! number, after a lost connection, gets it and is not carried out again.

use std::collections::VecDeque;
use std::sync::Arc;

use flashfit_user_error::ExitClass;

use super::receiver::MessageReceiver;
use super::sender::MessageSender;
use crate::protocol::{AgentRequest, FromAgent, Reply, WireFailure, line};

/// Whoever asks has one request under way, so more are never asked for again.
const KEPT: usize = 4;

/// Requests to be carried out.
pub struct RpcServer {
    inbox: MessageReceiver,
    outlet: Arc<MessageSender>,
    done: VecDeque<Done>,
    last: u64,
}

struct Done {
    id: u64,
    request: AgentRequest,
    answer: String,
}

impl RpcServer {
    /// Over this inbox and outlet.
    pub fn new(inbox: MessageReceiver, outlet: Arc<MessageSender>) -> Self {
        Self { inbox, outlet, done: VecDeque::new(), last: 0 }
    }

    /// The next request that is to be carried out; `None` when it is time to end.
    pub fn next(&mut self) -> Option<(u64, AgentRequest)> {
        loop {
            let (id, request) = self.inbox.next()?;
            if id > self.last {
                self.last = id;
                self.outlet.begins(id);
                return Some((id, request));
            }
            self.again(id, &request);
        }
    }

    /// Answers a request, which is then done.
    pub fn answer(&mut self, id: u64, request: AgentRequest, reply: Reply) {
        let answer = line(&FromAgent::Answer { id, reply: Box::new(reply) });
        self.outlet.is_idle();
        self.outlet.send_line(&answer);
        self.done.push_back(Done { id, request, answer });
        if self.done.len() > KEPT {
            self.done.pop_front();
        }
    }

    fn again(&self, id: u64, request: &AgentRequest) {
        let known = self.done.iter().find(|done| done.id == id);
        if let Some(done) = known.filter(|done| done.request == *request) {
            self.outlet.send_line(&done.answer);
            return;
        }
        let why = match known {
            Some(_) => format!("another request had the number {id}"),
            None => format!("the request {id} is not the next, and its answer is not kept"),
        };
        let failure = WireFailure::stopped(ExitClass::Bug, why, None);
        let reply = Box::new(Reply::Failed(Box::new(failure)));
        self.outlet.send(&FromAgent::Answer { id, reply });
    }
}
