//! The arguments of a probe that another machine makes. Hidden ones say how the client names its
//! files and that machine, and what its user agreed to.

use std::path::{Path, PathBuf};

use clap::Args;
use flashfit_host::path_text;
use flashfit_probe::ExpectedDevice;
use flashfit_testbed::ProbeRequest;

use super::args::ProbeArgs;
use crate::output_file::OutputKind;

/// What stands for files in the arguments; the agent puts names of its own there.
const TWIN: &str = "{twin}";
const DRAWING: &str = "{svg}";
pub const DOCUMENT: &str = "{output}";

#[derive(Debug, Args)]
pub struct ProbeClientArgs {
    /// The device as it was shown on the machine where the user agreed.
    #[arg(long, hide = true, requires = "write", value_parser = ExpectedDevice::parse)]
    pub shown: Option<ExpectedDevice>,
    /// The host by which the client reaches this machine.
    #[arg(long, hide = true, value_name = "HOST")]
    pub reached_as: Option<String>,
    /// The client's name of the file of --output.
    #[arg(long, hide = true, value_name = "FILE", value_parser = named)]
    pub client_output: Option<PathBuf>,
    /// The client's name of the file of --twin.
    #[arg(long, hide = true, value_name = "FILE", value_parser = named)]
    pub client_twin: Option<PathBuf>,
}

/// A path as [`path_text`] writes it, for clap.
fn named(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(path_text::from_text(text))
}

impl ProbeArgs {
    /// The file of the result as the user knows it.
    pub fn saved_as(&self) -> Option<&Path> {
        let own = self.output.as_deref().filter(|_| self.client.reached_as.is_none());
        own.or(self.client.client_output.as_deref())
    }

    /// The file of the twin as the user knows it.
    pub fn twin_named<'a>(&'a self, path: &'a Path) -> &'a Path {
        self.client.client_twin.as_deref().unwrap_or(path)
    }
}

/// What stands for the file of this kind.
pub fn placeholder(kind: OutputKind) -> &'static str {
    match kind {
        OutputKind::CardModel => TWIN,
        OutputKind::Drawing => DRAWING,
        _ => DOCUMENT,
    }
}

/// A request with these arguments.
pub fn request(args: Vec<String>) -> ProbeRequest {
    ProbeRequest { args, files: [TWIN, DRAWING, DOCUMENT].map(str::to_owned).into() }
}

/// The flag, if it is set.
pub fn set(flag: &str, is_set: bool) -> Option<String> {
    is_set.then(|| flag.to_owned())
}

/// The same probe as it is typed there, without consent. The document is always brought back.
pub fn words(args: &ProbeArgs, target: &str, host: &str) -> Vec<String> {
    let mut words = vec![target.to_owned(), "--seed".to_owned(), args.seed.to_string()];
    words.extend(set("--write", args.write));
    let region = args.region.map(|region| format!("{}+{}", region.start.0, region.length.0));
    let max_write = args.max_write.map(|most| most.0.to_string());
    let max_time = args.max_time.map(|most| most.to_string());
    let name = |file: &str| {
        let (path, _) = args.outputs().find(|(_, kind)| placeholder(*kind) == file)?;
        Some(path_text::to_text(path))
    };
    let has = |file: &str| name(file).is_some();
    let values = [
        ("--reached-as", Some(host.to_owned())),
        ("--region", region),
        ("--max-write", max_write),
        ("--max-time", max_time),
        ("--client-twin", name(TWIN)),
        ("--client-output", name(DOCUMENT)),
    ];
    for (flag, value) in values {
        words.extend(value.map(|value| format!("{flag}={value}")));
    }
    let files = [("--twin", TWIN), ("--svg", DRAWING), ("--output", DOCUMENT)];
    for (flag, file) in files.into_iter().filter(|(_, file)| *file == DOCUMENT || has(file)) {
        words.extend([flag.to_owned(), file.to_owned()]);
    }
    words
}
