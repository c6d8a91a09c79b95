//! How another machine is reached by ssh(1).

/// Where and how: what stands behind `ssh`, before a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SshAddress {
    /// As ssh takes it: `HOST`, `USER@HOST`, `ssh://USER@HOST:PORT`.
    pub host: String,
    /// Further arguments of ssh, before the host.
    pub options: Vec<String>,
}

impl SshAddress {
    /// The arguments of ssh that lead to the machine; a command may follow.
    pub fn arguments(&self) -> Vec<String> {
        let words = ["--".to_owned(), self.host.clone()];
        self.options.iter().cloned().chain(words).collect()
    }
}
