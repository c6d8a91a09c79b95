//! `flashfit card serve --state`: files that are not overwritten, and states that cannot be saved.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::card::Serving;
use crate::fixture::{Ended, FAST_CARD, FLASHFIT, Place, skip_without_cards};
use crate::machine::{Server, children, signal, wait_for_no_traces};

const NBD: [&str; 5] = ["card", "serve", "card.toml", "--nbd", "socket"];

fn serve(place: &Place, more: &[&str]) -> Ended {
    place.flashfit(&[&NBD, more].concat())
}

/// Serves the card over NBD and ends it, which saves its state.
fn saved(place: &Place, more: &[&str]) {
    let serving = Serving::of(place.command(&[&NBD, more].concat()));
    serving.end(Signal::INT).said(0, &[]);
}

#[test]
fn a_file_that_is_not_a_state_is_not_overwritten() {
    let place = Place::new();
    let theirs = "a user's data";
    for file in ["theirs", "yarn.lock", "empty"] {
        place.file(file, if file == "empty" { "" } else { theirs });
    }
    symlink("theirs", place.path("link")).unwrap();
    symlink("nothing", place.path("dangling")).unwrap();
    let _listening = std::os::unix::net::UnixListener::bind(place.path("listening")).unwrap();
    for (state, why) in [
        ("theirs", "not a saved card"),
        ("link", "not a saved card"),
        ("empty", "not a saved card"),
        ("dangling", "a link to a file that does not exist"),
        ("listening", "it is a socket"),
        ("yarn", "yarn.lock exists and is not a lock file of flashfit"),
        ("socket", "the state and the NBD socket"),
        ("./socket", "the state and the NBD socket"),
    ] {
        let refused = serve(&place, &["--state", state]);
        assert!(matches!(refused.code, Some(2 | 3)), "{state}: {refused:?}");
        refused.said(refused.code.unwrap(), &[why, "hint: name another file"]);
    }
    let refused = serve(&place, &["--state", "new", "--trace", "./new"]);
    refused.said(2, &["the state and the trace", "hint: name another file"]);
    for file in ["theirs", "yarn.lock"] {
        assert_eq!(std::fs::read_to_string(place.path(file)).unwrap(), theirs);
    }
    assert!(place.path("dangling").is_symlink());
    for file in ["yarn", "new", "socket", "theirs.lock"] {
        assert!(!place.path(file).exists(), "{file}");
    }
}

#[test]
fn a_file_that_appears_meanwhile_is_not_overwritten() {
    let place = Place::new();
    let rescue = place.path("rescue");
    std::fs::create_dir(&rescue).unwrap();
    let mut command = place.command(&[&NBD[..], &["--state", "card.state"]].concat());
    let serving = Serving::of({
        command.env("TMPDIR", &rescue);
        command
    });
    place.file("card.state", "a user's data");
    let ended = serving.end(Signal::INT);
    ended.said(5, &["card.state is not a saved card", "it is saved in", "hint: "]);
    assert_eq!(std::fs::read_to_string(place.path("card.state")).unwrap(), "a user's data");
    saved(&place, &["--state", rescued(&rescue).to_str().unwrap()]);
}

/// The one state that was saved in a directory for temporary files.
fn rescued(folder: &Path) -> std::path::PathBuf {
    let mut all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let own = all.next().expect("a rescued state");
    assert!(all.next().is_none(), "one rescued state");
    assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::read_dir(own).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn the_state_of_another_card_is_named() {
    let place = Place::new();
    saved(&place, &["--state", "card.state"]);
    let before = std::fs::read(place.path("card.state")).unwrap();
    let other = FAST_CARD.replace("\"fast\"", "\"other\"");
    let larger = FAST_CARD.replace("160MiB", "192MiB");
    let slower = FAST_CARD.replace("program_ns = 2000", "program_ns = 3000");
    for (card, what) in [
        (other, "has the state of card `fast`, not of `other`"),
        (larger, "another card `fast`: 160 MiB, not 192 MiB"),
        (slower, "another card `fast`: its card file was changed"),
    ] {
        place.file("card.toml", &card);
        let refused = serve(&place, &["--state", "card.state"]);
        refused.said(2, &["card.state", what, "hint: serve the card that was saved, or name"]);
    }
    assert_eq!(std::fs::read(place.path("card.state")).unwrap(), before);
}

/// A service manager sends the signal to all processes of a service.
#[test]
fn a_card_whose_process_is_asked_to_end_is_saved() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let serving = Serving::new(&place, &["--state", "card.state"]);
    crate::card::write_all_synced(&serving.at, &[7; 4096]);
    let server = Server::of(&place);
    signal(server.process, Signal::TERM);
    serving.ended().said(0, &[]);
    let again = Serving::new(&place, &["--state", "card.state"]);
    assert_eq!(crate::card::byte_at(&again.at, 4095), 7);
    again.end(Signal::INT).said(0, &[]);
    wait_for_no_traces(&place, None);
}

