//! Runs that go on with another kernel, other programs or another catalog.

use flashfit_test_support::tempdir_in_memory;
use flashfit_testbed::TestBedSpec;
use flashfit_tune::run::changed;
use flashfit_tune::{CatalogUsed, Problem, RunDir, StoredRun, TuneSession};

use crate::support::{Answer, FakeTestBed, SpaceOf, Watcher, facts, header, opt, spec, workload};

#[test]
fn what_changed_is_said_once() {
    let space = SpaceOf::filesystem("x", &[opt("a")]).build();
    let mut header = header(&space, &spec(&space, &["first"]));
    header.facts.programs.insert("fio".into(), "fio-3.33".into());
    let mut now = facts();
    now.programs.insert("fio".into(), "fio-3.33".into());
    now.programs.insert("mkfs.x".into(), "1".into());
    assert_eq!(changed(&header, &now, None, 9), None);
    now.kernel = "7.0".into();
    now.programs.insert("fio".into(), "fio-3.36".into());
    assert_eq!(changed(&header, &now, None, 0), None, "no trial differs");
    let catalog = CatalogUsed { sha256: "0".repeat(64), built_in: true };
    let next = changed(&header, &now, Some(catalog.clone()), 9).unwrap();
    let [known, kernel, fio, definitions] = &next.warnings[..] else {
        panic!("{:?}", next.warnings)
    };
    assert_eq!(known, &header.warnings[0]);
    let said = "trials 1 to 9 were made with fio-3.33, later ones with fio-3.36: they may differ";
    assert_eq!(fio, said);
    assert!(kernel.contains("later ones with Linux 7.0 on "), "{kernel}");
    assert!(definitions.contains("other definitions"), "{definitions}");
    assert_eq!((next.catalog.as_ref(), &next.facts.kernel), (Some(&catalog), &now.kernel));
    assert_eq!(changed(&next, &now, None, 12), None);
}

/// The facts of a run are those of the board that was opened first, which may be another one next
/// time.
#[test]
fn boards_of_a_lab_may_have_other_programs() {
    let space = SpaceOf::filesystem("x", &[opt("a")]).build();
    let mut header = header(&space, &spec(&space, &["first"]));
    header.facts.programs.insert("fio".into(), "fio-3.33".into());
    let mut now = facts();
    now.programs.insert("fio".into(), "fio-3.36".into());
    assert!(changed(&header, &now, None, 9).is_some());
    header.spec.on = TestBedSpec::Lab { tags: "board=pi4".into() };
    assert_eq!(changed(&header, &now, None, 9), None);
    now.kernel = "7.0".into();
    let next = changed(&header, &now, None, 9).unwrap();
    assert_eq!(next.warnings.len(), header.warnings.len() + 1, "{:?}", next.warnings);
    assert_eq!(next.facts.programs["fio"], "fio-3.33");
}

/// A run that is only looked at again stays as it is.
#[test]
fn the_header_changes_with_the_next_trial() {
    let folder = tempdir_in_memory().unwrap();
    let space = SpaceOf::filesystem("x", &[opt("a")]).build();
    let spec = spec(&space, &["first"]);
    let problem = Problem::of_run(&space, &spec).unwrap();
    let workloads = [workload("first")];
    let before = header(&space, &spec);
    let mut next = before.clone();
    next.facts.kernel = "7.0".into();
    drop(RunDir::create(folder.path(), &before).unwrap());
    let landscape = |_: &_, _: &_| Answer::Kib(1000);
    for (may_make, kernel) in [(Some(0), &before.facts.kernel), (None, &next.facts.kernel)] {
        let (run_dir, run) = RunDir::resume(folder.path()).unwrap();
        let mut session =
            TuneSession::new(&spec, &problem, &workloads, run_dir, run.trials).unwrap();
        session.replace_header_with_next_trial(Some(next.clone()));
        let mut test_bed = FakeTestBed::new(&landscape);
        test_bed.gone_after = may_make;
        let ended = session.run(&mut test_bed, &mut Watcher::default());
        assert_eq!(ended.is_err(), may_make.is_some());
        drop(session);
        assert_eq!(&StoredRun::read(folder.path()).unwrap().header.facts.kernel, kernel);
    }
}
