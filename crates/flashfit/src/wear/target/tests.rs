//! Unit tests of the target of an estimate.

use flashfit_wear::usage;

use super::*;

fn choice(target: &str) -> ModelChoice<'_> {
    ModelChoice {
        target,
        is_elsewhere: false,
        capacity: None,
        endurance: None,
        class: None,
        used_percent: None,
    }
}

#[test]
fn given_cycles_scale_the_rating_of_the_pslc_area() {
    let usage = usage::load("kiosk", None).unwrap();
    let rated = |endurance| {
        let choice = ModelChoice { endurance, ..choice("sim:emmc-5.1") };
        let nand = modeled(&choice, &usage, None).unwrap().model.nand;
        (nand.endurance_cycles, nand.pslc.unwrap().endurance_cycles)
    };
    assert_eq!(rated(None), (3000, 30_000));
    assert_eq!(rated(Some(1000)), (1000, 10_000));
    assert_eq!(rated(Some(1)), (1, 10));
}

#[test]
fn a_class_is_refused_where_the_target_is_a_model() {
    let usage = usage::load("kiosk", None).unwrap();
    for target in ["sim:usd-a1-pagemap", "usd-a1-pagemap", "my-card.toml"] {
        let choice = ModelChoice { class: Some("emmc-5.1"), ..choice(target) };
        let error = modeled(&choice, &usage, None).unwrap_err();
        assert!(error.message().contains("cannot be modeled as emmc-5.1"), "{error:?}");
    }
}

#[test]
fn a_class_does_not_stand_in_for_a_device_that_is_not_there() {
    let usage = usage::load("kiosk", None).unwrap();
    for (target, what) in [("NONSENSE", "there is no NONSENSE"), ("/dev/zero", "/dev/zero")] {
        let choice = ModelChoice { class: Some("emmc-5.1"), ..choice(target) };
        let error = modeled(&choice, &usage, None).unwrap_err();
        assert_eq!(error.class(), ExitClass::Usage);
        assert!(error.message().contains(what), "{error:?}");
        assert!(error.hint().unwrap().ends_with("flashfit wear estimate emmc-5.1"), "{error:?}");
    }
    let elsewhere =
        ModelChoice { is_elsewhere: true, class: Some("emmc-5.1"), ..choice("NONSENSE") };
    assert!(modeled(&elsewhere, &usage, None).is_ok());
}

#[test]
fn the_capacity_is_that_of_the_device_with_what_is_never_written() {
    let mut usage = usage::load("phone", None).unwrap();
    let plain = modeled(&choice("sim:usd-a1-pagemap"), &usage, None).unwrap();
    let explained = "(64 GiB, the capacity of the usage model)";
    assert!(plain.explanation.contains(explained), "{}", plain.explanation);
    usage.spare_percent.value = 90.0;
    let target = modeled(&choice("sim:usd-a1-pagemap"), &usage, None).unwrap();
    assert_eq!(target.capacity, Bytes::mib(64 << 10));
    assert!(target.model.capacity.0 < target.capacity.0 / 9);
    let explained = "(64 GiB, 90 % of it never written; the capacity of the usage model)";
    assert!(target.explanation.contains(explained), "{}", target.explanation);
}

/// A card file is one card of its capacity, whatever its name and however it is named.
#[test]
fn a_file_is_one_card_with_and_without_its_ending() {
    let folder = tempfile::tempdir().unwrap();
    let usage = usage::load("phone", None).unwrap();
    let text = flashfit_card::catalog::entry("usd-a1-pagemap", None).unwrap().text;
    let own = flashfit_card::catalog::load("usd-a1-pagemap", None).unwrap().capacity;
    for name in ["mine.toml", "mine"] {
        let path = folder.path().join(name);
        std::fs::write(&path, &text).unwrap();
        let path = path.display().to_string();
        for target in [path.clone(), format!("sim:{path}")] {
            let found = modeled(&choice(&target), &usage, None).unwrap();
            assert_eq!(found.capacity, own, "{target}: {}", found.explanation);
            assert_eq!(found.uncertainty.model_factor, MODEL_FACTOR, "{target}");
        }
    }
    let class = modeled(&choice("usd-a1-pagemap"), &usage, None).unwrap();
    assert_ne!(class.capacity, own);
    assert_eq!(class.uncertainty.model_factor, CLASS_FACTOR);
}

#[test]
fn an_image_has_the_capacity_of_its_file() {
    let usage = usage::load("kiosk", None).unwrap();
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(2 << 30).unwrap();
    let path = image.path().display().to_string();
    let choice = ModelChoice { class: Some("sd-c10-log"), ..choice(&path) };
    let found = modeled(&choice, &usage, None).unwrap();
    assert_eq!(found.capacity, Bytes::mib(2 << 10), "{}", found.explanation);
    let larger = ModelChoice { capacity: Some(Bytes::mib(8 << 10)), ..choice };
    assert_eq!(modeled(&larger, &usage, None).unwrap().capacity, Bytes::mib(8 << 10));
}

#[test]
fn an_impossible_capacity_and_an_empty_name_are_usage_errors() {
    let usage = usage::load("kiosk", None).unwrap();
    let tiny = ModelChoice { capacity: Some(Bytes(1)), ..choice("sim:sd-c10-log") };
    let error = modeled(&tiny, &usage, None).unwrap_err();
    assert!(error.message().starts_with("cannot model a device of 1 B:"), "{error:?}");
    for class in [None, Some("sd-c10-log")] {
        let error = modeled(&ModelChoice { class, ..choice("") }, &usage, None).unwrap_err();
        assert_eq!(error.class(), ExitClass::Usage, "{error:?}");
        assert!(error.message().contains("empty"), "{error:?}");
    }
}
