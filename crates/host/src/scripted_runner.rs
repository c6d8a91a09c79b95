//! A runner for tests that runs nothing.

use std::sync::Mutex;

use crate::program::{Program, ProgramError, ProgramOutcome, Runner};

/// Answers from a script instead of running anything; for tests.
#[derive(Debug, Default)]
pub struct ScriptedRunner {
    answers: Vec<(String, ProgramOutcome)>,
    calls: Mutex<Vec<String>>,
}

impl ScriptedRunner {
    /// A runner to which every program is missing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A command line that starts with `prefix` ends with `outcome`. The first match answers.
    #[must_use]
    pub fn answer(mut self, prefix: &str, outcome: ProgramOutcome) -> Self {
        self.answers.push((prefix.to_owned(), outcome));
        self
    }

    /// The command lines that were asked for, in order.
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
}
