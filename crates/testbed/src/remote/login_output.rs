//! What a login shell on another machine prints before it runs a command: a message of the day in
//! `.bashrc`, for example. The command prints a line that separates its output from that.

use std::io::{Error, ErrorKind, Read, Result};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;
use flashfit_host::waiting::is_readable;

/// The line after which the command's own output begins.
const SEPARATOR: &str = "flashfit-begins-here";
/// More is not the output of a login.
const MAX_BYTES: usize = 1 << 20;
/// How often an interrupt is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How much of the output is quoted.
const QUOTED_CHARS: usize = 60;

/// A shell command that does the same as `command`, and first prints the separator.
pub(super) fn separated(command: &str) -> String {
    // Output before it may lack the end of its line.
    format!("echo; echo {SEPARATOR}; {command}")
}

/// What a command printed, without what came before the separator. `None` without a separator: the
/// command was not run.
pub(super) fn after(output: &str) -> Option<&str> {
    let mut rest = output;
    while let Some((line, next)) = rest.split_once('\n') {
        if line.trim_end() == SEPARATOR {
            return Some(next);
        }
        rest = next;
    }
    None
}

/// Why nothing came after this output.
pub(super) fn explain(output: &str) -> String {
    let first = output.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let first: String = first.chars().take(QUOTED_CHARS).collect();
    format!("the login shell there printed `{first}` and did not run flashfit")
}

/// Reads up to the separator, and not more. At an early end, the next read finds the end again.
///
/// # Errors
/// If the stream cannot be read, or ends or goes on without a separator after other output.
pub(super) fn skip(input: &mut impl Read) -> Result<()> {
    let mut seen = Vec::new();
    let mut byte = [0];
    loop {
        let is_end = input.read(&mut byte)? == 0;
        if !is_end {
            seen.push(byte[0]);
        }
        if byte[0] == b'\n' && after(&String::from_utf8_lossy(last_line(&seen))).is_some() {
            return Ok(());
        }
        if is_end || seen.len() > MAX_BYTES {
            let text = String::from_utf8_lossy(&seen);
            return if text.trim().is_empty() { Ok(()) } else { Err(Error::other(explain(&text))) };
        }
    }
}

/// The same until `deadline` or an interrupt, which are errors of the kind
/// [`ErrorKind::TimedOut`].
///
/// # Errors
/// Those of [`skip`], too.
pub(super) fn skip_until(
    input: &mut (impl Read + AsFd),
    deadline: Instant,
    interrupt: &Interrupt,
) -> Result<()> {
    skip(&mut Limited { input, deadline, interrupt })
}

/// Reads while there is time.
struct Limited<'a, R> {
    input: &'a mut R,
    deadline: Instant,
    interrupt: &'a Interrupt,
}

impl<R: Read + AsFd> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let now = Instant::now();
            if self.interrupt.is_raised() || now >= self.deadline {
                return Err(ErrorKind::TimedOut.into());
            }
            let until = self.deadline.min(now + POLL_INTERVAL);
            if is_readable(self.input.as_fd(), until)? {
                return self.input.read(buffer);
            }
        }
    }
}

/// The last line with its end.
fn last_line(text: &[u8]) -> &[u8] {
    let before = text.len().saturating_sub(1);
    let begin = text[..before].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    &text[begin..]
}

/// The output of a command that [`separated`] made, without what came before.
pub(super) struct AfterLogin<R> {
    input: R,
    has_begun: bool,
}

impl<R> AfterLogin<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, has_begun: false }
    }
}

impl<R: Read> Read for AfterLogin<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if !self.has_begun {
            skip(&mut self.input)?;
            self.has_begun = true;
        }
        self.input.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sent: &[u8]) -> Result<String> {
        let mut text = String::new();
        AfterLogin::new(sent).read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn output_of_a_login_is_skipped() {
        let shell = |rc: &str| {
            let script = format!("{rc}\n{}", separated("echo '{}'"));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(after(&text), Some("{}\n"), "{text}");
            read(&output.stdout).unwrap()
        };
        for rc in
            ["", "echo Welcome", "echo; echo '{\"x\":1}'", "printf 'no end'", "printf '\\377'"]
        {
            assert_eq!(shell(rc), "{}\n", "{rc}");
        }
    }

    #[test]
    fn a_login_that_hangs_ends_with_the_time_or_an_interrupt() {
        let (mut near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        let interrupt = Interrupt::new();
        let mut skip = |limit| skip_until(&mut near, Instant::now() + limit, &interrupt);
        let long = Duration::from_secs(3600);
        std::io::Write::write_all(&mut far, b"Welcome\n").unwrap();
        let late = skip(Duration::from_millis(50)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        std::io::Write::write_all(&mut far, format!("{SEPARATOR}\n{{}}").as_bytes()).unwrap();
        skip(long).unwrap();
        let mut first = [0; 2];
        near.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"{}", "more than the separator was read");
        interrupt.raise();
        let raised = skip_until(&mut near, Instant::now() + long, &interrupt).unwrap_err();
        assert_eq!(raised.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn a_shell_that_runs_nothing_is_quoted() {
        let why = read(b"\nThis account is not available.\n").unwrap_err().to_string();
        assert!(why.contains("printed `This account is not available.`"), "{why}");
        assert_eq!(after("This account is not available.\n"), None);
        assert_eq!(read(b"").unwrap(), "");
        let endless = std::io::repeat(b'x');
        assert!(AfterLogin::new(endless).read(&mut [0; 8]).is_err());
    }
}
