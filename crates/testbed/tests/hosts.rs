//! One contract for every kind of host: this machine, an agent behind a pipe, and an agent behind a
//! socket whose connection breaks repeatedly.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flashfit_bench::{MeasurementLength, PointProfile, StartingState, Workloads};
use flashfit_device::{Bytes, ConsentMethod};
use flashfit_filesystem::{FileSystemCatalog, LayoutPlan, PartitionLayout, Scheduler, Setup};
use flashfit_geometry::Geometry;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::{SystemRunner, mountinfo};
use flashfit_test_support::{block_devices, skip};
use flashfit_testbed::agent::{self, AgentInfo};
use flashfit_testbed::protocol::AgentRequest;
use flashfit_testbed::remote::{Link, LinkEnds, LinkError, RpcClient, Timeouts};
use flashfit_testbed::{
    CardProgram, Host, LocalHost, OpenRequest, RemoteHost, Requirements, TrialError, TrialRequest,
    WriteGrant,
};
use flashfit_user_error::{ExitClass, Hint, UserError};
use tempfile::TempDir;

const VERSION: &str = "1.2.3";
const IMAGE_BYTES: u64 = 64 << 20;

fn about() -> AgentInfo {
    AgentInfo { version: VERSION.to_owned(), cards: Box::new(|_| no_cards()) }
}

fn no_cards() -> CardProgram {
    CardProgram {
        program: PathBuf::from("/bin/false"),
        args: Box::new(|_| Vec::new()),
        catalog_args: Vec::new(),
    }
}

/// Connects to an agent in a thread of this process.
struct Pipe(Interrupt);

impl Link for Pipe {
    fn connect(&mut self) -> Result<LinkEnds, LinkError> {
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        let interrupt = self.0.clone();
        std::thread::spawn(move || {
            let input = far.try_clone().expect("a second end");
            agent::serve(input, far, &about(), &interrupt).expect("an agent");
        });
        let output = near.try_clone().expect("a second end");
        Ok(LinkEnds { input: Box::new(near), output: Box::new(output) })
    }

    fn reconnect_timeout(&self) -> Duration {
        Duration::ZERO
    }

    fn last_error_line(&mut self) -> Option<String> {
        None
    }

    fn label(&self) -> String {
        "a thread".to_owned()
    }
}

/// Connects to an agent's socket; each connection breaks after some received bytes.
struct Breaking {
    socket: PathBuf,
    after_bytes: u64,
}

struct BreaksAfter(UnixStream, u64);

impl Read for BreaksAfter {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let limit = usize::try_from(self.1).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.0.read(&mut buffer[..limit])?;
        self.1 -= u64::try_from(read).expect("a length");
        if read == 0 {
            let _ = self.0.shutdown(std::net::Shutdown::Both);
        }
        Ok(read)
    }
}

impl Link for Breaking {
    fn connect(&mut self) -> Result<LinkEnds, LinkError> {
        let near = UnixStream::connect(&self.socket).map_err(|error| LinkError {
            message: format!("no agent listens: {error}"),
            hint: None,
            class: ExitClass::Io,
            is_transient: true,
        })?;
        let output = near.try_clone().expect("a second end");
        let input = BreaksAfter(near, self.after_bytes);
        // Eventually the longest reply must get through.
        self.after_bytes *= 2;
        Ok(LinkEnds { input: Box::new(input), output: Box::new(output) })
    }

    fn reconnect_timeout(&self) -> Duration {
        Duration::from_secs(20)
    }

