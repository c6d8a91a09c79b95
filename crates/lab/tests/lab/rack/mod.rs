//! A lab for tests: labgrid's coordinator and exporter on loopback, and two boards.
//!
//! Board 1 has a power switch of labgrid's model `rest`; board 2 is switched by a command in an
//! environment file, or by PDUDaemon with its driver for commands.

pub mod board;
mod relay;

use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flashfit_host::program::find;
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_lab::{Lab, LabSettings};
use flashfit_test_support::{TestNeed, skip};

use board::{Board, SshdBoard, free_port};
use relay::Relay;

/// Enough on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The command that switches board 2 over HTTP.
const SWITCH: &str = "\
import sys, urllib.request as web
web.urlopen(web.Request(sys.argv[1], data=sys.argv[2].encode(), method='PUT'), timeout=50)
";

/// The directory of labgrid's programs, and sshd.
struct Programs {
    labgrid: PathBuf,
    sshd: PathBuf,
}

impl Programs {
    fn find() -> Result<Self, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
            PathBuf::from,
        );
        let labgrid = target.join("labgrid/bin");
        if !labgrid.join("labgrid-client").exists() {
            return Err("labgrid is not installed (sh scripts/lab-for-tests.sh)".to_owned());
        }
        for needed in ["ssh", "ssh-keygen", "ps"] {
            find(needed).ok_or_else(|| format!("{needed} is not installed"))?;
        }
        let sshd = find("sshd").ok_or("sshd is not installed (apt-get install openssh-server)")?;
        Ok(Self { labgrid: labgrid.canonicalize().expect("it exists"), sshd })
    }
}

/// What switches board 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondSwitch {
    /// A command that the user's environment file names.
    Command,
    /// PDUDaemon on this port, which the lab exports.
    PduDaemon { port: u16 },
}

impl SecondSwitch {
    pub fn pdudaemon() -> Self {
        Self::PduDaemon { port: free_port() }
    }
}

/// The test lab, stopped on drop.
pub struct Rack {
    folder: tempfile::TempDir,
    programs: Programs,
    port: u16,
    second: SecondSwitch,
    coordinator: Option<Child>,
    exporter: Option<Child>,
    pdudaemon: Option<Child>,
    boards: [Arc<dyn Board>; 2],
    relays: [Relay; 2],
}

impl Rack {
    /// A rack with two boards that are switched on; `None`, recorded as a skip, without labgrid.
    pub fn start() -> Option<Self> {
        let programs = match Programs::find() {
            Ok(programs) => programs,
            Err(reason) => {
                assert!(skip(Some(TestNeed::Labgrid.missing(reason))));
                return None;
            }
        };
        if rustix::process::geteuid().is_root() {
            // sshd needs its privilege separation directory.
            std::fs::create_dir_all("/run/sshd").expect("root can make it");
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let boards = [1, 2].map(|number| {
            let board = SshdBoard::make(folder_of(folder.path(), number), &programs.sshd);
            board.switch(true);
            Arc::new(board) as Arc<dyn Board>
        });
        Some(Self::around(folder, programs, boards, SecondSwitch::Command))
    }

    /// What this machine lacks for a rack.
    pub fn lacking() -> Option<String> {
        Programs::find().err()
    }

    /// What this machine lacks for PDUDaemon.
    pub fn lacking_pdudaemon() -> Option<String> {
        let found = Programs::find().map(|programs| programs.labgrid.join("pdudaemon").exists());
        let missing = "PDUDaemon is not installed (sh scripts/lab-for-tests.sh)".to_owned();
        found.map_or_else(Some, |is_there| (!is_there).then_some(missing))
    }

    /// A rack with these boards.
    pub fn with(boards: [Arc<dyn Board>; 2], second: SecondSwitch) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let programs = Programs::find().expect("what it lacks was asked");
        Self::around(folder, programs, boards, second)
    }

