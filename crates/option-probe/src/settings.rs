//! Options that set something of the machine or of the device's queue and nothing of the file
//! system. They are looked for and never set: other people use this machine.

use std::path::{Path, PathBuf};

use flashfit_filesystem::{FsOption, Recipe};

use crate::finding::{EvidenceSource, OptionEvidence, OptionVerdict};

/// The verdict on an option that appears in no argument of mkfs and mount; `None` where it sets
/// nothing of the machine either.
pub(super) fn judge(
    option: &FsOption,
    recipe: &Recipe,
) -> Option<(OptionVerdict, Vec<OptionEvidence>)> {
    if let Some(reason) = option.untriable() {
        return Some((
            OptionVerdict::NotMeasured,
            vec![OptionEvidence::new(EvidenceSource::Flashfit, reason)],
        ));
    }
    let sysctl = recipe.sysctl().iter().map(|(key, value)| of_machine(key, &path_of(key), value));
    let sysfs = recipe.sysfs().iter().map(|(attribute, _)| of_queues(attribute));
    let found: Vec<(OptionVerdict, OptionEvidence)> = sysctl.chain(sysfs).collect();
    let verdicts = found.iter().map(|(verdict, _)| *verdict);
    let verdict = if verdicts.clone().any(|verdict| verdict == OptionVerdict::Refused) {
        OptionVerdict::Refused
    } else if verdicts.clone().all(|verdict| verdict == OptionVerdict::Default) {
        OptionVerdict::Default
    } else {
        OptionVerdict::Accepted
    };
    let evidence: Vec<OptionEvidence> = found.into_iter().map(|(_, evidence)| evidence).collect();
    (!evidence.is_empty()).then_some((verdict, evidence))
}

/// Which setting of an option this machine does not have, as a sentence.
pub(super) fn missing(option: &FsOption) -> Option<String> {
    let sysctl = option.sysctl.iter().map(|(key, _)| of_machine(key, &path_of(key), ""));
    let sysfs = option.sysfs.iter().map(|(attribute, _)| of_queues(attribute));
    let refused =
        |(verdict, _): &(OptionVerdict, OptionEvidence)| *verdict == OptionVerdict::Refused;
    sysctl.chain(sysfs).find(refused).map(|(_, evidence)| evidence.text)
}

fn path_of(key: &str) -> PathBuf {
    Path::new("/proc/sys").join(key.replace('.', "/"))
}

fn of_machine(name: &str, path: &Path, value: &str) -> (OptionVerdict, OptionEvidence) {
    let (verdict, text) = match std::fs::read_to_string(path) {
        Ok(now) if now.trim() == value => {
            (OptionVerdict::Default, format!("{name} is {value} already"))
        }
        Ok(now) => {
            (OptionVerdict::Accepted, format!("{name} is there ({}); not set here", now.trim()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            (OptionVerdict::Refused, format!("this kernel has no {name}"))
        }
        Err(error) => (OptionVerdict::Accepted, format!("{name} cannot be read: {error}")),
    };
    (verdict, OptionEvidence::new(EvidenceSource::Flashfit, text))
}

/// A scratch image's queue is not the device's, so only the existence of the attribute is reported.
fn of_queues(attribute: &str) -> (OptionVerdict, OptionEvidence) {
    let disks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut disks = disks.map(|disk| disk.path()).peekable();
    let none = disks.peek().is_none();
    let (verdict, text) = if disks.any(|disk| disk.join(attribute).exists()) {
        (OptionVerdict::Accepted, format!("{attribute} is there on this machine; not set here"))
    } else if none {
        (OptionVerdict::NotMeasured, "no disk is seen here".to_owned())
    } else {
        (OptionVerdict::Refused, format!("no disk of this machine has {attribute}"))
    };
    (verdict, OptionEvidence::new(EvidenceSource::Flashfit, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_that_no_queue_has_is_refused() {
        let (verdict, evidence) = of_queues("queue/no_such_attribute");
        assert!(
            matches!(verdict, OptionVerdict::Refused | OptionVerdict::NotMeasured),
            "{evidence:?}"
        );
    }

    #[test]
    fn a_setting_is_looked_for_and_not_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dirty_bytes");
        assert_eq!(of_machine("vm.dirty_bytes", &path, "0").0, OptionVerdict::Refused);
        std::fs::write(&path, "0\n").unwrap();
        assert_eq!(of_machine("vm.dirty_bytes", &path, "0").0, OptionVerdict::Default);
        let (verdict, evidence) = of_machine("vm.dirty_bytes", &path, "8388608");
        assert_eq!(verdict, OptionVerdict::Accepted);
        assert_eq!(evidence.text, "vm.dirty_bytes is there (0); not set here");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "0\n");
        assert_eq!(path_of("vm.dirty_bytes"), Path::new("/proc/sys/vm/dirty_bytes"));
    }
}
