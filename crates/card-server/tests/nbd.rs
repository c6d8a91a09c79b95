//! A card over NBD: real clients, and clients that do not behave. Needs no root.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/nbd_client.rs"]
mod nbd_client;
#[path = "support/serving.rs"]
mod serving;

use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flashfit_card_client::{CardProcess, ProcessError, cut, power_on, stats};
use flashfit_card_server::nbd::wire::{self, command, command_flag, error, option};
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{self as test_support, AttemptKind, TestNeed, attempted, skip};
use flashfit_user_error::UserError;
use nbd_client::{NbdClient, option_bytes};
use serving::{How, run_all, served_here, start};

const CARD: &str = r#"
name = "fast"
title = "a card for tests"
source = "none"
capacity = "24MiB"
sector_bytes = 512
[nand]
page = "16KiB"
erase_unit = "3MiB"
read_ns = 1000
program_ns = 2000
erase_ns = 10000
endurance_cycles = 1000
spare_units = 4
[bus]
command_ns = 1000
bytes_per_second = 1_000_000_000
[layer]
kind = "page-mapped"
"#;
const DISCARD: &str = "[discard]\ngranularity = \"16KiB\"\n[cache]\nbytes = \"1MiB\"\n";
const QUEUE: &str = "[queue]\ndepth = 32\n";

fn main() -> ExitCode {
    if let Some(ended) = served_here() {
        return ended;
    }
    run_all(&[
        ("libnbd_copies_and_describes", libnbd_copies_and_describes),
        ("qemu_writes_what_it_reads", qemu_writes_what_it_reads),
        ("fio_verifies_what_it_wrote", fio_verifies_what_it_wrote),
        ("requests_that_cannot_be_are_refused", requests_that_cannot_be_are_refused),
        ("a_flush_is_sent_for_a_forced_write", forced_writes_and_zeros),
        ("replies_of_a_queue_overlap", replies_of_a_queue_overlap),
        ("clients_that_do_not_behave_are_dropped", clients_that_do_not_behave),
        ("a_client_that_reads_nothing_is_dropped", a_client_that_reads_nothing),
        ("a_cut_fails_requests_until_power_on", a_cut_fails_requests),
        ("the_socket_is_its_owners_and_goes_with_the_card", the_socket),
        ("a_killed_cards_socket_is_replaced", a_killed_cards_socket),
    ])
}

struct Fixture {
    folder: tempfile::TempDir,
    card: CardProcess,
}

impl Fixture {
    fn new(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let card = Self::start_in(&folder, more).unwrap();
        Self { folder, card }
    }

    fn start_in(folder: &tempfile::TempDir, more: &str) -> Result<CardProcess, ProcessError> {
        let card = folder.path().join("fast.toml");
        std::fs::write(&card, format!("{CARD}{more}")).unwrap();
        let nbd = Some(folder.path().join("socket"));
        start(&card, &How { nbd, ..How::default() })
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.card.device().display())
    }

    fn client(&self) -> NbdClient {
        NbdClient::connect(self.card.device())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn arg(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The card goes on and ends well.
    fn goes_on(self) {
        let mut client = self.client();
        client.write(0, 4096, &[9; 512]).unwrap();
        assert_eq!(client.read(4096, 512).unwrap(), [9; 512]);
        self.card.stop().unwrap();
    }
}

/// The program's output; `None`, and the test skipped, where there is no such program.
fn output_of(name: &str, args: &[&str]) -> Option<String> {
    if skip(test_support::program(name)) {
        return None;
    }
    let program = Program::new(name).args(args.iter().copied());
    Some(SystemRunner::default().run_checked(&program).unwrap().stdout)
}

/// Bytes without a period that a client could repeat by mistake.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn libnbd_copies_and_describes() {
    for more in ["", &format!("{DISCARD}{QUEUE}")] {
        let fixture = Fixture::new(more);
        let uri = fixture.uri();
        let Some(about) = output_of("nbdinfo", &[&uri]) else { return };
        assert!(about.contains("export-size: 25165824"), "{about}");
        assert!(about.contains("block_size_minimum: 512"), "{about}");
        assert!(about.contains("can_multi_conn: true"), "{about}");
        let trims = if more.is_empty() { "can_trim: false" } else { "can_trim: true" };
        assert!(about.contains(trims), "{about}");
        let listed = output_of("nbdinfo", &["--list", &uri]).unwrap();
        assert!(listed.contains("export=\"fast\""), "{listed}");
        let bytes = pattern(24 << 20);
        std::fs::write(fixture.path("in"), &bytes).unwrap();
        let (input, back) = (fixture.arg("in"), fixture.arg("out"));
        let Some(_) = output_of("nbdcopy", &["--flush", &input, &uri]) else { return };
        output_of("nbdcopy", &[&uri, &back]).unwrap();
        assert!(std::fs::read(&back).unwrap() == bytes, "other bytes came back");
        fixture.goes_on();
    }
}

