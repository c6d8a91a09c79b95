//! Delivers requests and sends answers. A request that the client repeats after a lost connection
//! gets the stored answer and is not executed again.

use std::collections::VecDeque;
use std::sync::Arc;

use flashfit_user_error::ExitClass;

use super::receiver::MessageReceiver;
use super::sender::MessageSender;
use crate::protocol::{AgentRequest, FromAgent, Reply, WireFailure, line};

/// A client repeats only its latest request; a few more are kept for error messages.
const KEPT_ANSWERS: usize = 4;

pub struct RpcServer {
    receiver: MessageReceiver,
    sender: Arc<MessageSender>,
    done: VecDeque<Done>,
    last: u64,
}

struct Done {
    id: u64,
    request: AgentRequest,
    answer: String,
}

impl RpcServer {
    pub fn new(receiver: MessageReceiver, sender: Arc<MessageSender>) -> Self {
        Self { receiver, sender, done: VecDeque::new(), last: 0 }
    }

    /// The next new request, or `None` when it is time to end.
    pub fn next(&mut self) -> Option<(u64, AgentRequest)> {
        loop {
            let (id, request) = self.receiver.next()?;
            if id > self.last {
                self.last = id;
                self.sender.start_request(id);
                return Some((id, request));
            }
            self.repeat_answer(id, &request);
        }
    }

    pub fn answer(&mut self, id: u64, request: AgentRequest, reply: Reply) {
        let answer = line(&FromAgent::Answer { id, reply: Box::new(reply) });
        self.sender.end_request();
        self.sender.send_line(&answer);
        self.done.push_back(Done { id, request, answer });
        if self.done.len() > KEPT_ANSWERS {
            self.done.pop_front();
        }
    }

    fn repeat_answer(&self, id: u64, request: &AgentRequest) {
        let known = self.done.iter().find(|done| done.id == id);
        if let Some(done) = known.filter(|done| done.request == *request) {
            self.sender.send_line(&done.answer);
            return;
        }
        let why = match known {
            Some(_) => format!("another request had the number {id}"),
            None => format!("request {id} is out of order, and its answer is no longer stored"),
        };
        let failure = WireFailure::stopped(ExitClass::Bug, why, None);
        let reply = Box::new(Reply::Failed(Box::new(failure)));
        self.sender.send(&FromAgent::Answer { id, reply });
    }
}
