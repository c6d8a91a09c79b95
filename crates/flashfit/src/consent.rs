//! Asking the user for a medium's data. Only here is anybody asked.

use std::io::{BufRead, IsTerminal, Write};

use flashfit_medium::{Agreement, Medium};

use crate::output::note;

/// The user's agreement that all data on `medium` will be lost: what `--confirm` gave, or what is
/// typed at the terminal. Without either nobody was asked, and the guard will refuse.
pub fn agreement(medium: &Medium, confirm: Option<&str>) -> Agreement {
    if let Some(given) = confirm {
        return Agreement::Named(given.to_owned());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Agreement::NotAsked;
    }
    note(&what_is_lost(medium));
    let mut err = anstream::stderr().lock();
    let _ = write!(err, "Type its name ({}) to go on: ", medium.short_name());
    let _ = err.flush();
    drop(err);
    let mut typed = String::new();
    match std::io::stdin().lock().read_line(&mut typed) {
        Ok(read) if read > 0 => Agreement::Named(typed.trim().to_owned()),
        _ => Agreement::NotAsked,
    }
}

/// What a user should see before agreeing.
pub fn what_is_lost(medium: &Medium) -> String {
    let mut lines = vec![format!(
        "All data on {} will be lost: {}, {}, {} ({}).",
        medium.path.display(),
        medium.kind,
        flashfit_report::text::plain(&medium.identity.summary()),
        medium.capacity,
        medium.capacity.si()
    )];
    for partition in &medium.partitions {
        lines.push(format!("  {} of {}", partition.name, partition.size));
    }
    lines.join("\n")
}
