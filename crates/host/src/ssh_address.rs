//! The address of a machine for ssh(1).

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SshAddress {
    /// `HOST`, `USER@HOST` or `ssh://USER@HOST:PORT`.
    pub host: String,
    /// Further ssh arguments before the host.
    pub options: Vec<String>,
}

impl SshAddress {
    /// The arguments of ssh before the remote command.
    pub fn arguments(&self) -> Vec<String> {
        let words = ["--".to_owned(), self.host.clone()];
        self.options.iter().cloned().chain(words).collect()
    }
}
