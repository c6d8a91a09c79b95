//! Tests with labgrid's coordinator, exporter and client, and boards with SSH and power switches.
//! Skipped without labgrid or sshd (see scripts/lab-for-tests.sh).

#![expect(clippy::print_stdout, reason = "prints logs of failed tests")]

mod killed;
#[expect(dead_code, reason = "tests of the whole program use other boards")]
mod rack;

use std::sync::Arc;
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;
use flashfit_host::{Program, ProgramError, ProgramOutcome, Runner, SystemRunner};
use flashfit_lab::{Lab, LabError, LockState, LockedPlace, PowerState, Tags};
use flashfit_user_error::{ExitClass, UserError};

use rack::{Rack, wait_until};

const LIMIT: Duration = Duration::from_secs(60);

fn tags(text: &str) -> Tags {
    text.parse().expect("tags")
}

fn locked(lab: &Lab, text: &str) -> LockedPlace {
    lab.reserve(&tags(text)).and_then(|queued| queued.lock(LIMIT)).expect("it becomes free")
}

#[test]
#[ignore = "full: runs a lab"]
fn boards_are_reserved_locked_switched_and_released() {
    let Some(rack) = Rack::start() else { return };
    let lab = rack.open();
    let names = |text| {
        let places = lab.all_matching(&tags(text)).unwrap();
        places.into_iter().map(|place| place.name).collect::<Vec<_>>()
    };
    assert_eq!(names("pool=pf"), ["board1", "board2"]);
    assert_eq!(names("pool=pf,nr=2"), ["board2"]);
    let error = lab.reserve(&tags("pool=other")).unwrap_err();
    assert!(matches!(error, LabError::NoMatch { .. }), "{error}");

    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| locked(&lab, "pool=pf,nr=1"));
        let two = scope.spawn(|| lab.lock("board2", LIMIT).unwrap());
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_eq!((one.name(), two.name()), ("board1", "board2"));
    assert_eq!(one.confirm().unwrap(), LockState::Kept);
    for (board, place) in [(1, &one), (2, &two)] {
        let address = place.ssh().unwrap();
        assert!(rack.board(board).is_reached_by(&address));
        place.power_off().unwrap();
        assert!(!rack.board(board).is_reached_by(&address));
        place.power_on().unwrap();
        assert!(rack.board(board).is_reached_by(&address));
    }
    one.power_off().unwrap();
    assert_eq!(one.power().unwrap(), PowerState::Off);
    one.power_cycle(Duration::from_millis(200)).unwrap();
    assert_eq!(one.power().unwrap(), PowerState::On);
    assert_eq!(two.power().unwrap(), PowerState::Unknown, "a command cannot report the state");

    assert_eq!(rack.records(), 1);
    one.release().unwrap();
    drop(two);
    lab.close().unwrap();
    rack.assert_all_released();
}

#[test]
#[ignore = "full: runs a lab"]
fn places_of_other_users_are_reported_and_not_touched() {
    let Some(rack) = Rack::start() else { return };
    assert!(rack.client("desk", "bob", &["-p", "board1", "lock"]).contains("acquired"));
    let lab = rack.open();
    let error = lab.lock_now("board1").unwrap_err();
    assert!(matches!(&error, LabError::Taken { owner, .. } if owner == "desk/bob"), "{error}");
    assert!(error.hint().unwrap().contains("release-from desk/bob"));
    let error = lab.lock("board1", Duration::from_secs(5)).unwrap_err();
    assert!(matches!(&error, LabError::NoneFree { .. }), "{error}");
    assert!(error.to_string().contains("board1 is locked by desk/bob"), "{error}");
    let error = lab.lock_now("board").unwrap_err();
    assert!(error.to_string().contains("board"), "{error}");

    rack.client("desk", "bob", &["reserve", "nr=2"]);
    let error = lab.lock_now("board2").unwrap_err();
    assert!(matches!(&error, LabError::Reserved { owner, .. } if owner == "desk/bob"), "{error}");
    drop(lab);
    let places = rack.client("desk", "bob", &["-v", "places"]);
    assert!(places.contains("acquired: desk/bob"), "{places}");
    assert_eq!(rack.records(), 0);
    // The next in the queue gets a place when it is released.
    let lab = rack.open();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| locked(&lab, "pool=pf,nr=1"));
        wait_until("it waits", || {
            rack.client("desk", "bob", &["reservations"]).contains("state: waiting")
        });
        rack.client("desk", "bob", &["-p", "board1", "unlock"]);
        assert_eq!(waiting.join().unwrap().name(), "board1");
    });
}

