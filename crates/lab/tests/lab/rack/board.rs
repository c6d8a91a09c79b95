//! A board for tests: an sshd of the test's own user on loopback, whose power is whether it runs.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flashfit_host::SshAddress;

/// A board in a folder of its own; without power at first.
pub struct Board {
    folder: PathBuf,
    /// Where its sshd listens.
    pub port: u16,
}

impl Board {
    /// Makes its keys, its configuration and its switch.
    pub fn make(folder: PathBuf, sshd: &Path) -> Self {
        std::fs::create_dir(&folder).expect("a folder");
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(key));
            assert!(keygen.status().expect("it runs").success(), "{keygen:?}");
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
             get) [ -e pid ] && echo 1 || echo 0 ;;\n\
             esac\n"
        );
        std::fs::write(folder.join("switch.sh"), switch).expect("a file");
        Self { folder, port }
    }

    /// The script that switches it: `on`, `off`, and `get`, which prints 1 or 0.
    pub fn switch(&self) -> PathBuf {
        self.folder.join("switch.sh")
    }

    /// Switches it by hand.
    pub fn power(&self, action: &str) -> String {
        switched(&self.switch(), action)
    }

    /// Whether `ssh ADDRESS true` works.
    pub fn is_reached_by(&self, address: &SshAddress) -> bool {
        let mut ssh = Command::new("ssh");
        ssh.arg("-i").arg(self.folder.join("user")).args(["-F", "none", "-o", "BatchMode=yes"]);
        let status = ssh.args(address.arguments()).arg("true").stderr(Stdio::null()).status();
        status.expect("ssh runs").success()
    }

    /// A power switch over HTTP, as labgrid's model `rest` wants it, and the port that it listens
    /// on. It lives as long as the test's process.
    pub fn start_relay(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let switch = self.switch();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that goes away in the middle is its own business.
                let _ = answer(stream, &switch);
            }
        });
        port
    }

    /// From now on the switch over HTTP answers that it has failed.
    pub fn break_relay(&self) {
        std::fs::write(self.folder.join("broken"), "").expect("a file");
    }
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

fn switched(switch: &Path, action: &str) -> String {
    let output = Command::new("sh").arg(switch).arg(action).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// `PUT` switches, `GET` tells.
fn answer(mut stream: TcpStream, switch: &Path) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if header.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let action = match (request.starts_with("PUT"), &body[..]) {
        (true, b"1") => "on",
        (true, _) => "off",
        (false, _) => "get",
    };
    let (status, state) = if switch.with_file_name("broken").exists() {
        ("500 Broken", String::new())
    } else {
        ("200 OK", switched(switch, action))
    };
    let length = state.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{state}"
    )
}