#[test]
fn a_card_that_was_saved_without_power_says_so() {
    let place = Place::new();
    for (fault, note) in [
        (&[][..], "note: this card was saved without power"),
        (&["--fault", "brick"], "note: this saved card was bricked"),
    ] {
        let _ = std::fs::remove_file(place.path("card.state"));
        let args = [&NBD[..], &["--state", "card.state"]].concat();
        let serving = Serving::of(place.command(&args));
        place.flashfit(&[&["card", "cut", serving.arg()], fault].concat()).said(0, &[]);
        serving.end(Signal::INT).said(0, &[]);
        let again = Serving::of(place.command(&args));
        again.end(Signal::INT).said(0, &[note]);
    }
}

/// The process that was asked to end waits until the state is saved, and says where it is.
#[test]
fn further_signals_do_not_hide_what_becomes_of_a_state() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let serving = Serving::new(&place, &["--state", "card.state", "--stop-wait-s", "3"]);
    let user = std::fs::File::open(&serving.at).unwrap();
    let process = serving.child.as_ref().unwrap().id();
    for _ in 0..3 {
        signal(process, Signal::INT);
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let ended = serving.ended();
    drop(user);
    let kill = "\n  kill -9 ";
    ended.said(5, &["not ended: the card's state is not yet in card.state", kill]);
    ended.said(5, &["still in use", "; its state is saved in ", "/card.state"]);
    wait_for_no_traces(&place, None);
    saved(&place, &["--state", "card.state"]);
}

#[test]
fn nothing_is_promised_of_a_state_that_does_not_exist() {
    let place = Place::new();
    std::fs::create_dir(place.path("states")).unwrap();
    let args = [&NBD[..], &["--state", "states/s"]].concat();
    let killed = || {
        let serving = Serving::of(place.command(&args));
        let server = children(serving.child.as_ref().unwrap().id());
        signal(server[0], Signal::KILL);
        serving.ended()
    };
    killed().said(5, &["hint: nothing of it is saved; serve a new card"]);
    saved(&place, &["--state", "states/s"]);
    killed().said(5, &["hint: serve it again: its state file has it as it was"]);
    let rescue = place.path("rescue");
    std::fs::create_dir(&rescue).unwrap();
    let mut command = place.command(&args);
    command.env("TMPDIR", &rescue);
    let serving = Serving::of(command);
    std::fs::rename(place.path("states"), place.path("gone")).unwrap();
    let folder = place.folder().canonicalize().unwrap();
    let hint = format!("hint: mkdir -p {}/states && mv ", folder.display());
    serving.end(Signal::INT).said(5, &["it is saved in", &hint]);
    rescued(&rescue);
}

#[test]
fn a_state_keeps_its_permissions() {
    let place = Place::new();
    saved(&place, &["--state", "card.state"]);
    let state = place.path("card.state");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o600)).unwrap();
    saved(&place, &["--state", "card.state"]);
    assert_eq!(state.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_card_that_cannot_be_saved_is_saved_elsewhere() {
    if skip_without_cards() {
        return;
    }
    for has_room in [true, false] {
        // Not in /tmp, which is covered where no place has room.
        let place = Place::in_memory();
        for folder in ["small", "rescue"] {
            std::fs::create_dir(place.path(folder)).unwrap();
        }
        // Mounts in the command's own namespace. The state fits at first.
        let full = if has_room { "" } else { "for full in /var/tmp /tmp; do small $full; done;" };
        let script = format!(
            "small() {{ mount -t tmpfs -o size=64k tmpfs $1; }}; small small; cp old small/s && \
             {full} exec \"$0\" \"$@\""
        );
        saved(&place, &["--state", "old"]);
        let old = std::fs::read(place.path("old")).unwrap();
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--mount", "sh", "-c", &script, FLASHFIT, "card", "serve", "card.toml"])
            .args(["--state", "small/s"])
            .env("TMPDIR", if has_room { place.path("rescue") } else { "/var/tmp".into() })
            .current_dir(place.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let serving = Serving::of(unshare);
        let bytes: Vec<u8> = (0..1 << 20).map(|number: u32| (number % 251) as u8).collect();
        crate::card::write_all_synced(&serving.at, &bytes);
        let small = std::fs::read(format!(
            "/proc/{}/root{}",
            serving.child.as_ref().unwrap().id(),
            place.path("small/s").display()
        ));
        assert_eq!(small.unwrap(), old);
        let ended = serving.end(Signal::INT);
        ended.said(5, &["is not saved", "small/s: No space left"]);
        if has_room {
            ended.said(5, &["it is saved in", "hint: make room there, then: mv "]);
            let state = rescued(&place.path("rescue"));
            let again = Serving::new(&place, &["--state", state.to_str().unwrap()]);
            assert_eq!(crate::card::byte_at(&again.at, 249), 249);
            again.end(Signal::INT).said(0, &[]);
        } else {
            ended.said(5, &["is lost", "hint: make room there", "--state FILE"]);
        }
        wait_for_no_traces(&place, None);
    }
}
