//! Data on standard output, everything else on standard error.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use flashfit_report::text::wrap;

use crate::charset::shown;
use crate::command_error::CommandError;
use crate::schemas::{self, JsonDocument};
use flashfit_user_error::ExitClass;

/// Whether a whole document was printed, after which none follows.
static IS_ANSWERED: AtomicBool = AtomicBool::new(false);

/// Prints an error as a document, unless the answer was printed before: a bad verdict is both.
pub fn json_error<T: JsonDocument>(error: &T) -> Result<(), CommandError> {
    if IS_ANSWERED.load(Ordering::Relaxed) {
        return Ok(());
    }
    print_utf8(&(schemas::error_text(error) + "\n"))
}

/// Prints text to standard output, as the locale can show it. A reader that has gone away is not an
/// error.
pub fn print(text: &str) -> Result<(), CommandError> {
    print_utf8(&shown(text))
}

/// Prints a document, which is UTF-8 whatever the locale.
pub fn print_utf8(text: &str) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(CommandError::new(
            ExitClass::Environment,
            format!("cannot write to standard output: {error}"),
            Some("make room where it goes, or send it elsewhere, as in: flashfit ... > FILE"),
        )),
        _ => Ok(()),
    }
}

/// Prints a document that was made elsewhere, after which none follows.
pub fn whole_document(text: &str) -> Result<(), CommandError> {
    IS_ANSWERED.store(true, Ordering::Relaxed);
    print_utf8(text)
}

/// Prints one JSON document.
pub fn json<T: JsonDocument>(data: T) -> Result<(), CommandError> {
    whole_document(&(schemas::text(data) + "\n"))
}

/// The same document on one line.
pub fn json_line<T: JsonDocument>(data: T) -> Result<(), CommandError> {
    print_utf8(&(schemas::line(data) + "\n"))
}

/// Prints a line with its own schema and version, for a program that watches.
pub fn whole_line<T: JsonDocument>(line: &T) {
    let line = serde_json::to_string(line).expect("documents are plain data");
    // A reader that has gone away does not end a run that takes hours.
    let _ = print_utf8(&(line + "\n"));
}

/// Prints sentences to standard output, folded to its width, with indented lines left whole.
pub fn print_with_commands(text: &str) -> Result<(), CommandError> {
    let fold = |line: &str| match line.starts_with("  ") {
        true => vec![line.to_owned()],
        false => wrap(line, width()),
    };
    let lines: Vec<String> = text.lines().flat_map(fold).collect();
    print(&(lines.join("\n") + "\n"))
}

/// Prints a message for the user on standard error.
pub fn note(text: &str) {
    let mut out = anstream::stderr().lock();
    let width = width_of(std::io::stderr());
    for line in shown(text).lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        for part in wrap(line, width.saturating_sub(indent.len())) {
            // Nothing can be done about a closed standard error.
            let _ = writeln!(out, "{indent}{part}");
        }
    }
}

/// Prints a message for the user on standard error, with indented lines left whole: commands are
/// copied.
pub fn note_with_commands(text: &str) {
    for line in text.lines() {
        if line.starts_with("  ") {
            // Nothing can be done about a closed standard error.
            let _ = writeln!(anstream::stderr().lock(), "{}", shown(line));
        } else {
            note(line);
        }
    }
}

/// Warns the user on standard error.
pub fn warn(text: &str) {
    note(&format!("warning: {text}"));
}

/// How wide the terminal is; 80 columns where that is not known, and for text that is not for a
/// terminal, whose tables are as wide as their cells.
pub fn width() -> usize {
    width_of(std::io::stdout())
}

fn width_of(stream: impl std::os::fd::AsFd) -> usize {
    rustix::termios::tcgetwinsize(stream)
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns >= 40)
        .unwrap_or(80)
}