#[test]
#[ignore = "full: runs a lab"]
fn locks_are_regained_after_a_restart_of_the_coordinator() {
    let Some(mut rack) = Rack::start() else { return };
    let mut settings = rack.settings();
    settings.patience = Duration::from_secs(2);
    let runner = || Arc::new(SystemRunner::default());
    let hasty = Lab::open(settings, runner(), runner()).unwrap();
    let patient = rack.open();
    let (one, two) = (locked(&patient, "nr=1"), locked(&hasty, "nr=2"));

    rack.kill_coordinator();
    let error = two.power_off().unwrap_err();
    assert!(matches!(error, LabError::Unreachable { .. }), "{error}");
    assert_eq!(error.class(), ExitClass::Environment);
    std::thread::scope(|scope| {
        let switched = scope.spawn(|| one.power_off());
        std::thread::sleep(Duration::from_secs(2));
        rack.start_coordinator();
        switched.join().unwrap().unwrap();
    });
    assert_eq!(one.power().unwrap(), PowerState::Off);
    assert_eq!(one.confirm().unwrap(), LockState::Kept, "switching regained the lock");
    // The other lock was not regained; another user takes the place.
    wait_until("bob gets it", || {
        rack.client("desk", "bob", &["-p", "board2", "lock"]).contains("acquired place board2")
    });
    let error = two.power_off().unwrap_err();
    assert!(matches!(&error, LabError::Taken { owner, .. } if owner == "desk/bob"), "{error}");
    assert!(rack.board(2).has_power(), "bob's board has lost its power");
    two.release().unwrap();
    assert!(rack.client("desk", "bob", &["-p", "board2", "unlock"]).contains("released"));
    one.release().unwrap();
    drop((patient, hasty));
    rack.assert_all_released();
}

