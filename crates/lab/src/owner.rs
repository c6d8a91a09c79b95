//! The name under which a lab sees one process of flashfit.
//!
//! labgrid knows clients as `HOST/USER` and locks belong to that name, not to a connection. A name
//! of its own for each process makes its locks known from those that the same user took by hand
//! or in another process, so that giving back can never touch them. The user stays the real one,
//! so that they can release by hand what they started.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use flashfit_host::{Program, Runner};
use serde::{Deserialize, Serialize};

/// What every name made here contains.
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
    /// A name that no other process has.
    pub(crate) fn of_this_process(runner: &dyn Runner) -> Self {
        let host = variable(&["LG_HOSTNAME"])
            .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
        // The order of Python's `getpass.getuser`, which labgrid asks.
        let user = variable(&["LG_USERNAME", "LOGNAME", "USER", "LNAME", "USERNAME"])
            .or_else(|| user_of_process(runner))
            .unwrap_or_else(|| format!("uid{}", rustix::process::geteuid().as_raw()));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let id = format!("{}-{:x}", std::process::id(), since.as_nanos());
        Self { host: format!("{}{MARK}{id}", plain(&host)), user: plain(&user) }
    }

    /// Whether [`Owner::of_this_process`] made it, in this or another process.
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

/// labgrid takes names apart at the slash.
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
    fn each_name_is_new_and_known_as_ours() {
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
