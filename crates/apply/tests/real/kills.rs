//! Killed at every step, and at moments between: the device is then as it was, as planned, or named
//! as unfinished; and the same work again completes.

use std::time::{Duration, Instant};

use flashfit_apply::ApplyStage;
use flashfit_test_support::{AttemptKind, attempted};

use crate::Test;
use crate::bed::{Bed, Kind, ended};

pub const DAILY: &[Test] = &[("killed_at_every_step_with_a_gpt", || at_every_step(Kind::Gpt))];
/// A campaign: the same again for the other kinds of work.
pub const FULL: &[Test] = &[
    ("killed_at_every_step_without_a_table", || at_every_step(Kind::Whole)),
    ("killed_at_every_step_of_taking_it_back", taking_it_back),
    ("killed_at_moments_between", at_moments_between),
];

/// More events than any work has.
const MOST_EVENTS: u32 = 100;

fn at_every_step(kind: Kind) {
    let bed = Bed::new();
    let mut told = 0;
    for event in 1..MOST_EVENTS {
        bed.rewind();
        let (code, said) = ended(bed.order(Some(kind), event).start());
        if code == Some(0) {
            assert!(event > 8, "there are more events than {event}");
            assert!(kind != Kind::Gpt || told >= 4, "only {told} were told by the device");
            return;
        }
        assert_eq!(code, None, "at event {event}: {said}");
        attempted(AttemptKind::Kill, 1);
        bed.wait_until_free();
        is_known(&bed, &format!("at event {event}"));
        if kind == Kind::Gpt {
            told += u32::from(is_reported_by_device(&bed, &format!("at event {event}")));
        }
        goes_on(&bed, kind, event);
    }
    panic!("there are more than {MOST_EVENTS} events");
}

/// As it was, as planned, or named.
#[track_caller]
fn is_known(bed: &Bed, when: &str) {
    match bed.unfinished() {
        Some(found) => {
            assert!(found.stage.is_some_and(ApplyStage::is_unfinished), "{when}: {found:?}")
        }
        None => assert!(bed.is_original() || is_as_planned(bed), "{when}: neither nor"),
    }
}

/// The journal says so, and nothing else can: it is the last that is written.
fn is_as_planned(bed: &Bed) -> bool {
    let journal = flashfit_apply::ApplyJournal::read(&bed.path("backup")).unwrap();
    journal.is_some_and(|journal| journal.stage() == ApplyStage::Done)
}

#[track_caller]
fn goes_on(bed: &Bed, kind: Kind, event: u32) {
    if is_as_planned(bed) {
        return;
    }
    let resume_command = bed.order(Some(kind), 0).here();
    let done =
        resume_command.unwrap_or_else(|error| panic!("after event {event}: {error}")).unwrap();
    assert!(done.verified.as_planned.contains(&"stride_blocks 2".to_owned()), "{done:?}");
    assert_eq!(bed.unfinished(), None, "after event {event}");
    bed.assert_backup();
    if kind != Kind::Whole {
        bed.assert_gap();
    }
}

fn taking_it_back() {
    let bed = Bed::new();
    bed.order(Some(Kind::Gpt), 0).here().unwrap();
    bed.keep_made();
    for event in 1..MOST_EVENTS {
        bed.rewind_to_made();
        let (code, said) = ended(bed.order(None, event).start());
        if code != Some(0) {
            assert_eq!(code, None, "at event {event}: {said}");
            attempted(AttemptKind::Kill, 1);
            bed.wait_until_free();
            match bed.unfinished() {
                Some(found) => {
                    assert_eq!(found.stage, Some(ApplyStage::Restoring));
                    assert_eq!(
                        found.resume_command.as_deref(),
                        Some("undo"),
                        "it would be made again"
                    );
                }
                None => bed.assert_ends(),
            }
            bed.order(None, 0).here().unwrap();
        }
        bed.assert_ends();
        assert_eq!(bed.unfinished(), None, "after event {event}");
        if code == Some(0) {
            assert!(event > 4, "there are more events than {event}");
            return;
        }
    }
    panic!("there are more than {MOST_EVENTS} events");
}

/// The duration of a whole run determines the moments.
fn at_moments_between() {
    let bed = Bed::new();
    for kind in [Kind::Mbr, Kind::Whole] {
        bed.rewind();
        let began = Instant::now();
        assert_eq!(ended(bed.order(Some(kind), 0).start()).0, Some(0));
        let whole = began.elapsed();
        for tenth in [4, 7] {
            bed.rewind();
            let mut child = bed.order(Some(kind), 0).start();
            std::thread::sleep(whole * tenth / 10 + Duration::from_millis(3));
            let _ = child.kill();
            let _ = ended(child);
            bed.wait_until_free();
            is_known(&bed, &format!("after {tenth}/10"));
            goes_on(&bed, kind, 1000 + tenth);
        }
    }
}

/// Whether a machine that remembers nothing learns it from the device alone, once it must be: where
/// there is a gap before the partition, between the first stage and the last.
#[track_caller]
fn is_reported_by_device(bed: &Bed, when: &str) -> bool {
    let found = bed.unfinished_as("another machine");
    match bed.unfinished() {
        None => assert_eq!(found, None, "{when}"),
        // Between the record here and the marker there, and back.
        Some(here) if matches!(here.stage, Some(ApplyStage::Marking | ApplyStage::Finishing)) => {}
        Some(here) => {
            let told = found.as_ref().and_then(|found| found.backup.clone());
            assert_eq!(told, here.backup, "{when}");
        }
    }
    found.is_some()
}