    fn retry_interval(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn last_error_line(&mut self) -> Option<String> {
        None
    }

    fn label(&self) -> String {
        "a socket".to_owned()
    }
}

fn image(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("card.img");
    let file = std::fs::File::create(&path).expect("an image");
    file.set_len(IMAGE_BYTES).expect("room for it");
    path
}

fn is_mounted_below(folder: &Path) -> bool {
    let mounts = mountinfo::read().expect("the kernel tells its mounts");
    mounts.iter().any(|mount| mount.point.starts_with(folder))
}

/// What every host must do.
fn contract(host: &mut dyn Host, image: &Path) {
    let catalog = FileSystemCatalog::load(None).expect("the catalog");
    let workloads = Workloads::load(None).expect("the workloads");
    let capabilities = host.describe(&Requirements::of(&catalog)).expect("it is described");
    assert!(capabilities.has_program("mount") && capabilities.has_kind("ext4"), "{capabilities:?}");
    assert!(!capabilities.has_program("mkfs.nonsense"));

    let missing = host.inspect("/no/such/card.img").expect_err("there is none");
    assert_eq!(missing.class(), ExitClass::Usage, "{missing}");
    let device = host.inspect(&image.display().to_string()).expect("an image");
    assert_eq!(device.capacity, Bytes(IMAGE_BYTES));

    let refused = host.check_consent(&device, &ConsentMethod::NotAsked).expect_err("nobody agreed");
    assert!(matches!(refused, TrialError::NotAgreed { .. }), "{refused}");
    let wrong = ConsentMethod::Named("sda".to_owned());
    let refused = host.check_consent(&device, &wrong).expect_err("another's name");
    assert_eq!(refused.class(), ExitClass::Refused, "{refused}");
    let name = device.short_name();
    host.check_consent(&device, &ConsentMethod::Named(name.clone())).expect("agreed");

    let open_request = |name: &str| OpenRequest {
        grant: WriteGrant::Named { device: Box::new(device.clone()), name: name.to_owned() },
        geometry_override: Geometry::default(),
        layout: LayoutPlan {
            layout: PartitionLayout::WholeDevice,
            unit: Bytes::mib(1),
            first_unit_bytes: 0,
            reason: "for a test".to_owned(),
            second: None,
        },
        memory_bytes: 64 << 20,
        mount_dir: None,
    };
    let refused = host.open(&open_request("sda")).err().expect("the guard looks again");
    assert_eq!(refused.class(), ExitClass::Refused, "{refused}");

    let mut test_bed = host.open(&open_request(&name)).expect("it is taken over");
    let ext4 = catalog.filesystem("ext4").expect("ext4");
    let conditions = test_bed.facts().conditions_for("ext4");
    let none = Scheduler::new("none");
    let setup = Setup::new::<&str>(ext4, [], none, &conditions).expect("a setup");
    let workload = workloads.find("sync-files").expect("a workload");
    let request = |setup| TrialRequest {
        setup,
        workload,
        profile: PointProfile::Quick,
        length: MeasurementLength::Full,
        state: StartingState::default(),
        start: None,
        data_bytes: 4 << 20,
        memory_bytes: 64 << 20,
        runtime_ns: 100_000_000,
        seed: 1,
        exercise: None,
    };
    let report = test_bed.run_trial(&request(&setup)).expect("it is measured");
    assert!(!report.points.is_empty() && !report.points[0].raw_json.is_empty(), "{report:?}");
    let nonsense = Setup { filesystem: "nonsensefs".to_owned(), ..setup.clone() };
    match test_bed.run_trial(&request(&nonsense)) {
        Err(TrialError::Setup { message, .. }) => assert!(message.contains("nonsensefs")),
        other => panic!("{other:?}"),
    }
    test_bed.run_trial(&request(&setup)).expect("the next setup is not affected");
    drop(test_bed);
    let test_bed = host.open(&open_request(&name)).expect("it was given back");
    drop(test_bed);
}

/// Serializes the tests: between fork and exec, a child of one thread keeps files open on what
/// another thread is about to unmount. An agent has only one thread that starts programs.
static ATTACHING: Mutex<()> = Mutex::new(());

/// Locks [`ATTACHING`]; `None`, recorded as a skip, if this machine cannot attach devices.
fn lock_attaching() -> Option<MutexGuard<'static, ()>> {
    (!skip(block_devices())).then(|| ATTACHING.lock().unwrap_or_else(PoisonError::into_inner))
}

#[test]
fn this_machine_keeps_the_contract() {
    let Some(_alone) = lock_attaching() else { return };
    let folder = TempDir::new().expect("a folder");
    let (runner, catalog) =
        (SystemRunner::default(), FileSystemCatalog::load(None).expect("a valid catalog"));
    let (mount_dir, scratch) = (folder.path().join("mnt"), folder.path().join("scratch"));
    let mut host = LocalHost::new(&runner, &catalog, no_cards(), &mount_dir, &scratch);
    contract(&mut host, &image(&folder));
    assert!(!is_mounted_below(folder.path()));
}

