//! Arguments for serving a simulated card.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use flashfit_card_client::protocol::STOP_WAIT;
use flashfit_card_server::ServeOptions;

/// How a card is served; the same for the command and for the process that it starts.
#[derive(Debug, Args)]
pub struct ServingArgs {
    /// Serve the card over NBD on this Unix socket; works without root.
    #[arg(long, value_name = "SOCKET")]
    pub nbd: Option<PathBuf>,
    /// Load the state of the card from this file if it exists, and save it there at the end.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Keep the card's data in an unnamed file in this directory instead of in memory.
    #[arg(long, value_name = "DIR")]
    pub keep_data: Option<PathBuf>,
    /// Keep overwritten data this many milliseconds, for `card cut --fault rollback`.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub history_ms: u64,
    /// Record all writes, discards and flushes in this new file.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// How long the last user of the device may take at the end; for slow machines.
    #[arg(long, value_name = "SECONDS", default_value_t = STOP_WAIT.as_secs(), hide = true)]
    pub stop_wait_s: u64,
}

impl ServingArgs {
    /// As the card server takes them.
    pub fn options(&self) -> ServeOptions {
        ServeOptions {
            nbd: self.nbd.clone(),
            state: self.state.clone(),
            data_folder: self.keep_data.clone(),
            history_ms: self.history_ms,
            trace: self.trace.clone(),
            stop_wait: Duration::from_secs(self.stop_wait_s),
        }
    }

    /// As they are typed.
    pub fn to_args(&self) -> Vec<OsString> {
        let mut args = vec![
            "--history-ms".into(),
            self.history_ms.to_string().into(),
            "--stop-wait-s".into(),
            self.stop_wait_s.to_string().into(),
        ];
        let paths = [
            ("--nbd", &self.nbd),
            ("--state", &self.state),
            ("--keep-data", &self.keep_data),
            ("--trace", &self.trace),
        ];
        for (name, path) in paths {
            args.extend(path.iter().map(|path| {
                let mut arg = OsString::from(format!("{name}="));
                arg.push(path);
                arg
            }));
        }
        args
    }
}
