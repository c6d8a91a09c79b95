//! Obstacles are found before anything is written to the device.

use flashfit_apply::ApplyError;
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_user_error::{ExitClass, UserError};

use crate::Test;
use crate::bed::{Bed, Kind, ended, files_in};

pub const TESTS: &[Test] = &[
    ("a_folder_with_other_things_in_it", occupied),
    ("a_disk_without_room_for_the_backup", full),
    ("a_backup_that_was_damaged_is_not_written_back", damaged),
    ("a_backup_of_another_medium_is_not_written_back", another_device),
    ("an_unfinished_medium_without_its_backup", without_backup),
    ("what_was_saved_is_given_up_by_name_only", given_up),
    ("another_plan_keeps_the_first_backup", another_plan),
    ("what_is_not_as_planned_is_said", not_as_planned),
    ("what_a_user_wrote_since_is_not_made_anew", kept_when_made),
];

#[track_caller]
fn untouched(bed: &Bed) {
    assert!(bed.is_original(), "the device was written to");
    assert_eq!(bed.unfinished(), None);
}

fn occupied() {
    let bed = Bed::new();
    std::fs::create_dir(bed.path("backup")).unwrap();
    std::fs::write(bed.path("backup/thesis"), "text").unwrap();
    let error = bed.order(Some(Kind::Gpt), 0).here().unwrap_err();
    assert!(matches!(error, ApplyError::Occupied { .. }), "{error}");
    assert_eq!(files_in(&bed.path("backup")).len(), 1);
    untouched(&bed);
}

/// In its own namespace, so that the small file system goes with it.
fn full() {
    let bed = Bed::new();
    let exe = std::env::current_exe().unwrap();
    let script = format!(
        "mkdir {0} && mount -t tmpfs -o size=6m tmpfs {0} && \
         {1} {2} gpt 0 {3} {0}/backup {4}; code=$?; ls {0}; exit $code",
        bed.path("small").display(),
        exe.display(),
        crate::worker::NAME,
        bed.image().display(),
        bed.path("state").display(),
    );
    let program = Program::new("unshare").args(["--mount", "sh", "-c", &script]);
    let outcome = SystemRunner::default().run(&program).unwrap();
    assert_eq!(outcome.code, Some(i32::from(ExitClass::Environment.code())), "{outcome:?}");
    assert!(outcome.stdout.contains("no space left"), "{outcome:?}");
    assert!(!outcome.stdout.lines().any(|line| line == "backup"), "half a backup is left");
    untouched(&bed);
}

fn damaged() {
    let bed = Bed::new();
    bed.order(Some(Kind::Gpt), 0).here().unwrap();
    let made = std::fs::read(bed.image()).unwrap();
    std::fs::write(bed.path("backup/last.img"), vec![0; 4 << 20]).unwrap();
    let error = bed.order(None, 0).here().unwrap_err();
    assert!(matches!(error, ApplyError::Damaged { .. }), "{error}");
    assert!(std::fs::read(bed.image()).unwrap() == made, "the device was written to");
}

fn another_device() {
    let bed = Bed::new();
    bed.order(Some(Kind::Gpt), 0).here().unwrap();
    std::fs::write(bed.image(), vec![7; 12 << 20]).unwrap();
    let error = bed.order(None, 0).here().unwrap_err();
    assert!(matches!(error, ApplyError::OtherDevice { .. }), "{error}");
    assert_eq!(error.class(), ExitClass::Refused);
    assert!(std::fs::read(bed.image()).unwrap().iter().all(|byte| *byte == 7));
}

fn without_backup() {
    let bed = Bed::new();
    // In the middle of making the file system.
    let (code, _) = ended(bed.order(Some(Kind::Gpt), 6).start());
    assert_eq!(code, None);
    bed.wait_until_free();
    std::fs::rename(bed.path("backup"), bed.path("brought along")).unwrap();
    std::fs::remove_dir_all(bed.path("state")).unwrap();
    let mut order = bed.order(Some(Kind::Gpt), 0);
    order.backup = bed.path("brought along");
    order.here().unwrap();
    assert_eq!(bed.unfinished(), None);
    std::fs::rename(bed.path("brought along"), bed.path("backup")).unwrap();
    bed.assert_backup();
}

/// The folder and the records of this machine were removed: only the device has the record.
fn given_up() {
    let bed = Bed::new();
    bed.order(Some(Kind::Gpt), 0).here().unwrap();
    std::fs::rename(bed.path("backup"), bed.path("finished")).unwrap();
    let (code, _) = ended(bed.order(Some(Kind::Gpt), 6).start());
    assert_eq!(code, None);
    bed.wait_until_free();
    for folder in ["backup", "state"] {
        std::fs::remove_dir_all(bed.path(folder)).unwrap();
    }
    let mut order = bed.order(Some(Kind::Gpt), 0);
    order.named = false;
    let error = order.here().unwrap_err();
    assert!(matches!(error, ApplyError::BackupElsewhere { .. }), "{error}");
    assert!(error.hint().unwrap().contains("backup"), "{error}");
    let mut order = bed.order(Some(Kind::Gpt), 0);
    order.backup = bed.path("finished");
    let error = order.here().unwrap_err();
    assert!(matches!(error, ApplyError::Occupied { .. }), "{error}");
    assert!(bed.unfinished().is_some());
    bed.order(Some(Kind::Gpt), 0).here().unwrap();
    assert_eq!(bed.unfinished(), None);
}

fn another_plan() {
    let bed = Bed::new();
    let (code, _) = ended(bed.order(Some(Kind::Gpt), 6).start());
    assert_eq!(code, None);
    bed.wait_until_free();
    let mut elsewhere = bed.order(Some(Kind::Whole), 0);
    elsewhere.backup = bed.path("elsewhere");
    let error = elsewhere.here().unwrap_err();
    assert!(matches!(error, ApplyError::UnfinishedThere { .. }), "{error}");
    assert_eq!(error.hint(), Some("continue with: again".into()));
    bed.order(Some(Kind::Whole), 0).here().unwrap();
    assert_eq!(bed.unfinished(), None);
    bed.assert_backup();
    bed.order(None, 0).here().unwrap();
    bed.assert_ends();
}

fn not_as_planned() {
    let bed = Bed::new();
    let error = bed.order(Some(Kind::Wrong), 0).here().unwrap_err();
    assert_eq!(error.to_string(), "the device is not as planned: stride_blocks is 2, not 4");
    assert_eq!(error.class(), ExitClass::BadVerdict);
    let stage = bed.unfinished().and_then(|found| found.stage);
    assert_eq!(stage, Some(flashfit_apply::ApplyStage::Verifying));
    bed.order(None, 0).here().unwrap();
    bed.assert_ends();
}

fn kept_when_made() {
    let bed = Bed::new();
    let whole = (1..40).find(|event| {
        bed.rewind();
        let (code, _) = ended(bed.order(Some(Kind::Whole), *event).start());
        bed.wait_until_free();
        let stage = bed.unfinished().and_then(|found| found.stage);
        code.is_none() && stage == Some(flashfit_apply::ApplyStage::Verifying)
    });
    assert!(whole.is_some(), "it is never interrupted while verifying");
    // A block that the file system does not use; mkfs discards it.
    bed.scribble(9 << 20, b"written since");
    bed.order(Some(Kind::Whole), 0).here().unwrap();
    let now = std::fs::read(bed.image()).unwrap();
    assert!(now[9 << 20..].starts_with(b"written since"), "it was made anew");
    assert_eq!(bed.unfinished(), None);
}
