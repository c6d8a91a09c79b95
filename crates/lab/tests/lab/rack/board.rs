//! A board of the test lab: a machine with SSH on loopback and a power switch. Here it is an sshd
//! of the test's user, which runs while the board is on.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flashfit_host::SshAddress;

pub trait Board: Send + Sync {
    /// Port of its sshd on 127.0.0.1.
    fn port(&self) -> u16;

    fn user(&self) -> String;

    /// The key file of that user.
    fn key(&self) -> PathBuf;

    /// Switches the board on or off.
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

/// A board with its own directory; initially off.
pub struct SshdBoard {
    folder: PathBuf,
    port: u16,
}

impl SshdBoard {
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
        // The port of an sshd that was just killed may be in use for a moment; a new one then ends
        // after it has gone to the background. Power off also ends the connections, which are
        // children of the listening sshd.
        let switch = format!(
            "cd {dir} || exit 1\n\
             case $1 in\n\
             on) tries=0\n\
             until [ -e pid ]; do\n\
             [ $tries -lt 200 ] || exit 1\n\
             [ $((tries % 20)) != 0 ] || {sshd} -f {dir}/sshd_config -E {dir}/log\n\
             tries=$((tries + 1)); sleep 0.05; done ;;\n\
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
        // The output does not matter.
        sh.output().expect("it runs");
    }

    fn has_power(&self) -> bool {
        self.folder.join("pid").exists()
    }
}

/// Creates a key pair without a passphrase.
pub fn make_key(file: &Path) {
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file);
    assert!(keygen.status().expect("it runs").success(), "{keygen:?}");
}

/// An unused port below 32768, which the kernel does not use for outgoing connections while the
/// board is off.
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
