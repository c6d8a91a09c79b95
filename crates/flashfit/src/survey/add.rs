//! `flashfit survey add`: what can be added is added, and what cannot is named.

use std::path::Path;

use flashfit_host::path_text;
use flashfit_survey::bundle::CheckedBundle;
use flashfit_survey::database::SurveyTable;
use flashfit_survey::import::SurveyInput;
use flashfit_survey::{AddOptions, SurveyDatabase, SurveyError, import};
use flashfit_user_error::ExitClass;

use super::args::SurveyAddArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::survey::{AddedDocument, AddedSource, added_text};

pub fn run(args: &SurveyAddArgs) -> Result<(), CommandError> {
    let path = args.file.path()?;
    let mut paths = Vec::new();
    let mut errors: Vec<CommandError> = Vec::new();
    let mut results = Vec::new();
    let mut ignored_files = 0;
    for path in &args.paths {
        match import::find(path) {
            Ok((found, others)) => {
                paths.extend(found);
                ignored_files += others;
            }
            Err(error) => {
                let error = CommandError::from(error);
                results.push(AddedSource::refused(path, error.message()));
                errors.push(error);
            }
        }
    }
    // No survey is made for nothing.
    if paths.is_empty() {
        return Err(CommandError::joined(errors));
    }
    let options =
        AddOptions { with_serial: args.with_serial, name: args.card.clone().unwrap_or_default() };
    let mut survey = SurveyDatabase::open(&path)?;
    for path in &paths {
        match add(&mut survey, path, &options) {
            Ok(added) => results.push(added),
            Err(Refused::Source(error)) => {
                results.push(AddedSource::refused(path, error.message()));
                errors.push(error);
            }
            // The rest would fail alike; what was added stays.
            Err(Refused::Survey(error)) => return Err(error),
        }
    }
    let document = AddedDocument {
        database: path_text::to_text(&path),
        results,
        ignored_files,
        cards: survey.count(SurveyTable::Cards)?,
        sources: survey.count(SurveyTable::Sources)?,
    };
    survey.finish()?;
    if args.json {
        output::json(&document)?;
    } else {
        output::print(&added_text(&document, output::width()))?;
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(CommandError::joined(errors)),
    }
}

/// What failed: one source, or the survey.
enum Refused {
    Source(CommandError),
    Survey(CommandError),
}

fn add(
    survey: &mut SurveyDatabase,
    path: &Path,
    options: &AddOptions,
) -> Result<AddedSource, Refused> {
    let source = match import::read(path).map_err(|error| Refused::Source(error.into()))? {
        SurveyInput::Source(source) => source,
        SurveyInput::Bundle(bundle) => return add_bundle(survey, path, &bundle, options),
    };
    let addition = survey.add(&source, options).map_err(|error| match error {
        other @ (SurveyError::OtherName { .. } | SurveyError::OtherCard { .. }) => {
            Refused::Source(CommandError::from(other).at(&path.display().to_string()))
        }
        other => Refused::Survey(other.into()),
    })?;
    Ok(AddedSource::new(path, &source, addition))
}

fn add_bundle(
    survey: &mut SurveyDatabase,
    path: &Path,
    bundle: &CheckedBundle,
    options: &AddOptions,
) -> Result<AddedSource, Refused> {
    if !options.name.is_empty() {
        let message = format!("{}: a bundle has several cards", path.display());
        let hint = "leave --card out";
        return Err(Refused::Source(CommandError::new(ExitClass::Usage, message, Some(hint))));
    }
    let addition = survey.add_bundle(bundle).map_err(|error| Refused::Survey(error.into()))?;
    Ok(AddedSource::bundle(path, bundle, &addition))
}
