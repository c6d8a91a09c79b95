//! The end of `flashfit card serve`: what it waits for, and what becomes of the card's state.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use flashfit_card_client::CardProcess;
use flashfit_device::in_use;
use flashfit_device::system::SystemRoots;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::program::quote_path;

use crate::command_error::CommandError;
use crate::{hints, output};

/// How often a further signal is looked for while the card is ended.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Says at once what the end of the card waits for.
pub fn note_users(card: &CardProcess, wait_s: u64) {
    let name = card.device().file_name().unwrap_or_default().to_string_lossy();
    let own = [std::process::id(), card.id()];
    let found = in_use::of_device(&SystemRoots::default(), &name, &own);
    for found in &found.uses {
        output::note(&format!("{found}: {}", hints::text(&found.hint())));
    }
    if !found.uses.is_empty() {
        output::note(&format!(
            "waiting {wait_s} s for that to end; then the card is removed as if it were pulled out"
        ));
    }
}

/// Ends the card. With a state, a further signal does not end the wait for it.
pub fn stop(
    card: CardProcess,
    interrupt: &Interrupt,
    state: Option<&Path>,
) -> Result<(), CommandError> {
    let process = card.id();
    let has_ended = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        if let Some(state) = state {
            scope.spawn(|| {
                while !has_ended.load(Ordering::SeqCst) {
                    if interrupt.was_signaled() {
                        note_signal(process, state);
                    }
                    thread::sleep(SIGNAL_INTERVAL);
                }
            });
        }
        let ended = card.stop_with(&mut note_saving);
        has_ended.store(true, Ordering::SeqCst);
        ended
    });
    ended.map_err(|error| CommandError::from(error).or_hint(&lost_hint(state)))
}

fn note_signal(process: u32, state: &Path) {
    output::note_with_commands(&format!(
        "not ended: the card's state is not yet in {}\n  kill -9 {process}  # ends it without its \
         state",
        state.display()
    ));
}

/// What is left of a card whose process did not end as it should.
fn lost_hint(state: Option<&Path>) -> String {
    let Some(file) = state else {
        return "serve a new card; with --state FILE, a card can be saved".to_owned();
    };
    if file.is_file() {
        return "serve it again: its state file has it as it was at the last start".to_owned();
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => {
            let folder = quote_path(folder);
            format!("nothing of it is saved; before you serve a new card: mkdir -p {folder}")
        }
        None => "nothing of it is saved; serve a new card".to_owned(),
    }
}

fn note_saving(since: Duration) {
    output::note(&format!(
        "the card is still saving its state, {} s after it was stopped",
        since.as_secs()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_was_never_written_is_not_promised() {
        let place = tempfile::tempdir().unwrap();
        let (file, gone) = (place.path().join("s"), place.path().join("gone/s"));
        assert_eq!(lost_hint(Some(&file)), "nothing of it is saved; serve a new card");
        assert!(lost_hint(Some(&gone)).contains(": mkdir -p "));
        std::fs::write(&file, "").unwrap();
        assert!(lost_hint(Some(&file)).contains("as it was at the last start"));
        assert!(lost_hint(None).contains("--state FILE"));
    }
}