fn qemu_writes_what_it_reads() {
    let fixture = Fixture::new(DISCARD);
    let uri = fixture.uri();
    let commands = [
        "write -P 7 0 1M",
        "write -f -P 8 1M 64k",
        "write -z 512k 64k",
        "discard 768k 64k",
        "flush",
        "read -P 7 0 512k",
        "read -P 0 512k 64k",
        "read -P 0 768k 64k",
        "read -P 8 1M 64k",
    ];
    let mut args: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
    args.extend(["-f", "raw", &uri]);
    let Some(said) = output_of("qemu-io", &args) else { return };
    assert!(!said.contains("failed"), "{said}");
    let counters = fixture.card.counters().unwrap();
    assert!(counters.host_flushes >= 2, "{counters:?}");
    assert!(counters.host_discarded_bytes >= 64 << 10, "{counters:?}");
    let image = fixture.arg("image.qcow2");
    let converted = output_of("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &image]);
    if converted.is_some() {
        let compare = ["compare", "-f", "raw", "-F", "qcow2", &uri, &image];
        assert!(output_of("qemu-img", &compare).unwrap().contains("identical"));
    }
    fixture.goes_on();
}

fn fio_verifies_what_it_wrote() {
    let Some(engines) = output_of("fio", &["--enghelp"]) else { return };
    let missing = !engines.split_whitespace().any(|engine| engine == "nbd");
    if skip(missing.then(|| TestNeed::Fio.missing("this fio has no engine nbd"))) {
        return;
    }
    for more in ["", QUEUE] {
        let fixture = Fixture::new(more);
        let uri = format!("--uri={}", fixture.uri());
        let job = ["--name=x", "--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--size=8m"];
        let rest =
            ["--iodepth=16", "--verify=crc32c", "--do_verify=1", "--verify_state_save=0", &uri];
        output_of("fio", &[&job[..], &rest].concat()).unwrap();
        assert!(fixture.card.counters().unwrap().host_written_bytes >= 8 << 20);
        fixture.goes_on();
    }
}

fn requests_that_cannot_be_are_refused() {
    let fixture = Fixture::new("");
    let mut client = fixture.client();
    let end = 24 << 20;
    for (command, flags, offset, length, wanted) in [
        (command::READ, 0, 1, 512, error::EINVAL),
        (command::READ, 0, 0, 100, error::EINVAL),
        (command::READ, 0, 0, 0, error::EINVAL),
        (command::READ, 0, end, 512, error::EINVAL),
        (command::READ, 0, u64::MAX - 511, 512, error::EINVAL),
        (command::READ, 0, 0, (32 << 20) + 512, error::EINVAL),
        (command::READ, 1 << 9, 0, 512, error::EINVAL),
        (command::WRITE_ZEROES, 0, end - 512, 1024, error::ENOSPC),
        (command::WRITE_ZEROES, 1 << 4, 0, 512, error::EINVAL),
        (command::TRIM, 0, 0, 512, error::ENOTSUP),
        (77, 0, 0, 512, error::EINVAL),
    ] {
        let asked = client.ask(command, flags, offset, length, &[]);
        assert_eq!(asked, Err(wanted), "{command} {flags} {offset} {length}");
    }
    assert_eq!(client.write(0, end, &[1; 512]), Err(error::ENOSPC));
    assert_eq!(client.write(0, 0, &[1; 100]), Err(error::EINVAL));
    assert_eq!(fixture.card.counters().unwrap().host_written_bytes, 0);
    fixture.goes_on();
}

fn forced_writes_and_zeros() {
    let fixture = Fixture::new(DISCARD);
    let mut client = fixture.client();
    client.write(0, 0, &[5; 65536]).unwrap();
    assert_eq!(fixture.card.counters().unwrap().host_flushes, 0);
    client.write(command_flag::FUA, 65536, &[6; 512]).unwrap();
    assert_eq!(fixture.card.counters().unwrap().host_flushes, 1);
    let no_hole = command_flag::NO_HOLE;
    client.ask(command::WRITE_ZEROES, no_hole, 0, 16384, &[]).unwrap();
    assert_eq!(fixture.card.counters().unwrap().host_discarded_bytes, 0);
    client.ask(command::WRITE_ZEROES, 0, 32768, 16384, &[]).unwrap();
    assert_eq!(fixture.card.counters().unwrap().host_discarded_bytes, 16384);
    let bytes = client.read(0, 65536).unwrap();
    for (at, wanted) in [(0, 0), (16384, 5), (32768, 0), (49152, 5)] {
        assert!(bytes[at..at + 16384].iter().all(|&byte| byte == wanted), "at {at}");
    }
    fixture.goes_on();

    let plain = Fixture::new("");
    plain.client().write(command_flag::FUA, 0, &[6; 512]).unwrap();
    assert_eq!(plain.card.counters().unwrap().host_flushes, 0);
    plain.goes_on();
}

/// Two dies, so that a write on one and a read of the other overlap.
fn replies_of_a_queue_overlap() {
    let slow = CARD.replace("program_ns = 2000", "program_ns = 300000000");
    let folder = tempfile::tempdir().unwrap();
    let card = folder.path().join("slow.toml");
    std::fs::write(&card, format!("{slow}{QUEUE}")).unwrap();
    let nbd = Some(folder.path().join("socket"));
    let card = start(&card, &How { nbd, ..How::default() }).unwrap();
    let mut client = NbdClient::connect(card.device());
    let write =
        wire::NbdRequest { flags: 0, command: command::WRITE, cookie: 1, offset: 0, length: 16384 };
    let read = wire::NbdRequest { command: command::READ, cookie: 2, offset: 1 << 20, ..write };
    let bytes = [&write.to_bytes()[..], &[1; 16384], &read.to_bytes()].concat();
    client.stream.write_all(&bytes).unwrap();
    // What was never written is read without the NAND, long before the write is done.
    assert_eq!(client.reply().unwrap(), (2, 0));
    client.stream.read_exact(&mut [0; 16384]).unwrap();
    assert_eq!(client.reply().unwrap(), (1, 0));
    card.stop().unwrap();
}

/// The connection is closed within the time that a negotiation may take.
fn is_dropped(mut stream: UnixStream) {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let ended = stream.read_to_end(&mut Vec::new());
    let reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
    assert!(ended.is_ok() || ended.as_ref().is_err_and(reset), "{ended:?}");
}

fn clients_that_do_not_behave() {
    let fixture = Fixture::new(DISCARD);
    let socket = fixture.card.device();
    let connect = || UnixStream::connect(socket).unwrap();
    let started = Instant::now();
    // One that says nothing, and one that stops in the middle of an option; they take ten seconds.
    let silent = connect();
    let mut stopping = connect();
    stopping.write_all(&3_u32.to_be_bytes()).unwrap();
    stopping.write_all(&option_bytes(option::LIST, &[])[..9]).unwrap();

    let mut nonsense = connect();
    nonsense.write_all(&[0xff; 1000]).unwrap();
    is_dropped(nonsense);
    let mut flood = connect();
    flood.write_all(&3_u32.to_be_bytes()).unwrap();
    // It is cut off while it still sends.
    let _ = flood.write_all(&option_bytes(option::LIST, &[]).repeat(5000));
    is_dropped(flood);
    let mut wrong = fixture.client();
    wrong.stream.write_all(&[0; wire::REQUEST_BYTES]).unwrap();
    is_dropped(wrong.stream);
    let mut long = fixture.client();
    let too_long = wire::NbdRequest {
        flags: 0,
        command: command::WRITE,
        cookie: 1,
        offset: 0,
        length: u32::MAX,
    };
    long.stream.write_all(&too_long.to_bytes()).unwrap();
    is_dropped(long.stream);
    let mut leaving = fixture.client();
    leaving.stream.write_all(&too_long.to_bytes()[..20]).unwrap();
    drop(leaving);

    is_dropped(silent);
    is_dropped(stopping);
    assert!(started.elapsed() < Duration::from_secs(20));
    // More than are served at once: the last ones are sent away, and there is room again later.
    let mut many: Vec<UnixStream> = (0..20).map(|_| connect()).collect();
    is_dropped(many.pop().unwrap());
    attempted(AttemptKind::HostileClient, 7 + 20);
    drop(many);
    let room = || {
        let mut stream = connect();
        stream.read_exact(&mut [0; 18]).is_ok()
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while !room() {
        assert!(Instant::now() < deadline, "nobody is served any more");
        std::thread::sleep(Duration::from_millis(5));
    }
    fixture.goes_on();
}

fn a_client_that_reads_nothing() {
    let fixture = Fixture::new(QUEUE);
    let mut greedy = fixture.client();
    let request = wire::NbdRequest {
        flags: 0,
        command: command::READ,
        cookie: 1,
        offset: 0,
        length: 8 << 20,
    };
    greedy.stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    // Until the server takes no more of them.
    attempted(AttemptKind::HostileClient, 1);
    let many = request.to_bytes().repeat(1000);
    while greedy.stream.write_all(&many).is_ok() {}
    let mut other = fixture.client();
    assert_eq!(other.read(0, 512).unwrap(), [0; 512]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", fixture.card.id())).unwrap();
    let resident = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: u64 = resident.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 200 << 10, "{resident}");
    fixture.goes_on();
}

fn a_cut_fails_requests() {
    for more in [DISCARD.to_owned(), format!("{DISCARD}{QUEUE}")] {
        let fixture = Fixture::new(&more);
        let place = fixture.card.device();
        let mut client = fixture.client();
        client.write(command_flag::FUA, 0, &[1; 4096]).unwrap();
        client.write(0, 0, &[2; 4096]).unwrap();
        let report = cut(place, &["lost-cache=0".parse().unwrap()], 7).unwrap();
        assert!(report.is_honest() && report.lost_cache_bytes > 0, "{report:?}");
        assert_eq!(client.read(0, 4096), Err(error::EIO));
        assert_eq!(client.write(0, 0, &[3; 4096]), Err(error::EIO));
        assert_eq!(stats(place).unwrap().power_cuts, 1);
        power_on(place).unwrap();
        assert_eq!(client.read(0, 4096).unwrap(), [1; 4096]);
        fixture.goes_on();
    }
}

fn the_socket() {
    let fixture = Fixture::new("");
    let socket = fixture.card.device().to_owned();
    let mode = socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let taken = Fixture::start_in(&fixture.folder, "").unwrap_err();
    assert!(taken.to_string().contains("another process listens"), "{taken}");
    assert_eq!(taken.class().code(), 2);
    let mut client = fixture.client();
    fixture.card.stop().unwrap();
    assert!(!socket.exists());
    assert!(client.reply().is_err());

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("socket"), "a user's data").unwrap();
    let refused = Fixture::start_in(&folder, "").unwrap_err();
    assert!(refused.to_string().contains("is not a socket"), "{refused}");
    assert_eq!(refused.class().code(), 3);
    assert_eq!(std::fs::read(folder.path().join("socket")).unwrap(), b"a user's data");
}

fn a_killed_cards_socket() {
    let fixture = Fixture::new("");
    let socket = fixture.card.device().to_owned();
    let process = rustix::process::Pid::from_raw(fixture.card.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    assert!(fixture.card.stop().is_err());
    assert!(socket.metadata().unwrap().file_type().is_socket());
    let again = Fixture::start_in(&fixture.folder, "").unwrap();
    Fixture { folder: fixture.folder, card: again }.goes_on();
}
