//! What a survey knows of devices like that of a run, in a sentence.

use flashfit_tune::{Likeness, RunPrior};

/// What a search assumes whose belief includes results of other devices.
pub fn assumption(is_of_twin: bool) -> &'static str {
    if is_of_twin {
        "if its twin (simulated) is right about setups that were not tried"
    } else {
        "if setups that were not tried do as on similar devices"
    }
}

/// For a report, what was known before the first trial.
pub fn fact(prior: &RunPrior) -> String {
    format!("{} were known before the first trial", what(prior))
}

/// For a terminal, what the search begins with.
pub fn prior_text(prior: &RunPrior) -> String {
    let known = what(prior);
    let source = if prior.is_of_twin() { "twin" } else { "survey" };
    format!("{source}: {known} are known before the first trial; gains come from new trials only")
}

/// `532 results of 3 devices of this product, from 3 runs,`.
fn what(prior: &RunPrior) -> String {
    let (devices, least) = prior.devices().unwrap_or((0, Likeness::SameDevice));
    let whose = match (least, devices) {
        (Likeness::Twin, _) => "of a simulated twin of this device".to_owned(),
        (Likeness::SameDevice, _) => "of this device".to_owned(),
        (Likeness::SameProduct, 1) => "of a device of this product".to_owned(),
        (Likeness::SameProduct, _) => format!("of {devices} devices of this product"),
        (Likeness::SameGeometry, 1) => "of another product with the same geometry".to_owned(),
        (Likeness::SameGeometry, _) => {
            format!("of {devices} devices of other products with the same geometry")
        }
    };
    let (results, runs) = (prior.results(), prior.sources.len());
    let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    format!("{results} results {whose}, from {runs},")
}

#[cfg(test)]
mod tests {
    use flashfit_search::SearchEnd;
    use flashfit_tune::RunEnd;

    use super::super::verdict::ended;
    use super::*;

    #[test]
    fn a_probability_that_relies_on_other_devices_says_so() {
        let end = RunEnd::Search(SearchEnd::Confident { probability: 0.9 });
        let alone = ended(end, None);
        assert!(alone.ends_with("with a probability of 90 %"), "{alone}");
        assert_eq!(
            ended(end, Some(assumption(true))),
            format!("{alone} if its twin (simulated) is right about setups that were not tried")
        );
    }
}
