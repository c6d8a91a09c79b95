//! Bundles of figures that a stranger made: what is accepted is read again as it was, adds what it
//! says, and adds it once.

#![no_main]

use std::path::Path;

use flashfit_survey::SurveyDatabase;
use flashfit_survey::bundle::parse;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    flashfit_fuzz::mutate(&mut data[..max_size], size, seed)
});

fuzz_target!(|data: &[u8]| {
    let Ok(bundle) = parse(data) else { return };
    let again = parse(bundle.bundle().text().as_bytes()).expect("a bundle that was written");
    // The last digit of a figure may differ.
    assert_eq!((again.sources(), again.figures()), (bundle.sources(), bundle.figures()));
    let mut survey = SurveyDatabase::open(Path::new(":memory:")).expect("a survey in memory");
    let added = survey.add_bundle(&bundle).expect("memory takes everything");
    assert_eq!(added.sources + added.present, bundle.sources() as u64);
    assert_eq!(survey.add_bundle(&bundle).expect("the same").sources, 0);
});
