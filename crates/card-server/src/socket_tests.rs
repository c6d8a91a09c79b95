//! Tests of the control socket against other users, dead servers and hostile clients.

use std::io::{BufRead, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::SocketAddr;
use std::sync::mpsc::channel;

use flashfit_test_support::{AttemptKind, attempted};

use super::*;
use crate::live::tests::serving;

fn place_in(folder: &Path) -> PathBuf {
    let place = folder.join(format!("place-{}", std::process::id()));
    std::fs::write(&place, "").unwrap();
    place
}

fn private(folder: &Path) -> PathBuf {
    let directory = folder.join("control");
    DirBuilder::new().mode(0o700).create(&directory).unwrap();
    directory
}

#[test]
fn a_name_that_is_about_to_be_given_up_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (place, directory) = (place_in(folder.path()), private(folder.path()));
    let before = listen_in(&directory, &place).unwrap();
    let waiting = std::thread::spawn(move || listen_in(&directory, &place).map(drop));
    std::thread::sleep(3 * RETRY);
    assert!(!waiting.is_finished());
    drop(before);
    assert!(waiting.join().unwrap().is_ok());
}

#[test]
fn an_abstract_socket_of_the_old_name_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (place, directory) = (place_in(folder.path()), private(folder.path()));
    let name = format!("flashfit-card-{}", name(&place).unwrap());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let _squatter = UnixListener::bind_addr(&address).unwrap();
    let began = Instant::now();
    listen_in(&directory, &place).unwrap();
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn sockets_of_dead_servers_are_removed_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (place, directory) = (place_in(folder.path()), private(folder.path()));
    let own = directory.join(name(&place).unwrap());
    drop(UnixListener::bind(&own).unwrap());
    drop(UnixListener::bind(directory.join("dead")).unwrap());
    let _alive = UnixListener::bind(directory.join("alive")).unwrap();
    std::fs::write(directory.join("file"), "").unwrap();
    symlink(directory.join("dead"), directory.join("link")).unwrap();
    let socket = listen_in(&directory, &place).unwrap();
    let names = || {
        let mut names: Vec<String> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert!(!names().contains(&"dead".to_owned()));
    drop(socket);
    assert_eq!(names(), ["alive", "file", "link"]);
}

#[test]
fn a_directory_that_others_can_change_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (place, directory) = (place_in(folder.path()), private(folder.path()));
    let link = folder.path().join("link");
    symlink(&directory, &link).unwrap();
    listen_in(&link, &place).unwrap_err();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
    listen_in(&directory, &place).unwrap_err();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&directory, Some(65534), None).unwrap();
        listen_in(&directory, &place).unwrap_err();
    }
}

#[test]
fn hostile_clients_neither_stop_nor_block_the_card() {
    let folder = tempfile::tempdir().unwrap();
    let (place, directory) = (place_in(folder.path()), private(folder.path()));
    let socket = listen_in(&directory, &place).unwrap();
    let (listener, (stop, stopped)) = (socket.listener(), channel());
    let control = ControlServer { card: serving(&[]), place: "/dev/loop7".into(), stop };
    std::thread::spawn(move || answer(&listener, &control));
    let path = directory.join(name(&place).unwrap());
    let client = |sent: &[u8]| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(3 * PATIENCE)).unwrap();
        // The card may end the connection before all is sent.
        let _ = stream.write_all(sent);
        stream
    };
    let question = b"{\"version\":1,\"request\":\"counters\"}\n";
    let counters = |stream: UnixStream| {
        let mut text = String::new();
        // A reset says that the client was sent away.
        let _ = BufReader::new(stream).read_line(&mut text);
        text.contains("host_written_bytes")
    };
    let too_much = vec![b'x'; 1 << 20];
    let sent: [&[u8]; 5] = [b"", b"{\"version\"", b"\0\xff\n", b"[[[[\n", &too_much];
    let kept: Vec<UnixStream> = sent.iter().map(|sent| client(sent)).collect();
    assert!(counters(client(question)), "while others say nothing");
    let flood: Vec<UnixStream> = (0..2 * MOST_CLIENTS).map(|_| client(b"{")).collect();
    attempted(AttemptKind::HostileClient, kept.len() + flood.len() + 1);
    // One that sends a byte now and then is given up as well.
    let mut slow = client(b"{");
    let began = Instant::now();
    while began.elapsed() < PATIENCE + Duration::from_secs(1) {
        let _ = slow.write_all(b" ");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(counters(client(question)), "all of them were given up");
    assert!(stopped.try_recv().is_err(), "nobody may stop the card so");
    drop((kept, flood));
}
