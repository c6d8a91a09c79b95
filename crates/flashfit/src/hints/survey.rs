//! Hints for surveys.

use flashfit_survey::{SurveyError, SurveyInputError};

use super::{of, recorded};

pub fn survey(error: &SurveyError) -> Option<String> {
    match error {
        SurveyError::Missing { .. } => Some(
            "make one: flashfit survey add RUN; or name another file, with --db FILE (tune, inspect and \
             probe: --survey FILE)"
                .to_owned(),
        ),
        SurveyError::NotADatabase { .. } | SurveyError::Foreign { .. } => {
            Some("name another file with --db FILE; this one was not changed".to_owned())
        }
        SurveyError::ReadOnly { .. } | SurveyError::Unreachable { .. } => {
            Some("name another file with --db FILE".to_owned())
        }
        SurveyError::UnknownCard { .. } => Some("flashfit survey list shows the cards".to_owned()),
        SurveyError::OtherName { .. } => Some("leave --card out, or give that name".to_owned()),
        other => of(other),
    }
}

pub fn input(error: &SurveyInputError) -> Option<String> {
    match error {
        SurveyInputError::Run(error) => recorded::run_dir(error),
        SurveyInputError::Unusable { .. } => Some(
            "add run directories of flashfit tune, and documents that flashfit probe --output FILE, \
             wear show --json, wear measure --json or crash cuts --json wrote"
                .to_owned(),
        ),
        other => of(other),
    }
}
