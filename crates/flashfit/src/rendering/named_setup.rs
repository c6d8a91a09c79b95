//! A setup of a run by the name that the user typed.

use flashfit_filesystem::Setup;
use flashfit_search::CandidateIndex;
use flashfit_user_error::ExitClass;

use super::RunView;
use crate::command_error::CommandError;

/// Signs of a name that a table shortened; the last is that of character sets without the first.
const ELLIPSES: [&str; 3] = ["…", "...", "~"];

/// The setup with this name: as `analyze` prints it, also shortened, or `baseline`, `winner` or
/// `recommended`.
///
/// # Errors
/// If the run has none, or a shortened name fits several.
pub fn find(view: &RunView<'_>, name: &str) -> Result<CandidateIndex, CommandError> {
    let problem = &view.conclusion.problem;
    let recommendation = view.recommendation();
    let setup = match name {
        "baseline" => return Ok(problem.space.baseline),
        "winner" => recommendation.map(|found| found.winner.clone()),
        "recommended" => recommendation.map(|found| found.recommended().clone()),
        _ => match problem.setups.iter().find(|setup| setup.label() == name) {
            Some(setup) => Some(setup.clone()),
            None => shortened(&problem.setups, name)?.cloned(),
        },
    };
    setup.and_then(|setup| problem.candidate(&setup)).ok_or_else(|| {
        let known: Vec<String> = view.results.setups().map(|setup| setup.label()).collect();
        let words = ["baseline", "winner", "recommended"];
        let known = known.iter().map(String::as_str).chain(words);
        // What is left of a shortened name is as near to many others.
        let is_whole = !ELLIPSES.iter().any(|mark| name.contains(mark));
        let hint = flashfit_catalog::nearest(name, known);
        let hint = hint.filter(|found| is_whole && found != name);
        let hint = hint.map_or_else(
            || "type it as analyze shows it, in quotes, or: baseline, winner, recommended".into(),
            |found| format!("did you mean '{found}'?"),
        );
        let message = format!("`{name}`: this run has no such setup");
        CommandError::new(ExitClass::Usage, message, Some(&hint))
    })
}

/// The only setup that a shortened name fits.
fn shortened<'a>(setups: &'a [Setup], name: &str) -> Result<Option<&'a Setup>, CommandError> {
    const MOST_NAMED: usize = 8;
    let fitting: Vec<&Setup> =
        setups.iter().filter(|setup| is_shortened(name, &setup.label())).collect();
    if fitting.len() < 2 {
        return Ok(fitting.first().copied());
    }
    let more = fitting.len().saturating_sub(MOST_NAMED);
    let mut labels: Vec<String> =
        fitting.iter().take(MOST_NAMED).map(|setup| format!("'{}'", setup.label())).collect();
    if more > 0 {
        labels.push(format!("{more} more"));
    }
    let message = format!("`{name}`: this shortened name fits {} setups", fitting.len());
    let hint = format!("type one of them: {}", labels.join(", "));
    Err(CommandError::new(ExitClass::Usage, message, Some(&hint)))
}

/// Whether a name is a label with parts left out, each of which an ellipsis marks.
fn is_shortened(name: &str, label: &str) -> bool {
    let marked = ELLIPSES.iter().fold(name.to_owned(), |name, mark| name.replace(mark, "\0"));
    let parts: Vec<&str> = marked.split('\0').collect();
    let [first, middle @ .., last] = &parts[..] else { return false };
    if parts.iter().all(|part| part.is_empty()) {
        return false;
    }
    let Some(mut rest) = label.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
        return false;
    };
    middle.iter().all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_name_is_recognized() {
        let label = "ext4 nojournal+nobarrier none";
        for name in [
            "ext4 nojour…arrier none",
            "ext4 nojour...arrier none",
            "ext4 nojour~arrier none",
            "…4 nojournal+nobarr…",
            "ext4 nojo…",
            "… none",
        ] {
            assert!(is_shortened(name, label), "{name}");
        }
        for name in ["ext4 nojour…geometry none", "…btrfs…", "ext4 nojournal", "…", "", "ext3…"]
        {
            assert!(!is_shortened(name, label), "{name}");
        }
        // The ends do not overlap.
        assert!(!is_shortened("ext4 none… none", "ext4 none"));
    }
}
