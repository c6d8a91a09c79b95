//! What a run may spend, and the contents of the file system when a workload begins.

use flashfit_bench::StartingState;
use flashfit_bench::state::{DEFAULT_AGING_FILL_HUNDREDTHS, MAX_AGE_ROUNDS, MAX_FILL_HUNDREDTHS};
use flashfit_tune::{Budget, Config, Percent, StrategyKind, TimeSpan};

use crate::command_error::CommandError;
use crate::tune::args::{BudgetArgs, GoalArgs};
use crate::tune::constraints::contradiction;

/// The time of all trials where nothing else limits them.
const DEFAULT_BUDGET: TimeSpan = TimeSpan::seconds(30 * 60);

/// What a run on a device may spend: half an hour if nothing is said, except with strategies that
/// end by themselves.
pub fn limits_of_run(
    spend: &BudgetArgs,
    config: &Config,
    strategy: StrategyKind,
) -> Result<Budget, CommandError> {
    let mut limits = limits(spend, config)?;
    let said = spend.budget.or(config.budget).is_some();
    let limited = limits.max_write_bytes.is_some() || limits.trials.is_some();
    let has_end = matches!(strategy, StrategyKind::Greedy | StrategyKind::Exhaustive);
    if !said && !limited && !has_end {
        limits.budget_ns = Some(DEFAULT_BUDGET.0);
    }
    Ok(limits)
}

/// What a search may spend.
pub fn limits(spend: &BudgetArgs, config: &Config) -> Result<Budget, CommandError> {
    let within =
        spend.within.or(config.within).unwrap_or(Percent(Budget::default().within_hundredths));
    if within.0 == 0 {
        return Err(contradiction(
            "nothing can be shown to be within 0% of the best".to_owned(),
            "measurements are noisy: --within 1% takes long, 2% less",
        ));
    }
    let budget = spend.budget.or(config.budget);
    let max_write = spend.max_write.or(config.max_write);
    if max_write.is_some_and(|most| most.0 == 0) {
        return Err(contradiction(
            "no trial is possible without writing to the device".to_owned(),
            "give --max-write a size such as 40GiB",
        ));
    }
    let trials = spend.trials.or(config.trials);
    if trials == Some(0) {
        return Err(contradiction("`trials` must be at least 1".to_owned(), "give trials = 100"));
    }
    Ok(Budget {
        budget_ns: budget.filter(|span| *span != TimeSpan::UNLIMITED).map(|span| span.0),
        max_write_bytes: max_write.map(|bytes| bytes.0),
        trials,
        within_hundredths: within.0,
    })
}

/// The contents of the file system when a workload begins.
pub fn state(asked: &GoalArgs, config: &Config) -> Result<StartingState, CommandError> {
    let age_rounds = asked.age.or(config.age).unwrap_or(0);
    let fill = asked.fill.or(config.fill);
    if fill.is_some_and(|fill| fill.0 > MAX_FILL_HUNDREDTHS) {
        let most = Percent(MAX_FILL_HUNDREDTHS);
        return Err(contradiction(
            format!("a file system filled to more than {most} has no room for a workload"),
            &format!("use --fill {most} or less"),
        ));
    }
    if age_rounds > MAX_AGE_ROUNDS {
        return Err(contradiction(
            format!("{age_rounds} rounds of aging before every trial are too many"),
            &format!("use --age {MAX_AGE_ROUNDS} or less"),
        ));
    }
    if age_rounds > 0 && fill == Some(Percent(0)) {
        return Err(contradiction(
            "an empty file system cannot be aged".to_owned(),
            "omit --fill, or give a share such as 50%",
        ));
    }
    let fill_hundredths = match fill {
        Some(fill) => fill.0,
        None if age_rounds > 0 => DEFAULT_AGING_FILL_HUNDREDTHS,
        None => 0,
    };
    let varied = !(asked.fresh || config.fresh.unwrap_or(false));
    Ok(StartingState { fill_hundredths, age_rounds, varied })
}
