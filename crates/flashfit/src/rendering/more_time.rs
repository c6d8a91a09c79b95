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
    // Of few draws that gain much, the mean exceeds what most of them do.
    let (mean, most, none) = (shown(left.mean), shown(left.most), shown(0.0));
    if mean == none && most == none {
        return "More time: according to the model no setup is better than this one.".to_owned();
    }
    let most = match left.most > left.mean && most != mean {
        true => format!(", and by less than {most} with a probability of 90 %"),
        false => String::new(),
    };
    format!(
        "More time: according to the model the best setup is better than this one by {mean} on \
         average{most}."
    )
}

/// Whether enough was measured to say how much better the best setup is.
pub fn is_figure(left: &LeftToGain) -> bool {
    percent(left.most) <= MOST_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_gain_does_not_contradict_itself() {
        let said = |mean, most| sentence(&LeftToGain { mean, most });
        let start = "More time: according to the model the best setup is better than this one by";
        let usual = format!(
            "{start} +1.0 % on average, and by less than +4.1 % with a probability of 90 %."
        );
        assert_eq!(said(0.01, 0.04), usual);
        let best = "More time: according to the model no setup is better than this one.";
        assert_eq!(said(0.0, 0.0), best);
        assert_eq!(said(0.000_01, 0.000_02), best);
        for most in [0.0, 0.008_01] {
            assert_eq!(said(0.008, most), format!("{start} +0.8 % on average."));
        }
    }
}
