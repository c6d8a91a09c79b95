//! Kills processes of a run at random moments and resumes it: nothing is left behind and no
//! recorded trial is lost.
//!
//! The suite does a few kills, `make kills` a hundred (`FLASHFIT_KILLS`, `FLASHFIT_SEED`).

use std::process::{Child, Command};
use std::time::Duration;

use flashfit_device::random::Random;
use flashfit_test_support::{AttemptKind, attempted};
use rustix::process::Signal;

use super::{ssh, vm};
use crate::fixture::{Ended, Place, wait_until};
use crate::machine::{children, processes, traces, words};

const IN_THE_SUITE: u64 = 3;
/// Allowed exit codes: success, environment, I/O error, interrupted.
const CLEAR: [i32; 4] = [0, 4, 5, 6];

/// Identifies an agent on a board.
const AGENT: &str = "--listen";

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The parameters of a campaign on one test bed.
struct Campaign<'a> {
    place: &'a Place,
    /// The command that starts the run.
    begin: &'a dyn Fn() -> Command,
    /// The command with these arguments.
    command: &'a dyn Fn(&[&str]) -> Command,
    /// Arguments that must be repeated to resume.
    resume_with: &'a [&'a str],
    /// Maximum time before a kill.
    within_ms: u64,
    /// Identify victims other than the run itself.
    victims: &'a [&'a str],
    /// Whether something may be left until the run is resumed.
    leaves_until_resumed: bool,
}

impl Campaign<'_> {
    #[expect(clippy::print_stdout, reason = "what was killed is said")]
    fn run(&self, kills: u64) {
        let seed = number("FLASHFIT_SEED", 1);
        let mut random = Random::new(seed);
        let mut counts = vec![0; self.victims.len() + 1];
        let mut kill = 0;
        while kill < kills {
            let before = self.place.recorded();
            let run = self.resume_or_begin().spawn().unwrap();
            std::thread::sleep(Duration::from_millis(random.below(self.within_ms)));
            let choice = usize::try_from(random.below(self.victims.len() as u64 + 1)).unwrap();
            // A victim that was not running is not counted.
            let killed = u64::from(self.kill(&run, choice));
            (counts[choice], kill) = (counts[choice] + killed, kill + killed);
            let context = format!("seed {seed}, kill {kill}, victim {choice}");
            self.end(run, &context);
            let now = self.place.recorded();
            assert_eq!(now.get(..before.len()), Some(&before[..]), "{context}: a trial is lost");
        }
        println!("killed: the run {}, {:?} {:?}", counts[0], self.victims, &counts[1..]);
        if !self.place.path("run/run.json").exists() {
            return;
        }
        self.place.shorten_run(1);
        let ended = Ended::new(self.resume(&[]).output().unwrap());
        ended.said(0, &[]);
        self.wait_for_nothing_left("at the end");
    }

    fn resume(&self, more: &[&str]) -> Command {
        let resume = ["tune", "--resume", "run", "--confirm", "card.img"];
        (self.command)(&[&resume[..], self.resume_with, more].concat())
    }

    fn resume_or_begin(&self) -> Command {
        if self.place.path("run/run.json").exists() {
            return self.resume(&["--progress", "never"]);
        }
        // A run that is killed before its start leaves its lock on the directory.
        let _ = std::fs::remove_dir_all(self.place.path("run"));
        (self.begin)()
    }

    /// Kills the run, or a process that it or its agent started.
    fn kill(&self, run: &Child, choice: usize) -> bool {
        let victim = match choice.checked_sub(1) {
            None => Some(run.id()),
            Some(other) => {
                let known_by = self.victims[other];
                let is_it =
                    |process: &u32| words(*process).iter().any(|word| word.contains(known_by));
                // An agent is a daemon; no other test has one at the same time.
                let agent =
                    || processes().into_iter().find(|process| known_by == AGENT && is_it(process));
                children(run.id()).into_iter().find(is_it).or_else(agent)
            }
        };
        // It may not have started yet, or have ended.
        victim.is_some_and(|process| {
            let process = rustix::process::Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
            attempted(AttemptKind::Kill, 1);
            rustix::process::kill_process(process, Signal::KILL).is_ok()
        })
    }

    /// If the run was not killed it is interrupted, and must end with an allowed exit code.
    fn end(&self, run: Child, context: &str) {
        std::thread::sleep(Duration::from_millis(300));
        let process = rustix::process::Pid::from_child(&run);
        let _ = rustix::process::kill_process(process, Signal::INT);
        let ended = Ended::of(run);
        if let Some(code) = ended.code {
            assert!(CLEAR.contains(&code), "{context}: {ended:#?}");
        }
        if !self.leaves_until_resumed {
            self.wait_for_nothing_left(context);
        }
    }

    #[track_caller]
    fn wait_for_nothing_left(&self, context: &str) {
        wait_until(&format!("nothing is left ({context})"), || {
            traces(self.place).iter().all(|trace| trace.contains("sshd"))
        });
    }
}

#[test]
#[ignore = "full: kills at random moments"]
fn random_kills_on_a_board_lose_nothing() {
    ssh::with_board(|place, sshd| {
        let image = place.image("card.img", 64).display().to_string();
        let args = place
            .tune_args(&image, &["--on", "ssh:board", "--confirm", "card.img", "--repeats", "500"]);
        let campaign = Campaign {
            place: &place,
            begin: &|| sshd.command(&place, &args),
            command: &|args| sshd.command(&place, args),
            resume_with: &["--on", "ssh:board"],
            within_ms: 5000,
            victims: &["ssh", AGENT],
            leaves_until_resumed: true,
        };
        campaign.run(number("FLASHFIT_KILLS", IN_THE_SUITE));
    });
}

#[test]
#[ignore = "full: kills at random moments"]
fn random_kills_of_machines_lose_nothing() {
    vm::with_machine(|place| {
        let card = place.card();
        let args = place.tune_args(&card, &["--on", "vm", "--repeats", "500"]);
        let campaign = Campaign {
            place: &place,
            begin: &|| place.command(&args),
            command: &|args| place.command(args),
            resume_with: &[],
            within_ms: 15_000,
            victims: &["qemu-system", "card-server"],
            leaves_until_resumed: false,
        };
        campaign.run(number("FLASHFIT_KILLS", IN_THE_SUITE));
    });
}
