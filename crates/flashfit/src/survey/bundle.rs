//! `flashfit survey bundle FILE`: the figures of the survey in a file that can be sent.

use std::path::PathBuf;

use clap::Args;
use flashfit_host::path_text;
use flashfit_survey::bundle::{BUNDLE_BYTES, BundleOptions, CheckedBundle, make};
use flashfit_survey::query::{ListedCard, RowFilter};
use flashfit_survey::{SurveyDatabase, SurveyError};
use flashfit_user_error::ExitClass;

use super::list;
use super::place::SurveyFileArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::output_file::{OutputFile, OutputKind};
use crate::rendering::survey::{BundledDocument, bundled_text};

#[derive(Debug, Args)]
#[command(after_help = format!(
    "Columns: {}\n\nSerial numbers, keys, times of day and hosts are left out. Read the file \
     before you send it: docs/survey.md describes it.\n\nExamples:\n  \
     flashfit survey bundle cards.json\n  \
     flashfit survey bundle sl32g.json --where product=SL32G\n  \
     flashfit survey add cards.json --db other.db",
    ListedCard::COLUMNS.join(", ")
))]
pub struct SurveyBundleArgs {
    /// New file for the bundle.
    #[arg(value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub file: SurveyFileArgs,
    /// Condition on cards such as product=SL32G, as for `survey list`. May be repeated; all must
    /// hold.
    #[arg(long = "where", value_name = "COLUMN=VALUE")]
    pub conditions: Vec<String>,
    /// Keep the names that you gave to cards.
    #[arg(long)]
    pub with_names: bool,
    /// Add simulated cards.
    #[arg(long)]
    pub with_simulated: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &SurveyBundleArgs) -> Result<(), CommandError> {
    let file = OutputFile::check(&args.output, OutputKind::Bundle, false)?;
    let parse = |text: &String| RowFilter::parse(text, &ListedCard::COLUMNS);
    let filters: Vec<RowFilter> =
        args.conditions.iter().map(parse).collect::<Result<_, SurveyError>>()?;
    let path = args.file.path()?;
    let survey = SurveyDatabase::open_for_reading(&path)?;
    let (mut cards, results) = list::read_open(&survey)?;
    cards.retain(|card| card.matches(&filters));
    let keys = survey.bundle_keys()?;
    let options =
        BundleOptions { with_names: args.with_names, with_simulated: args.with_simulated };
    let made = make(&cards, &results, &keys, options);
    let refused =
        |message: String, hint: &str| CommandError::new(ExitClass::Usage, message, Some(hint));
    if made.bundle.cards.is_empty() {
        let message = "nothing to bundle: this survey measured none of these cards".to_owned();
        let hint = match made.simulated_left_out {
            0 => "flashfit survey list shows the cards",
            _ => "for simulated cards, add --with-simulated",
        };
        return Err(refused(message, hint));
    }
    let text = made.bundle.text();
    let document = BundledDocument {
        database: path_text::to_text(&path),
        file: path_text::to_text(&args.output),
        cards: made.bundle.cards.len(),
        sources: made.sources,
        figures: made.figures,
        bytes: text.len() as u64,
        simulated_left_out: made.simulated_left_out,
        bundled_left_out: made.bundled_left_out,
    };
    if document.bytes > BUNDLE_BYTES {
        let message = format!("the bundle would be {} MiB large", document.bytes >> 20);
        return Err(refused(message, "select some cards with --where"));
    }
    // What would not be accepted is not written.
    CheckedBundle::try_from(made.bundle).map_err(|reason| {
        refused(format!("cannot bundle it: {reason}"), "leave cards out: --where")
    })?;
    file.write(&text)?;
    if args.json {
        output::json(&document)
    } else {
        output::print(&bundled_text(&document, output::width()))
    }
}
