//! A minimal client of QEMU's monitor protocol (QMP).
//!
//! After a greeting, messages are JSON objects, one per line. Events may come at any time and are
//! ignored. Source: QEMU's `docs/interop/qmp-spec.txt`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::VmError;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to the monitor of a running QEMU.
pub(crate) struct Monitor(BufReader<UnixStream>);

impl Monitor {
    pub(crate) fn connect(socket: &Path) -> Result<Self, VmError> {
        let stream = UnixStream::connect(socket).map_err(VmError::file("connect to", socket))?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(VmError::file("use", socket))?;
        let mut monitor = Self(BufReader::new(stream));
        monitor.line("greet")?;
        monitor.execute("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// Executes a command and returns its result.
    pub(crate) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, VmError> {
        let refused = |why: String| VmError::Monitor { what: command.to_owned(), why };
        let line = json!({ "execute": command, "arguments": arguments }).to_string();
        let sent = self.0.get_mut().write_all((line + "\n").as_bytes());
        sent.map_err(|error| refused(error.to_string()))?;
        loop {
            let mut answer = self.line(command)?;
            if let Some(error) = answer.get("error") {
                return Err(refused(error["desc"].as_str().unwrap_or("no reason").to_owned()));
            }
            if answer.get("return").is_some() {
                return Ok(answer["return"].take());
            }
        }
    }

    fn line(&mut self, command: &str) -> Result<Value, VmError> {
        let refused = |why: String| VmError::Monitor { what: command.to_owned(), why };
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => Err(refused("it has ended".to_owned())),
            Ok(_) => {
                serde_json::from_slice(line.as_bytes()).map_err(|error| refused(error.to_string()))
            }
            Err(error) => Err(refused(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn results_events_and_errors_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("monitor");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut heard = BufReader::new(stream.try_clone().unwrap()).lines();
            let answers = [
                "{\"return\": {}}",
                "{\"event\": \"STOP\"}\n{\"return\": {\"status\": \"running\"}}",
                "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no such thing\"}}",
            ];
            stream.write_all(b"{\"QMP\": {}}\n").unwrap();
            let said: Vec<String> = answers
                .iter()
                .map(|answer| {
                    let line = heard.next().unwrap().unwrap();
                    stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
                    line
                })
                .collect();
            said
        });
        let mut monitor = Monitor::connect(&socket).unwrap();
        assert_eq!(monitor.execute("query-status", json!({})).unwrap()["status"], "running");
        let error = monitor.execute("nonsense", json!({ "a": 1 })).unwrap_err();
        assert_eq!(error.to_string(), "QEMU refuses to nonsense: no such thing");
        let said = server.join().unwrap();
        assert!(said[0].contains("qmp_capabilities") && said[2].contains("\"a\":1"), "{said:?}");
        assert!(monitor.execute("quit", json!({})).is_err());
    }
}
