//! What stands in the rack: a machine that ssh reaches on loopback and that has a power switch. The
//! one here is an sshd of the test's own user, whose power is whether it runs.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flashfit_host::SshAddress;

/// A board.
pub trait Board: Send + Sync {
    /// Where its sshd listens on 127.0.0.1.
    fn port(&self) -> u16;

    /// Who logs in there.
    fn user(&self) -> String;

    /// The file of that user's key.
    fn key(&self) -> PathBuf;

    /// Gives it power, or takes it away.
    fn switch(&self, on: bool);

    /// Whether its switch is on.
    fn has_power(&self) -> bool;

    /// Whether `ssh ADDRESS true` works.
    fn is_reached_by(&self, address: &SshAddress) -> bool {
        let mut ssh = Command::new("ssh");
        ssh.arg("-i").arg(self.key()).args(["-F", "none", "-o", "BatchMode=yes"]);
        let status = ssh.args(address.arguments()).arg("true").stderr(Stdio::null()).status();
        status.expect("ssh runs").success()
    }
}

/// A board with its files in a folder of its own; without power at first.
pub struct SshdBoard {
    folder: PathBuf,
    port: u16,
}

impl SshdBoard {
    /// Makes its keys, its configuration and its switch.
    pub fn make(folder: PathBuf, sshd: &Path) -> Self {
        std::fs::create_dir(&folder).expect("a folder");
        for key in ["host", "user"] {
            make_key(&folder.join(key));
        }
        let port = free_port();
        let (sshd, dir) = (sshd.display(), folder.display());
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {dir}/host\nPidFile {dir}/pid\n\
             AuthorizedKeysFile {dir}/user.pub\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\n"
        );
        std::fs::write(folder.join("sshd_config"), config).expect("a file");
        // Power off ends the connections too, which are children of the sshd that listens.
        let switch = format!(
            "cd {dir} || exit 1\n\
             case $1 in\n\
             on) [ -e pid ] || {sshd} -f {dir}/sshd_config -E {dir}/log || exit 1\n\
             until [ -e pid ]; do sleep 0.05; done ;;\n\
             off) [ -e pid ] || exit 0\n\
             pid=$(cat pid)\n\
             kill -9 $pid $(ps -o pid= --ppid $pid); rm -f pid ;;\n\
             esac\n"
        );
        std::fs::write(folder.join("switch.sh"), switch).expect("a file");
        Self { folder, port }
    }
}

impl Board for SshdBoard {
    fn port(&self) -> u16 {
        self.port
    }

    fn user(&self) -> String {
        let id = Command::new("id").arg("-un").output().expect("it runs").stdout;
        String::from_utf8(id).expect("a name").trim().to_owned()
    }

    fn key(&self) -> PathBuf {
        self.folder.join("user")
    }

    fn switch(&self, on: bool) {
        let mut sh = Command::new("sh");
        sh.arg(self.folder.join("switch.sh")).arg(if on { "on" } else { "off" });
        // What it has been told before, and what it says, do not matter.
        sh.output().expect("it runs");
    }

    fn has_power(&self) -> bool {
        self.folder.join("pid").exists()
    }
}

/// Makes a key without a passphrase, and its public half beside it.
pub fn make_key(file: &Path) {
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file);
    assert!(keygen.status().expect("it runs").success(), "{keygen:?}");
}

/// A port that nobody listens on just now, and that no outgoing connection is given while its
/// board is switched off: those begin at 32768.
pub fn free_port() -> u16 {
    let mut random = RandomState::new().build_hasher();
    loop {
        random.write_u8(0);
        let port = 10_000 + u16::try_from(random.finish() % 20_000).expect("below 20,000");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
