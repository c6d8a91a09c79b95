//! `flashfit card serve`: a card as a block device, or over NBD, until interrupted.

use std::path::Path;

use flashfit_card_client::CardProcess;
use flashfit_host::capability;
use flashfit_host::interrupt::Interrupt;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::commands::card_args::ServeArgs;
use crate::commands::card_server;
use crate::commands::card_stats::counters_text;
use crate::output;

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
    let interrupt = Interrupt::on_signals().map_err(|error| {
        CommandError::new(ExitClass::Environment, format!("cannot catch signals: {error}"), None)
    })?;
    let server = card_server::args_with(&args.name, &args.how, catalog);
    let card = CardProcess::start(&card_server::program(), &server)?;
    output::print_utf8(&format!("{}\n", card.device().display()))?;
    card.notes().iter().for_each(|text| output::note(&format!("note: {text}")));
    if over_nbd {
        let place = card.device().display();
        output::note(&format!(
            "simulated card served at nbd+unix:///?socket={place}; Ctrl-C ends it"
        ));
    } else {
        output::note("simulated card attached; Ctrl-C detaches it");
    }
    card.wait(&interrupt);
    let counters = card.counters();
    card.stop()?;
    if let Ok(counters) = counters {
        output::note(&counters_text(&counters));
    }
    Ok(())
}

/// The server would find it later, as a failure.
fn refuse_existing(trace: &Path) -> Result<(), CommandError> {
    if std::fs::symlink_metadata(trace).is_err() {
        return Ok(());
    }
    let message = format!("{} exists; it was not changed", trace.display());
    Err(CommandError::new(ExitClass::Refused, message, Some("name another file")))
}
