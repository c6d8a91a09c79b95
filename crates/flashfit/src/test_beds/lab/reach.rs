//! Connects to the locked boards of a lab: power, ssh, agent.

use std::time::{Duration, Instant};

use flashfit_host::{SshAddress, SystemRunner};
use flashfit_lab::{LabError, PowerState};
use flashfit_testbed::RemoteHost;
use flashfit_testbed::remote::SshLink;
use flashfit_tune::RunSpec;
use flashfit_tune::run::LockedBoard;
use flashfit_user_error::ExitClass;

use super::lease::PlaceLease;
use crate::command_error::CommandError;
use crate::output::note;
use crate::test_beds::{BUILD, ssh};
use crate::timeouts::shortened;

/// How long a board that was switched on may take until ssh answers.
const BOOT_LIMIT: Duration = Duration::from_secs(180);
/// The same for one that was on already.
const REACH_LIMIT: Duration = Duration::from_secs(10);
const REACH_INTERVAL: Duration = Duration::from_secs(1);
/// After that a board whose connection is lost is given up: others do its work.
pub const LOST_PATIENCE: Duration = Duration::from_secs(60);

/// What connecting to boards needs.
#[derive(Clone, Copy)]
pub struct BoardAccess<'a> {
    /// Whether boards that are off are left out.
    pub dry_run: bool,
    pub runner: &'a SystemRunner,
    pub spec: &'a RunSpec,
    pub dir: &'a std::path::Path,
}

/// Switches the boards on, waits until they can be reached, and starts an agent on each. Those that
/// cannot be reached are reported and released.
pub fn reach(
    leases: Vec<PlaceLease>,
    with: BoardAccess<'_>,
) -> Result<Vec<LockedBoard<'static>>, CommandError> {
    let links: Vec<(PlaceLease, Result<SshLink, CommandError>)> = std::thread::scope(|scope| {
        let link = |mut lease: PlaceLease| {
            let link = link(&mut lease, with);
            (lease, link)
        };
        let threads: Vec<_> =
            leases.into_iter().map(|lease| scope.spawn(move || link(lease))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let mut boards = Vec::new();
    let mut last = None;
    for (lease, link) in links {
        let name = lease.lock.name().to_owned();
        // Connected in this thread, because a connection ends with the thread that made it.
        match link.and_then(|link| {
            Ok(RemoteHost::new(
                link,
                &with.spec.on.to_string(),
                with.runner.interrupt(),
                BUILD,
                with.spec.catalog_dir.as_deref(),
            )?)
        }) {
            Ok(host) => {
                let (host, lock) = (Box::new(host), Box::new(lease));
                boards.push(LockedBoard { name, host, lock });
            }
            Err(error) if error.class() == ExitClass::Interrupted => return Err(error),
            Err(error) => {
                note(&format!("left out: {name}: {}", error.message()));
                last = Some(error.at(&name));
            }
        }
    }
    match last {
        Some(error) if boards.is_empty() => Err(error),
        _ => Ok(boards),
    }
}

fn link(lease: &mut PlaceLease, with: BoardAccess<'_>) -> Result<SshLink, CommandError> {
    let found = lease.lock.ssh()?;
    let limit = if boots(lease, with.dry_run)? { BOOT_LIMIT } else { REACH_LIMIT };
    let mut options = ssh::configured();
    options.extend(found.options);
    let address = SshAddress { host: found.host, options };
    let name = lease.lock.name().to_owned();
    let token = ssh::token(&with.dir.join(&name));
    let began = Instant::now();
    loop {
        match ssh::link(address.clone(), &token, with.runner) {
            Ok(link) => return Ok(link.one_of_several(&name, shortened(LOST_PATIENCE))),
            Err(error) if !error.is_transient || began.elapsed() > limit => {
                return Err(error.into());
            }
            Err(_) => std::thread::sleep(shortened(REACH_INTERVAL)),
        }
    }
}

/// Switches a board on that is off; whether it has to boot. In a dry run, it is an error.
fn boots(lease: &mut PlaceLease, dry_run: bool) -> Result<bool, CommandError> {
    let boots = match dry_run {
        true => lease.place().power().map(|state| state == PowerState::Off),
        false => lease.power_on(),
    };
    match boots {
        // One that nobody can switch is on.
        Err(LabError::NoPower { .. }) => Ok(false),
        Ok(true) if dry_run => Err(CommandError::new(
            ExitClass::Environment,
            "it is off, and a dry run does not switch it on",
            Some("switch it on, or run without --dry-run"),
        )),
        other => Ok(other?),
    }
}
