//! `flashfit survey compare`: variation within products and between them.

use flashfit_host::path_text;
use flashfit_survey::SurveyMetric;
use flashfit_survey::database::{ResultTable, StoredSource};
use flashfit_survey::query::cells::CellTable;
use flashfit_survey::query::comparison::compare;
use flashfit_survey::query::{ListedCard, ResultFilters};

use super::args::SurveyCompareArgs;
use super::list;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::survey::{self, ProductsDocument};

/// What is compared unless a condition says otherwise.
const USUAL_METRIC: SurveyMetric = SurveyMetric::Rate;

pub fn run(args: &SurveyCompareArgs) -> Result<(), CommandError> {
    let filters = ResultFilters::parse(&args.rows.conditions)?;
    let path = args.file.path()?;
    let (cards, results) = list::read(&path)?;
    let wants = |card: &ListedCard, source: &StoredSource, setup: usize, measure: usize| {
        is_wanted(&filters, card, source, (&results, setup, measure))
    };
    let table = CellTable::of(&cards, &results, &wants);
    let rows = compare(&cards, &results, &table);
    let document = ProductsDocument::new(path_text::to_text(&path), &cards, &rows);
    if args.rows.json {
        output::json(&document)
    } else if args.rows.csv {
        output::print_utf8(&survey::csv(&document.results))
    } else {
        output::print(&survey::products_text(&document, output::width()))
    }
}

fn is_wanted(
    filters: &ResultFilters,
    card: &ListedCard,
    source: &StoredSource,
    of: (&ResultTable, usize, usize),
) -> bool {
    let (results, _, measure) = of;
    let is_usual = results.measures[measure].metric == USUAL_METRIC.name() || filters.has("metric");
    is_usual && filters.matches(card, source, of)
}