    fn around(
        folder: tempfile::TempDir,
        programs: Programs,
        boards: [Arc<dyn Board>; 2],
        second: SecondSwitch,
    ) -> Self {
        let relays = boards.each_ref().map(|board| Relay::start(Arc::clone(board)));
        let (port, coordinator, exporter, pdudaemon) = (free_port(), None, None, None);
        let mut rack = Self {
            folder,
            programs,
            port,
            second,
            coordinator,
            exporter,
            pdudaemon,
            boards,
            relays,
        };
        rack.write_lab();
        rack.start_pdudaemon();
        rack.start_coordinator();
        rack.start_exporter();
        rack.wait_for_exporter();
        rack
    }

    pub fn board(&self, number: usize) -> &dyn Board {
        self.boards[number - 1].as_ref()
    }

    /// The directory of board 1 or 2, if it is an sshd.
    pub fn folder_of(&self, number: usize) -> PathBuf {
        folder_of(self.folder.path(), number)
    }

    /// Makes the power switch of board 1 or 2 report errors.
    pub fn break_relay(&self, number: usize) {
        self.relays[number - 1].break_down();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The files of coordinator, exporter, client and PDUDaemon.
    fn write_lab(&self) {
        let [relay, switch] = self.relays.each_ref().map(Relay::url);
        let [one, two] = self.boards.each_ref().map(|board| {
            let (port, user) = (board.port(), board.user());
            format!("NetworkService: {{address: 127.0.0.1, port: {port}, username: {user}}}")
        });
        std::fs::write(self.path("switch.py"), SWITCH).expect("a file");
        let python = self.programs.labgrid.join("python");
        let command = format!("{} {}", python.display(), self.path("switch.py").display());
        let (exported, drivers) = match self.second {
            SecondSwitch::Command => {
                let on_off =
                    format!("cmd_on: '{command} {switch} 1', cmd_off: '{command} {switch} 0'");
                (String::new(), format!("{{ExternalPowerDriver: {{{on_off}}}}}"))
            }
            SecondSwitch::PduDaemon { port } => {
                // It replaces `%s` with the index of the socket.
                let switch = switch.replace("{index}", "%s");
                self.write_pdudaemon(port, &format!("{command} {switch}"));
                let resource = format!("{{host: '127.0.0.1:{port}', pdu: shelf, index: 2}}");
                (format!("  PDUDaemonPort: {resource}\n"), "{}".to_owned())
            }
        };
        let exporter = format!(
            "board1:\n  NetworkPowerPort: {{model: rest, host: '{relay}', index: 1}}\n  {one}\n\
             board2:\n{exported}  {two}\n"
        );
        std::fs::write(self.path("exporter.yaml"), exporter).expect("a file");
        let environment = format!(
            "targets:\n  main:\n    resources:\n      RemotePlace: {{name: board2}}\n    \
             drivers: {drivers}\n"
        );
        std::fs::write(self.path("environment.yaml"), environment).expect("a file");
        // In the coordinator's own format, so that they survive its restarts.
        let place = |board: u16| {
            let group = format!("exporter: rack1, group: board{board}, cls: '*'");
            format!(
                "board{board}:\n  aliases: []\n  comment: ''\n  \
                 tags: {{pool: pf, nr: '{board}'}}\n  \
                 matches:\n  - {{{group}, name: null, rename: null}}\n  \
                 created: 1.0\n  changed: 1.0\n"
            )
        };
        std::fs::write(self.path("places.yaml"), place(1) + &place(2)).expect("a file");
    }

    fn write_pdudaemon(&self, port: u16, command: &str) {
        let settings = serde_json::json!({
            "daemon": {"hostname": "127.0.0.1", "port": port, "listener": "http"},
            "pdus": {"shelf": {
                "driver": "localcmdline",
                "cmd_on": format!("{command} 1"),
                "cmd_off": format!("{command} 0"),
            }},
        });
        std::fs::write(self.path("pdudaemon.conf"), settings.to_string()).expect("a file");
    }

    fn start_pdudaemon(&mut self) {
        let SecondSwitch::PduDaemon { port } = self.second else { return };
        self.pdudaemon = Some(self.spawn("pdudaemon", &["--conf", "pdudaemon.conf"]));
        let address = format!("127.0.0.1:{port}");
        wait_until("PDUDaemon listens", || TcpStream::connect(&address).is_ok());
    }

    /// What coordinator, exporter and PDUDaemon have logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Starts the coordinator and waits until it listens.
    pub fn start_coordinator(&mut self) {
        let address = format!("127.0.0.1:{}", self.port);
        self.coordinator = Some(self.spawn("labgrid-coordinator", &["-l", &address]));
        wait_until("the coordinator listens", || TcpStream::connect(&address).is_ok());
    }

    pub fn kill_coordinator(&mut self) {
        end(self.coordinator.take());
    }

    /// The exporter ends when it loses the coordinator; a loop restarts it, like its service.
    fn start_exporter(&mut self) {
        let program = self.programs.labgrid.join("labgrid-exporter");
        let again = format!(
            "while :; do {} -c 127.0.0.1:{} -n rack1 --hostname localhost exporter.yaml; \
             sleep 1; done",
            program.display(),
            self.port
        );
        self.exporter = Some(self.spawn_in_group(Command::new("sh").args(["-c", &again])));
    }

    /// Kills the exporter for good.
    pub fn kill_exporter(&mut self) {
        end(self.exporter.take());
    }

    fn wait_for_exporter(&self) {
        wait_until("the exporter has exported", || {
            self.client("hand", "someone", &["resources"]).matches("NetworkService").count() == 2
        });
    }

    fn spawn(&self, program: &str, args: &[&str]) -> Child {
        self.spawn_in_group(Command::new(self.programs.labgrid.join(program)).args(args))
    }

    fn spawn_in_group(&self, command: &mut Command) -> Child {
        let log = std::fs::File::options().create(true).append(true).open(self.path("log"));
        let log = log.expect("a file");
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log)
            .process_group(0)
            .spawn()
            .expect("it starts")
    }

