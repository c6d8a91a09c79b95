//! Completed trials that lack the figure that the run is ranked by, such as a count of the bytes
//! written that could not be read. They count for nothing.

use super::RunView;

/// For a reader of the answer; `None` if all have it.
pub fn sentence(view: &RunView<'_>) -> Option<String> {
    let lacking = &view.conclusion.without_figure;
    let first = lacking.first()?;
    let completed = view.trials.iter().filter(|trial| trial.points().is_some()).count();
    let (verb, count) = if lacking.len() == 1 { ("has", "counts") } else { ("have", "count") };
    let by = view.header.spec.by;
    let of = if lacking.len() == 1 { "" } else { "the first: " };
    Some(format!(
        "{} of {completed} completed trials {verb} no figure of {by} and {count} for nothing \
         ({of}{first}).",
        lacking.len()
    ))
}
