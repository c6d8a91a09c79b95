//! What the user can type when something fails: the place that names flags and commands for errors
//! of other crates.

mod plan;
mod probe;
mod recorded;
mod run;
#[cfg(feature = "survey")]
mod survey;
mod typed;
mod wear;

use std::any::Any;

use flashfit_apply::InfeasiblePlan;
use flashfit_user_error::UserError;

pub use typed::text;

/// The hint that an error itself has.
fn of(error: &dyn UserError) -> Option<String> {
    let hint = text(&error.hint()?);
    // Root who may not either is in a container, or confined.
    let is_root = hint == AS_ROOT && rustix::process::geteuid().is_root();
    Some(if is_root {
        "root may not do it here; run it outside the container".into()
    } else {
        hint
    })
}

/// The hint for what only root may do.
const AS_ROOT: &str = "run it as root";

/// A hint for any error of the crates.
pub fn hint<E: UserError + 'static>(error: &E) -> Option<String> {
    let any: &dyn Any = error;
    if let Some(InfeasiblePlan::Plan(error)) = any.downcast_ref() {
        return plan::plan(error);
    }
    if let Some(hint) = any.downcast_ref().and_then(probe::run) {
        return Some(hint);
    }
    let hints = [
        any.downcast_ref().map(plan::several_plans),
        any.downcast_ref().map(plan::plan),
        any.downcast_ref().map(plan::given_size),
        any.downcast_ref().map(plan::probe_file),
        any.downcast_ref().map(run::run),
        any.downcast_ref().map(run::recorded_catalog),
        any.downcast_ref().map(wear::measure),
        #[cfg(feature = "survey")]
        any.downcast_ref().map(survey::survey),
        #[cfg(feature = "survey")]
        any.downcast_ref().map(survey::input),
        any.downcast_ref().map(recorded::run_dir),
        any.downcast_ref().map(recorded::tune),
        any.downcast_ref().map(recorded::conclusion),
        any.downcast_ref().map(recorded::replay),
        any.downcast_ref().map(recorded::compare),
        any.downcast_ref().map(|error| Some(recorded::problem(error))),
    ];
    hints.into_iter().flatten().next().unwrap_or_else(|| of(error))
}
