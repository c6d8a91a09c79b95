//! `flashfit card serve`: a card as a block device, or over NBD, until interrupted.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use flashfit_card_client::CardProcess;
use flashfit_host::capability;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::commands::card_args::ServeArgs;
use crate::commands::card_server;
use crate::commands::card_stats::counters_text;
use crate::commands::card_stop;
use crate::{output, signals};

pub fn run(args: &ServeArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    args.how.trace.as_deref().map_or(Ok(()), refuse_existing)?;
    let over_nbd = args.how.nbd.is_some();
    if let Some(reason) = capability::missing_for_simulated_cards().filter(|_| !over_nbd) {
        return Err(CommandError::new(
            ExitClass::Environment,
            format!("a simulated card cannot be attached: {reason}"),
            Some(
                "run it as root, on a machine with FUSE and loop devices, or use --nbd SOCKET, \
                 which needs neither",
            ),
        ));
    }
    // What becomes of a state must be said before this process ends.
    let interrupt = match &args.how.state {
        Some(_) => signals::interrupt_until_done()?,
        None => signals::interrupt()?,
    };
    let server = card_server::args_with(&args.name, &args.how, catalog);
    let card = CardProcess::start(&card_server::program(), &server)?;
    card.allow_stop_wait(Duration::from_secs(args.how.stop_wait_s));
    output::print_utf8(&format!("{}\n", card.device().display()))?;
    card.notes().iter().for_each(|text| output::note(&format!("note: {text}")));
    if over_nbd {
        let uri = nbd_uri(card.device());
        output::note_with_commands(&format!(
            "simulated card served over NBD; Ctrl-C ends it\n  {uri}"
        ));
    } else {
        output::note("simulated card attached; Ctrl-C detaches it");
    }
    card.wait(&interrupt);
    interrupt.was_signaled();
    let counters = card.counters();
    if interrupt.is_raised() && !over_nbd {
        card_stop::note_users(&card, args.how.stop_wait_s);
    }
    card_stop::stop(card, &interrupt, args.how.state.as_deref())?;
    if let Some(state) = &args.how.state {
        output::note(&format!("the card's state is saved in {}", state.display()));
    }
    if let Ok(counters) = counters {
        let text = counters_text(&counters);
        let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
        output::note_with_commands(&lines.join("\n"));
    }
    Ok(())
}

/// As NBD clients take it, with what is special in a URI encoded (RFC 3986).
fn nbd_uri(socket: &Path) -> String {
    let encoded = |byte: &u8| match *byte {
        b'/' | b'-' | b'_' | b'.' | b'~' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let path: String = socket.as_os_str().as_bytes().iter().map(encoded).collect();
    format!("nbd+unix:///?socket={path}")
}

/// The server would find it later, as a failure.
fn refuse_existing(trace: &Path) -> Result<(), CommandError> {
    if std::fs::symlink_metadata(trace).is_err() {
        return Ok(());
    }
    let message = format!("{} exists; it was not changed", trace.display());
    Err(CommandError::new(ExitClass::Refused, message, Some("name another file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_a_path_are_encoded() {
        assert_eq!(nbd_uri(Path::new("/tmp/a-b.sock")), "nbd+unix:///?socket=/tmp/a-b.sock");
        assert_eq!(nbd_uri(Path::new("/my dir/s?&%")), "nbd+unix:///?socket=/my%20dir/s%3F%26%25");
    }
}
