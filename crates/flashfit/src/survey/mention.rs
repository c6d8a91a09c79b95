//! What a survey has of a device that `inspect` or `probe` shows: a note on standard error, so that
//! documents stay what they are.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use flashfit_device::identity::DeviceIdentity;
use flashfit_device::{DeclaredFacts, DeviceKind};
use flashfit_report::text::plain;
use flashfit_survey::query::{ListedCard, known, siblings};
use flashfit_survey::{CardIdentity, SurveyDatabase, SurveyError};

use super::place::{named_file, usual_file};
use crate::command_error::CommandError;
use crate::output;

#[derive(Debug, Args)]
pub struct SurveyMentionArgs {
    /// Survey in which to look for such cards [default: $FLASHFIT_SURVEY, or that in your data
    /// directory, if any].
    // Not `env`: a survey that is not there yet is an error only if it was asked for here.
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(readable))]
    pub survey: Option<PathBuf>,
}

/// The survey, if it can be read. Checked with the other arguments, before anything is measured.
fn readable(path: PathBuf) -> Result<PathBuf, SurveyError> {
    SurveyDatabase::open_for_reading(&path).map(|_| path)
}

/// Notes what the survey has of such a device. A survey that was not named and cannot be read is
/// only a warning.
pub fn mention(
    args: &SurveyMentionArgs,
    kind: DeviceKind,
    identity: &DeviceIdentity,
    declared: &DeclaredFacts,
    (capacity, is_partition): (u64, bool),
) -> Result<(), CommandError> {
    let card = CardIdentity::of_device(kind, identity, declared, capacity, is_partition);
    let usual = || named_file().or_else(usual_file).filter(|path| path.exists());
    let Some(path) = args.survey.clone().or_else(usual) else { return Ok(()) };
    let read = || -> Result<Vec<String>, CommandError> {
        let survey = SurveyDatabase::open_for_reading(&path)?;
        let mut cards: Vec<ListedCard> = survey.cards()?.into_iter().map(ListedCard::new).collect();
        cards.retain(|card| !card.is_bundled());
        siblings::flag(&mut cards, &survey.results()?);
        Ok(known::sentences(&card, &survey.keys_of(&card)?, &cards))
    };
    match read() {
        Ok(sentences) if sentences.is_empty() && args.survey.is_some() => {
            output::note("survey: it has no such card");
        }
        Ok(sentences) => {
            for sentence in sentences {
                output::note(&format!("survey: {}", plain(&sentence)));
            }
        }
        Err(error) if args.survey.is_some() => return Err(error),
        Err(error) => output::warn(error.message()),
    }
    Ok(())
}