    /// Calls `labgrid-client` as another user and returns its output.
    pub fn client(&self, host: &str, user: &str, args: &[&str]) -> String {
        let program = Program::new(self.programs.labgrid.join("labgrid-client").to_string_lossy())
            .args(["--coordinator", &format!("127.0.0.1:{}", self.port)])
            .args(args.iter().copied())
            .env("LG_HOSTNAME", host)
            .env("LG_USERNAME", user)
            .timeout(LIMIT);
        let outcome = SystemRunner::default().run(&program).expect("it runs");
        outcome.stdout + &outcome.stderr
    }

    pub fn settings(&self) -> LabSettings {
        LabSettings {
            client: self.programs.labgrid.join("labgrid-client").display().to_string(),
            coordinator: format!("127.0.0.1:{}", self.port),
            environment: Some(self.path("environment.yaml")),
            proxy: None,
            resource: None,
            records: self.path("records"),
            patience: LIMIT,
        }
    }

    pub fn open(&self) -> Lab {
        self.open_with(SystemRunner::default())
    }

    pub fn open_with(&self, work: SystemRunner) -> Lab {
        let end = Arc::new(SystemRunner::default());
        Lab::open(self.settings(), Arc::new(work), end).expect("it opens")
    }

    /// Asserts that no place is locked, nothing is reserved and no record exists.
    #[track_caller]
    pub fn assert_all_released(&self) {
        let places = self.client("hand", "someone", &["-v", "places"]);
        assert_eq!(places.matches("acquired: None").count(), 2, "{places}");
        let reservations = self.client("hand", "someone", &["reservations"]);
        assert_eq!(reservations, "");
        assert_eq!(self.records(), 0, "a record is left");
    }

    pub fn records(&self) -> usize {
        std::fs::read_dir(self.path("records")).map_or(0, |entries| {
            let is_record = |path: PathBuf| path.extension().is_some_and(|end| end == "json");
            entries.flatten().filter(|entry| is_record(entry.path())).count()
        })
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        end(self.exporter.take());
        end(self.coordinator.take());
        end(self.pdudaemon.take());
        self.boards.iter().for_each(|board| board.switch(false));
        if std::thread::panicking() {
            println!("{}", self.log());
        }
    }
}

fn folder_of(rack: &Path, number: usize) -> PathBuf {
    rack.join(format!("board{number}"))
}

fn end(child: Option<Child>) {
    if let Some(mut child) = child {
        let group = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        child.wait().expect("it was ours");
    }
}

#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < LIMIT, "{what}: not within {} s", LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(100));
    }
}