#[test]
#[ignore = "full: runs a lab"]
fn failing_switches_and_exporters_are_reported_and_places_released() {
    let Some(mut rack) = Rack::start() else { return };
    let mut settings = rack.settings();
    settings.environment = None;
    let runner = || Arc::new(SystemRunner::default());
    let lab = Lab::open(settings, runner(), runner()).unwrap();
    let (one, two) = (locked(&lab, "nr=1"), locked(&lab, "nr=2"));
    let error = two.power_off().unwrap_err();
    assert!(matches!(error, LabError::NoPower { .. }), "{error}");
    rack.break_relay(1);
    let error = one.power_off().unwrap_err();
    assert!(matches!(error, LabError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("500 Server Error"), "{error}");
    rack.kill_exporter();
    wait_until("the coordinator has noticed", || {
        matches!(one.ssh(), Err(LabError::ExporterAway { .. }))
    });
    let error = one.power_off().unwrap_err();
    assert!(matches!(error, LabError::ExporterAway { .. }), "{error}");
    drop((one, two));
    let error = lab.lock_now("board1").unwrap_err();
    assert!(matches!(error, LabError::ExporterAway { .. }), "{error}");
    drop(lab);
    rack.assert_all_released();
}

/// Reports calls with this word as interrupted although they succeeded.
struct CutOff(&'static str);

impl Runner for CutOff {
    fn run(&self, program: &Program) -> Result<ProgramOutcome, ProgramError> {
        let outcome = SystemRunner::default().run(program)?;
        if program.arguments().iter().any(|word| word == self.0) {
            return Err(ProgramError::Interrupted { during: outcome.command_line });
        }
        Ok(outcome)
    }
}

#[test]
#[ignore = "full: runs a lab"]
fn locks_of_an_interrupted_call_are_released() {
    let Some(rack) = Rack::start() else { return };
    for word in ["reserve", "lock"] {
        let end = Arc::new(SystemRunner::default());
        let lab = Lab::open(rack.settings(), Arc::new(CutOff(word)), end).unwrap();
        let error = lab.lock("board1", LIMIT).unwrap_err();
        assert_eq!(error.class(), ExitClass::Interrupted, "{error}");
        let (kind, taken) = match word {
            "lock" => ("places", "acquired: "),
            _ => ("reservations", "owner: "),
        };
        let listed = rack.client("desk", "bob", &["-v", kind]);
        assert!(listed.contains(&format!("{taken}{}", lab.owner())), "{listed}");
        drop(lab);
        rack.assert_all_released();
    }
}

/// A runner whose calls never reach the coordinator.
struct NoConnection;

impl Runner for NoConnection {
    fn run(&self, _: &Program) -> Result<ProgramOutcome, ProgramError> {
        let stderr = "Server error: Error: Could not connect to coordinator\n".to_owned();
        Ok(ProgramOutcome { code: Some(1), stderr, ..ProgramOutcome::default() })
    }
}

#[test]
#[ignore = "full: runs a lab"]
fn locks_that_could_not_be_released_are_released_at_the_next_start() {
    let Some(rack) = Rack::start() else { return };
    let work = Arc::new(SystemRunner::default());
    let lab = Lab::open(rack.settings(), work, Arc::new(NoConnection)).unwrap();
    let owner = lab.owner();
    let both = (locked(&lab, "nr=1"), locked(&lab, "nr=2"));
    let started = Instant::now();
    drop(both);
    assert!(started.elapsed() < Duration::from_secs(20), "each of four releases was retried");
    let error = lab.close().unwrap_err();
    assert!(matches!(error, LabError::Unreachable { .. }), "{error}");
    assert_eq!(rack.records(), 1);

    let end = Arc::new(SystemRunner::default());
    let lab = Lab::open(rack.settings(), Arc::new(NoConnection), end).unwrap();
    assert_eq!(lab.still_held()[0].owner, owner);
    assert_eq!(rack.records(), 1);
    drop(lab);
    let lab = rack.open();
    assert_eq!(
        (lab.recovered(), lab.still_held()),
        (&["board1".into(), "board2".into()][..], &[][..])
    );
    drop(lab);
    rack.assert_all_released();
}

#[test]
#[ignore = "full: runs a lab"]
fn a_board_gets_its_power_back_after_an_interrupt() {
    let Some(rack) = Rack::start() else { return };
    let interrupt = Interrupt::new();
    let lab = rack.open_with(SystemRunner::new(interrupt.clone()));
    let place = lab.reserve(&tags("pool=pf,name=board1")).unwrap().lock(LIMIT).unwrap();
    place.power_off().unwrap();
    assert!(!rack.board(1).has_power());
    interrupt.raise();
    assert_eq!(place.power().unwrap_err().class(), ExitClass::Interrupted);
    place.power_on().unwrap();
    assert!(rack.board(1).has_power());
    place.release().unwrap();
    lab.close().unwrap();
    rack.assert_all_released();
}

#[test]
#[ignore = "full: runs a lab"]
fn an_interrupt_at_any_moment_leaves_no_lock() {
    let Some(rack) = Rack::start() else { return };
    for delay_ms in [300, 900, 1300, 1900, 2600, 3400] {
        let interrupt = Interrupt::new();
        let lab = rack.open_with(SystemRunner::new(interrupt.clone()));
        std::thread::scope(|scope| {
            let work = scope.spawn(|| -> Result<(), LabError> {
                let place = lab.reserve(&tags("pool=pf"))?.lock(LIMIT)?;
                loop {
                    place.power()?;
                }
            });
            std::thread::sleep(Duration::from_millis(delay_ms));
            interrupt.raise();
            let error = work.join().unwrap().unwrap_err();
            assert_eq!(error.class(), ExitClass::Interrupted, "{error}");
        });
        lab.close().unwrap();
        rack.assert_all_released();
    }
}
