//! Where a lab is and how it is worked with.

use std::path::PathBuf;
use std::time::Duration;

/// Where labgrid's client looks for a coordinator that nobody named.
const USUAL_COORDINATOR: &str = "127.0.0.1:20408";

/// A lab and how to talk to it.
#[derive(Debug, Clone)]
pub struct LabSettings {
    /// labgrid's client program: a name in `PATH`, or a path.
    pub client: String,
    /// The coordinator, `HOST[:PORT]`.
    pub coordinator: String,
    /// An environment file of labgrid, for boards whose power no resource of theirs switches. It
    /// need not have the others.
    pub environment: Option<PathBuf>,
    /// The host that everything goes through, as `LG_PROXY`.
    pub proxy: Option<String>,
    /// Which resource is meant where a place has several: the `NetworkService` and the power port
    /// of this name.
    pub resource: Option<String>,
    /// The folder of the records of what is held; made where it is not there.
    pub records: PathBuf,
    /// How long to try again when the coordinator does not answer.
    pub patience: Duration,
}

impl LabSettings {
    /// What labgrid's own variables say: `LG_COORDINATOR`, `LG_ENV`, `LG_PROXY`.
    pub fn from_variables(records: PathBuf) -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            client: "labgrid-client".to_owned(),
            coordinator: variable("LG_COORDINATOR").unwrap_or_else(|| USUAL_COORDINATOR.to_owned()),
            environment: variable("LG_ENV").map(PathBuf::from),
            proxy: variable("LG_PROXY"),
            resource: None,
            records,
            patience: Duration::from_secs(60),
        }
    }
}
