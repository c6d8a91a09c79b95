//! An error on its way out: what is printed of it, and the exit code.

use std::io::Write;

use schemars::JsonSchema;
use serde::Serialize;

use flashfit_report::text::plain;
use flashfit_testbed::TrialError;
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::charset::shown;
use crate::{hints, output};

/// Any error of the crates, ready to be shown.
#[derive(Debug)]
pub struct CommandError {
    message: String,
    hint: Option<String>,
    class: ExitClass,
}

impl CommandError {
    /// An error of this crate's own.
    pub fn new(class: ExitClass, message: impl Into<String>, hint: Option<&str>) -> Self {
        Self { message: message.into(), hint: hint.map(str::to_owned), class }
    }

    /// Several errors as one, with a line each; class and hint are those of the first.
    ///
    /// # Panics
    /// Without an error.
    pub fn joined(errors: impl IntoIterator<Item = Self>) -> Self {
        let join = |mut all: Self, next: Self| {
            all.message = format!("{}\n{}", all.message, next.message);
            all
        };
        errors.into_iter().reduce(join).expect("at least one error")
    }

    /// What happened, where, as a sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    #[cfg(test)]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// What decides the exit code.
    pub fn class(&self) -> ExitClass {
        self.class
    }

    /// Says before the message where it was.
    pub fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Puts the real directory where a hint says `DIR`.
    pub fn in_dir(mut self, dir: &str) -> Self {
        self.hint = self.hint.map(|hint| hint.replace("--resume DIR", &format!("--resume {dir}")));
        self
    }

    /// This hint, and nothing else.
    pub fn with_hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }

    /// This hint, unless there is one.
    pub fn or_hint(mut self, hint: &str) -> Self {
        self.hint.get_or_insert_with(|| hint.to_owned());
        self
    }

    /// The hint, continued with these words.
    pub fn and_hint(mut self, more: &str) -> Self {
        if let Some(hint) = &mut self.hint {
            hint.push_str(more);
        }
        self
    }

    /// As an error of a test bed, whose hint is text.
    pub fn into_trial_error(self) -> TrialError {
        let Self { message, hint, class } = self;
        TrialError::Stopped { message, class, hint: hint.as_deref().map(Hint::from) }
    }

    /// Prints it as a document to standard output, for a script that asked for one and got none.
    pub fn show_json(&self) {
        let Self { message, hint, class } = self;
        let error = ErrorDocument { class: class.name(), message, hint: hint.as_deref() };
        // A closed standard output is not a second error.
        let _ = output::json_error(&error);
    }

    /// Prints it to standard error, control characters of device names and the like taken out.
    pub fn show(&self) {
        let mut out = anstream::stderr().lock();
        let red = anstyle::AnsiColor::Red.on_default().bold();
        // Nothing can be done about a closed standard error.
        // Later lines are indented, so that a name cannot pass for an error or a hint.
        let lines: Vec<String> =
            self.message.lines().map(|line| plain(line.trim_start())).collect();
        let message = lines.join("\n  ");
        let _ = writeln!(out, "{red}error{red:#}: {}", shown(&message));
        if let Some(hint) = &self.hint {
            let _ = writeln!(out, "hint: {}", shown(&plain(hint)));
        }
    }
}

/// An error as scripts read it.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ErrorDocument<'a> {
    class: &'static str,
    message: &'a str,
    hint: Option<&'a str>,
}

impl<E: UserError + 'static> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self { message: error.to_string(), hint: hints::hint(&error), class: error.class() }
    }
}
