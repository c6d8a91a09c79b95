//! An sshd on the loopback address with its own keys, which makes this machine a board.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flashfit_host::program::find;

use crate::fixture::{Place, wait_until};

/// The name of the board in tests.
pub const BOARD: &str = "ssh:board";

/// A server that accepts this user; ended on drop.
pub struct Sshd {
    child: Child,
    /// An ssh configuration that defines the host `board`.
    pub client: PathBuf,
}

impl Sshd {
    /// What this machine lacks for a server.
    pub fn lacking() -> Option<String> {
        let missing = ["sshd", "ssh", "ssh-keygen"].into_iter().find(|name| find(name).is_none());
        missing.map(|name| format!("there is no {name}"))
    }

    /// Starts a server with its files in `place`.
    pub fn start(place: &Place) -> Self {
        Self::with(place, "", "")
    }

    /// One whose users' shells print something at login, as with an `echo` in `.bashrc`.
    pub fn with_greeting(place: &Place) -> Self {
        let shell =
            "ForceCommand echo Welcome; printf '{\"x\":'; sh -c \"$SSH_ORIGINAL_COMMAND\"\n";
        Self::with(place, shell, "")
    }

    /// One with its own mounts, after this shell command.
    pub fn with_mounts(place: &Place, mount: &str) -> Self {
        Self::with(place, "", mount)
    }

    /// One that runs no command.
    pub fn without_shell(place: &Place) -> Self {
        Self::with(place, "ForceCommand echo This account is not available.\n", "")
    }

    fn with(place: &Place, more: &str, mount: &str) -> Self {
        for key in ["host_key", "user_key"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &place.arg(key)])
                .status();
            assert!(made.unwrap().success());
        }
        std::fs::copy(place.path("user_key.pub"), place.path("authorized_keys")).unwrap();
        // Unlikely to be taken by another process before sshd binds it.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\n\
             PidFile none\nStrictModes no\nPermitRootLogin yes\nUsePAM no\n{more}",
            place.arg("host_key"),
            place.arg("authorized_keys"),
        );
        let client = client_config(place, port, &place.path("user_key"));
        let server = place.file("sshd_config", &server);
        // sshd does not start without this directory.
        let _ = std::fs::create_dir_all("/run/sshd");
        let program = find("sshd").unwrap();
        let mut command = match mount {
            "" => Command::new(program),
            mount => {
                let mut command = Command::new("unshare");
                let script = format!("{mount} && exec \"$@\"");
                command.args(["--mount", "sh", "-ec", &script, "sh"]).arg(program);
                command
            }
        };
        let child = command
            .args(["-D", "-e", "-f"])
            .arg(server)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("sshd listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { child, client }
    }

    /// The command with these arguments and the ssh configuration.
    pub fn command(&self, place: &Place, args: &[&str]) -> Command {
        let mut command = place.command(args);
        command.env("FLASHFIT_SSH_CONFIG", &self.client);
        command
    }
}

/// Writes an ssh configuration that defines the host `board` with this port.
pub fn client_config(place: &Place, port: u16, key: &Path) -> PathBuf {
    let client = format!(
        "Host board\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {}\n  \
         IdentitiesOnly yes\n  UserKnownHostsFile {}\n  StrictHostKeyChecking accept-new\n",
        key.display(),
        place.arg("known_hosts"),
    );
    place.file("ssh_config", &client)
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
