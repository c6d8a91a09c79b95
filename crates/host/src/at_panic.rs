//! What is done before a panic ends the process. The program does not unwind: its panic hook calls
//! [`run`] and exits, so `Drop` does not run. The kernel unmounts, detaches and kills children, as
//! after SIGKILL; only what it does not know of is registered here.
//! Limit: what was registered is done once, and not if the process is killed.

use std::sync::{Mutex, PoisonError};

type Action = Box<dyn FnOnce() + Send>;

static ACTIONS: Mutex<Registered> = Mutex::new(Registered { last_id: 0, actions: Vec::new() });

struct Registered {
    last_id: u64,
    actions: Vec<(u64, Action)>,
}

/// An action that is done at a panic as long as this exists.
#[derive(Debug)]
#[must_use]
pub struct AtPanic(u64);

impl AtPanic {
    /// The action must not wait for a lock that a panicking thread may hold.
    pub fn new(action: impl FnOnce() + Send + 'static) -> Self {
        let mut registered = ACTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        registered.last_id += 1;
        let id = registered.last_id;
        registered.actions.push((id, Box::new(action)));
        Self(id)
    }
}

impl Drop for AtPanic {
    fn drop(&mut self) {
        let mut registered = ACTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let position = registered.actions.iter().position(|(id, _)| *id == self.0);
        let action = position.map(|position| registered.actions.remove(position));
        // What it owns may itself unregister something.
        drop(registered);
        drop(action);
    }
}

/// Does what is registered, the last first.
pub fn run() {
    loop {
        let mut registered = ACTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let last = registered.actions.pop();
        drop(registered);
        let Some((_, action)) = last else { return };
        action();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_still_needed_is_done_in_reverse_and_once() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let action = |number: u32| {
            let done = Arc::clone(&done);
            AtPanic::new(move || done.lock().unwrap().push(number))
        };
        let (_first, second, _third) = (action(1), action(2), action(3));
        drop(second);
        run();
        run();
        assert_eq!(*done.lock().unwrap(), [3, 1]);
    }
}
