//! Values in the text of a tool: a line for each, its name first.

use flashfit_host::{Program, ProgramOutcome, Runner};

use super::FactsError;

/// What a tool printed.
pub(super) struct ToolLines {
    outcome: ProgramOutcome,
}

impl ToolLines {
    /// Runs a tool that changes nothing.
    pub(super) fn of(runner: &dyn Runner, program: &Program) -> Result<Self, FactsError> {
        // Their names are looked for, so they must not be translated.
        let outcome = runner.run_checked(&program.clone().env("LC_ALL", "C"))?;
        Ok(Self { outcome })
    }

    /// What follows the name at the start of a line, without a colon or an equals sign.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.outcome.stdout.lines().find_map(|line| {
            let rest = line.trim_start().strip_prefix(name)?;
            let begins = rest.starts_with([' ', '\t', ':', '=']);
            begins.then(|| rest.trim_start_matches([' ', '\t', ':', '=']).trim_end())
        })
    }

    /// The number behind a name.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.split_whitespace().next()?.parse().ok()
    }

    /// The number behind a name that must be there.
    pub(super) fn needed(&self, name: &str) -> Result<u64, FactsError> {
        self.number(name).ok_or_else(|| FactsError::UnexpectedOutput {
            command_line: self.outcome.command_line.clone(),
            what: format!("its `{name}`"),
        })
    }

    pub(super) fn all(&self) -> &str {
        &self.outcome.stdout
    }
}
