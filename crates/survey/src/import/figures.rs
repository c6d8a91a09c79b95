//! Figures of repeats: geometric means with Student's interval of the logarithms.

use std::collections::BTreeMap;

use flashfit_search::student;

use crate::metric::SurveyMetric;
use crate::record::{
    MOST_RESULTS, MeasuredSetup, SurveyMeasure, SurveyResult, SurveyValue, stored_text,
};

/// Figures by setup and measure, as they are collected.
#[derive(Debug, Default)]
pub struct FigureSet(BTreeMap<(MeasuredSetup, SurveyMeasure), Vec<f64>>);

impl FigureSet {
    /// Adds a figure; one that is not a positive finite number is left out.
    pub fn push(&mut self, setup: &MeasuredSetup, measure: SurveyMeasure, value: f64) {
        if value.is_finite() && value > 0.0 {
            self.0.entry((setup.clone(), measure)).or_default().push(value.ln());
        }
    }

    /// Whether there are more than a survey keeps.
    pub fn is_too_large(&self) -> bool {
        self.0.len() > MOST_RESULTS
    }

    pub fn results(self) -> Vec<SurveyResult> {
        let value = |((setup, measure), logs): (_, Vec<f64>)| {
            let value = geometric(&logs);
            SurveyResult { setup, measure, value }
        };
        self.0.into_iter().map(value).collect()
    }
}

/// The geometric mean of figures by their logarithms, of which there is at least one.
fn geometric(logs: &[f64]) -> SurveyValue {
    let (mean, half) = mean_and_half_width(logs);
    SurveyValue {
        value: mean.exp(),
        low: half.map(|half| (mean - half).exp()),
        high: half.map(|half| (mean + half).exp()).filter(|high| high.is_finite()),
        count: u32::try_from(logs.len()).unwrap_or(u32::MAX),
        confidence: None,
    }
}

/// The mean, and half of its 95 % interval, which needs two values.
pub fn mean_and_half_width(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, None);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = student::quantile(0.975, count - 1.0) * (variance / count).sqrt();
    (mean, Some(half))
}

/// A measure of which only these parts apply.
pub fn measure(metric: SurveyMetric, unit: &str) -> SurveyMeasure {
    let (metric, unit) = (metric.name().to_owned(), unit.to_owned());
    SurveyMeasure { metric, unit, ..SurveyMeasure::default() }
}

/// A setup as it is stored.
pub fn setup(filesystem: &str, options: &[String], scheduler: &str) -> MeasuredSetup {
    MeasuredSetup {
        filesystem: stored_text(filesystem),
        options: stored_text(&options.join("+")),
        scheduler: stored_text(scheduler),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_logarithms() {
        let mut figures = FigureSet::default();
        let own = setup("ext4", &["noatime".into(), "discard".into()], "none");
        for value in [100.0, 400.0, 0.0, f64::NAN, f64::INFINITY, -1.0] {
            figures.push(&own, measure(SurveyMetric::Rate, "bytes/s"), value);
        }
        let results = figures.results();
        assert_eq!((results.len(), results[0].setup.options.as_str()), (1, "noatime+discard"));
        let value = results[0].value;
        assert!((value.value - 200.0).abs() < 1e-6 && value.count == 2);
        // scipy.stats.t.interval(0.95, 1, loc=log(200), scale=log(2))
        let (low, high) = (value.low.unwrap(), value.high.unwrap());
        assert!((low * high - 40_000.0).abs() < 1.0 && (low.ln() + 3.5089).abs() < 1e-3, "{low}");
        assert_eq!(mean_and_half_width(&[3.0]), (3.0, None));
    }
}