#[test]
fn an_agent_behind_a_pipe_keeps_the_contract() {
    let Some(_alone) = lock_attaching() else { return };
    let folder = TempDir::new().expect("a folder");
    let (ours, theirs) = (Interrupt::new(), Interrupt::new());
    let mut host = RemoteHost::new(Pipe(theirs), "pipe", &ours, VERSION, None).expect("hello");
    contract(&mut host, &image(&folder));
}

#[test]
fn an_agent_whose_connection_breaks_keeps_the_contract() {
    let Some(_alone) = lock_attaching() else { return };
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("agent");
    let (socket, interrupt) = (agent::socket_of(&path), Interrupt::new());
    let theirs = interrupt.clone();
    let agent = std::thread::spawn(move || {
        let own = agent::AgentFolder::take(&path).expect("a new folder");
        agent::listen(own, Duration::from_secs(60), &about(), &theirs).expect("it listens");
    });
    let start = Instant::now();
    while !socket.exists() && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let link = Breaking { socket: socket.clone(), after_bytes: 100 };
    let mut host =
        RemoteHost::new(link, "socket", &Interrupt::new(), VERSION, None).expect("hello");
    contract(&mut host, &image(&folder));
    drop(host);
    agent.join().expect("it ends when it is told to");
    assert!(!socket.exists());
}

#[test]
fn an_agent_of_another_version_is_refused() {
    let error = RemoteHost::new(Pipe(Interrupt::new()), "pipe", &Interrupt::new(), "9.9", None)
        .err()
        .expect("another version");
    assert_eq!(error.class(), ExitClass::Environment);
    assert!(error.to_string().contains("9.9") && error.to_string().contains(VERSION), "{error}");
}

#[test]
fn the_users_catalog_is_sent_to_the_agent() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("filesystems/broken.toml");
    std::fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
    std::fs::write(&file, "title = 3").expect("a file");
    let interrupt = Interrupt::new();
    let catalog = Some(folder.path());
    let error = RemoteHost::new(Pipe(Interrupt::new()), "pipe", &interrupt, VERSION, catalog)
        .err()
        .expect("a broken file");
    assert!(error.to_string().contains("broken.toml"), "{error}");
}

/// Sends lines to an agent and returns everything that it answers.
fn exchange(text: &str) -> String {
    let (mut near, far) = UnixStream::pair().expect("a pair of sockets");
    let agent = std::thread::spawn(move || {
        let input = far.try_clone().expect("a second end");
        agent::serve(input, far, &about(), &Interrupt::new()).expect("an agent");
    });
    near.write_all(text.as_bytes()).expect("it listens");
    std::thread::sleep(Duration::from_millis(300));
    near.shutdown(std::net::Shutdown::Write).expect("the input is closed");
    let mut answers = String::new();
    near.read_to_string(&mut answers).expect("it answers");
    agent.join().expect("it ends with its pipe");
    answers
}

