//! The client name of a flashfit process in a lab.
//!
//! In labgrid, locks belong to the client name `HOST/USER`, not to a connection. A unique name per
//! process ensures that a release never touches locks of the same user's other processes. The user
//! part is the real user, who can release the locks by hand.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use flashfit_host::{Program, Runner};
use serde::{Deserialize, Serialize};

/// Contained in every name created here.
const MARK: &str = ".flashfit-";

/// A client name of labgrid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// The part before the slash.
    pub(crate) host: String,
    /// The part after it.
    pub(crate) user: String,
}

impl Owner {
    /// A unique name for this process.
    pub(crate) fn of_this_process(runner: &dyn Runner) -> Self {
        let host = variable(&["LG_HOSTNAME"])
            .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
        // The order of Python's `getpass.getuser`, which labgrid uses.
        let user = variable(&["LG_USERNAME", "LOGNAME", "USER", "LNAME", "USERNAME"])
            .or_else(|| user_of_process(runner))
            .unwrap_or_else(|| format!("uid{}", rustix::process::geteuid().as_raw()));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let id = format!("{}-{:x}", std::process::id(), since.as_nanos());
        Self { host: format!("{}{MARK}{id}", plain(&host)), user: plain(&user) }
    }

    /// Whether this or another process of flashfit created the name.
    pub(crate) fn is_ours(&self) -> bool {
        self.host.contains(MARK)
    }
}

fn variable(names: &[&str]) -> Option<String> {
    names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty())
}

fn user_of_process(runner: &dyn Runner) -> Option<String> {
    let name = runner.run_checked(&Program::new("id").arg("-un")).ok()?.stdout;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// labgrid splits names at the slash.
fn plain(text: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    text.chars().map(keep).collect()
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.user)
    }
}

#[cfg(test)]
mod tests {
    use flashfit_host::program::ScriptedRunner;

    use super::*;

    #[test]
    fn each_name_is_unique_and_recognized_as_ours() {
        let runner = ScriptedRunner::new();
        let (one, other) = (Owner::of_this_process(&runner), Owner::of_this_process(&runner));
        assert_ne!(one, other);
        assert!(one.is_ours());
        assert_eq!(one.to_string().matches('/').count(), 1);
        let by_hand = Owner { host: "bench".into(), user: one.user.clone() };
        assert!(!by_hand.is_ours());
    }

    #[test]
    fn names_have_no_slash_or_space() {
        assert_eq!(plain("a/b c-1.x"), "a_b_c-1.x");
    }
}
