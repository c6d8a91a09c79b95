//! Schedulers as the user names them.

use flashfit_catalog::CatalogEntryError;
use flashfit_filesystem::{Scheduler, scheduler};

use crate::output::note;

/// Schedulers by today's names; earlier names are translated, which the user sees.
pub fn understood(names: Option<Vec<String>>) -> Result<Vec<Scheduler>, CatalogEntryError> {
    let mut schedulers = Vec::new();
    for name in names.unwrap_or_default() {
        let understood = scheduler::understand(&name)?;
        if let Some(text) = understood.note {
            note(&format!("note: {text}"));
        }
        if !schedulers.contains(&understood.scheduler) {
            schedulers.push(understood.scheduler);
        }
    }
    Ok(schedulers)
}
