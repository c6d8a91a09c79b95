//! How to reach a lab.

use std::path::PathBuf;
use std::time::Duration;

/// The default of labgrid's client.
const DEFAULT_COORDINATOR: &str = "127.0.0.1:20408";

#[derive(Debug, Clone)]
pub struct LabSettings {
    /// labgrid's client program: a name in `PATH` or a path.
    pub client: String,
    /// The coordinator, `HOST[:PORT]`.
    pub coordinator: String,
    /// An environment file of labgrid, for boards without a power resource. Other boards may be
    /// missing in it.
    pub environment: Option<PathBuf>,
    /// The SSH proxy host, as in `LG_PROXY`.
    pub proxy: Option<String>,
    /// Name of the `NetworkService` and power port, for places with several.
    pub resource: Option<String>,
    /// Directory of the lock records; created if missing.
    pub records: PathBuf,
    /// How long to retry if the coordinator does not answer.
    pub patience: Duration,
}

impl LabSettings {
    /// Settings from labgrid's environment variables: `LG_COORDINATOR`, `LG_ENV`, `LG_PROXY`.
    pub fn from_variables(records: PathBuf) -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            client: "labgrid-client".to_owned(),
            coordinator: variable("LG_COORDINATOR")
                .unwrap_or_else(|| DEFAULT_COORDINATOR.to_owned()),
            environment: variable("LG_ENV").map(PathBuf::from),
            proxy: variable("LG_PROXY"),
            resource: None,
            records,
            patience: Duration::from_secs(60),
        }
    }
}
