//! What more time would buy, in one sentence.

use flashfit_report::FigureUnit;
use flashfit_search::LeftToGain;
use flashfit_tune::recommend::percent;

/// A gain that may be larger than this is no figure.
const MOST_PERCENT: f64 = 200.0;

/// `More time: according to the model the best setup is better than this one by 1.2 % on average,
/// and by less than 4 % with a probability of 90 %.`
pub fn sentence(left: &LeftToGain) -> String {
    if !is_figure(left) {
        return "More time: too little was measured to say how much better the best setup is."
            .to_owned();
    }
    let shown = |log: f64| FigureUnit::PercentChange.show(percent(log.max(0.0)));
    format!(
        "More time: according to the model the best setup is better than this one by {} on average, \
         and by less than {} with a probability of 90 %.",
        shown(left.mean),
        shown(left.most)
    )
}

/// Whether enough was measured to say how much better the best setup is.
pub fn is_figure(left: &LeftToGain) -> bool {
    percent(left.most) <= MOST_PERCENT
}
