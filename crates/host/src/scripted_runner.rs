//! A [`Runner`] for tests that returns scripted outcomes.

use std::sync::Mutex;
use std::time::Duration;

use crate::program::{Program, ProgramError, ProgramOutcome, Runner};

#[derive(Debug, Default)]
pub struct ScriptedRunner {
    answers: Vec<(String, ProgramOutcome)>,
    calls: Mutex<Vec<String>>,
}

impl ScriptedRunner {
    /// Every program is missing until [`ScriptedRunner::answer`] adds it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns `outcome` for command lines that start with `prefix`. The first match wins.
    #[must_use]
    pub fn answer(mut self, prefix: &str, outcome: ProgramOutcome) -> Self {
        self.answers.push((prefix.to_owned(), outcome));
        self
    }

    /// The command lines of all calls, in order.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().expect("no test panics while it holds the lock").clone()
    }
}

impl Runner for ScriptedRunner {
    fn run(&self, program: &Program) -> Result<ProgramOutcome, ProgramError> {
        let command_line = program.command_line();
        self.calls
            .lock()
            .expect("no test panics while it holds the lock")
            .push(command_line.clone());
        self.answers
            .iter()
            .find(|(prefix, _)| command_line.starts_with(prefix))
            .map(|(_, outcome)| ProgramOutcome { command_line, ..outcome.clone() })
            .ok_or_else(|| ProgramError::Missing { name: program.name.clone() })
    }

    fn wait(&self, _time: Duration) -> Result<(), ProgramError> {
        Ok(())
    }
}