#[test]
fn a_repeated_request_is_executed_once() {
    let hello = format!(
        r#"{{"ask":{{"id":1,"request":{{"hello":{{"protocol":1,"version":"{VERSION}","catalogue":{{}}}}}}}}}}"#
    );
    let look = r#"{"ask":{"id":2,"request":{"look":{"target":"/dev/null"}}}}"#;
    let other = r#"{"ask":{"id":2,"request":{"look":{"target":"/dev/zero"}}}}"#;
    let answers = exchange(&format!("{hello}\n{look}\nnonsense\n{look}\n{other}\n"));
    let lines: Vec<&str> = answers.lines().collect();
    let of_two: Vec<&&str> = lines.iter().filter(|line| line.contains(r#""id":2"#)).collect();
    assert_eq!(of_two.len(), 3, "{answers}");
    assert_eq!(of_two[0], of_two[1], "the stored answer");
    assert!(of_two[2].contains("another request had the number 2"), "{answers}");
    assert!(lines.iter().any(|line| line.contains("unreadable")), "{answers}");
}

/// An agent that ignores requests and repeats a fixed text, and after a time says something else.
struct Repeating {
    says: &'static str,
    then: Option<(Duration, &'static str)>,
    reconnect_timeout: Duration,
}

impl Link for Repeating {
    fn connect(&mut self) -> Result<LinkEnds, LinkError> {
        let (near, mut far) = UnixStream::pair().expect("a pair of sockets");
        let (says, then, start) = (self.says, self.then, Instant::now());
        let text = move || match then {
            Some((after, text)) if start.elapsed() > after => text,
            _ => says,
        };
        std::thread::spawn(move || {
            while far.write_all(text().as_bytes()).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let output = near.try_clone().expect("a second end");
        Ok(LinkEnds { input: Box::new(near), output: Box::new(output) })
    }

    fn reconnect_timeout(&self) -> Duration {
        self.reconnect_timeout
    }

    fn last_error_line(&mut self) -> Option<String> {
        None
    }

    fn translate_hint(&self, hint: Hint) -> Hint {
        hint.from_host("a stub", None)
    }

    fn label(&self) -> String {
        "a stub".to_owned()
    }
}

/// What no test waits for, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn an_agent_that_hangs_is_reported_as_lost() {
    let short = Duration::from_millis(300);
    let silence = Timeouts { silence: short, answer: None };
    let silent = error_of("", Duration::ZERO, silence);
    assert!(silent.contains("the agent on a stub was lost: it was silent"), "{silent}");
    let answer = Timeouts { silence: LONG, answer: Some(short) };
    let busy = error_of(WORKING, Duration::ZERO, answer);
    assert!(busy.contains("did not answer"), "{busy}");
}

const WORKING: &str = "{\"working\":{\"id\":1}}\n";
const PATIENT: Timeouts = Timeouts { silence: LONG, answer: None };

fn request(
    link: Repeating,
    timeouts: Timeouts,
) -> Result<flashfit_testbed::protocol::Reply, TrialError> {
    let mut client = RpcClient::new(link, &Interrupt::new());
    client.request(AgentRequest::Close {}, timeouts, &mut || {})
}

fn error_of(says: &'static str, reconnect_timeout: Duration, timeouts: Timeouts) -> String {
    let link = Repeating { says, then: None, reconnect_timeout };
    request(link, timeouts).expect_err("no answer").to_string()
}

#[test]
fn an_invalid_message_ends_the_request_at_once() {
    let start = Instant::now();
    let mad = error_of("mad\n", LONG, PATIENT);
    assert!(mad.contains("the agent on a stub cannot be understood: it sent `mad`"), "{mad}");
    let other = error_of("{\"unreadable\":{\"reason\":\"sent `x`\"}}\n", LONG, PATIENT);
    assert!(other.contains("it reports that the client sent `x`"), "{other}");
    assert!(start.elapsed() < LONG, "it was tried again");
}

/// Programs have their time limits where they run, so a request has none while heartbeats arrive.
#[test]
fn a_request_without_a_limit_waits_while_the_agent_works() {
    let after = Duration::from_secs(2);
    let done = "{\"answer\":{\"id\":1,\"reply\":{\"done\":{}}}}\n{\"ended\":{}}\n";
    let then = Some((after, done));
    let start = Instant::now();
    let link = Repeating { says: WORKING, then, reconnect_timeout: Duration::ZERO };
    request(link, PATIENT).expect("an answer");
    assert!(start.elapsed() >= after);
}

#[test]
fn a_hint_of_the_agent_names_its_machine() {
    let failed = |hint: &str| {
        let failure = format!("{{\"stopped\":{{\"message\":\"m\",\"code\":3,\"hint\":{hint}}}}}");
        let answer = format!("{{\"id\":1,\"reply\":{{\"failed\":{failure}}}}}");
        let says = format!("{{\"answer\":{answer}}}\n{{\"ended\":{{}}}}\n").leak();
        let link = Repeating { says, then: None, reconnect_timeout: Duration::ZERO };
        request(link, PATIENT).expect_err("refused").hint()
    };
    let kill = failed(r#"[{"text":"run kill 25810"}]"#).expect("a hint");
    assert_eq!(kill, Hint::from("on a stub: ").and("run kill 25810"));
    assert_eq!(failed("null"), None);
}

#[test]
fn requests_before_hello_are_refused() {
    let answers = exchange("{\"ask\":{\"id\":1,\"request\":{\"close\":{}}}}\n");
    assert!(answers.contains("say hello first"), "{answers}");
}
