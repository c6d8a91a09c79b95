//! Whether a campaign can continue with a command: its counts must be of the same question.

use std::path::Path;

use flashfit_device::Bytes;

use super::definition::SetupDefinition;
use super::plan::{BoardPlan, CampaignPlan, CampaignStart, CardPlan};
use crate::CrashError;
use crate::blocks::SECTOR_BYTES;
use crate::import::RequestsPlan;
use crate::setup::CrashSetup;
use crate::state::FlushFault;

/// Of a hash in a message.
const HASH_DIGITS: usize = 12;

impl CampaignPlan {
    /// Checks that a campaign of this plan can continue one of the other, which is in a directory.
    /// How long it may take can differ.
    ///
    /// # Errors
    /// [`CrashError::OtherCampaign`], [`CrashError::OtherCatalog`], [`CrashError::OtherKernel`] or
    /// [`CrashError::OtherEnumeration`].
    pub fn check_continues(&self, began: &Self, dir: &Path) -> Result<(), CrashError> {
        let path = dir.to_owned();
        let how = self.difference(began);
        if !how.is_empty() || self.decisive() != began.decisive() {
            return Err(CrashError::OtherCampaign { path, how });
        }
        if self.start.enumeration != began.start.enumeration {
            return Err(CrashError::OtherEnumeration { path });
        }
        if let (Some(began), Some(now)) = (began.mounting_kernel(), self.mounting_kernel()) {
            if began != now {
                let (began, now) = (began.clone(), now.clone());
                return Err(CrashError::OtherKernel { path, began, now });
            }
        }
        for (label, now) in &self.start.definitions {
            let known = began.start.definitions.get(label);
            if let Some(how) = known.and_then(|known| now.difference(known)) {
                return Err(CrashError::OtherCatalog { path, setup: label.clone(), how });
            }
        }
        Ok(())
    }

    /// Checks that a recorded state of a setup shows the same with this catalog, as far as the
    /// campaign, which is in a directory, recorded it.
    ///
    /// # Errors
    /// [`CrashError::OtherCatalog`].
    pub fn check_commands(&self, setup: &CrashSetup, dir: &Path) -> Result<(), CrashError> {
        let began = self.start.definitions.get(&setup.label);
        match began.and_then(|began| SetupDefinition::from(setup).other_commands(began)) {
            None => Ok(()),
            Some(how) => {
                let (path, setup) = (dir.to_owned(), setup.label.clone());
                Err(CrashError::OtherCatalog { path, setup, how })
            }
        }
    }

    /// What must be equal, without what is compared by itself.
    fn decisive(&self) -> Self {
        let without_identity =
            |board: &BoardPlan| BoardPlan { device_hash: None, place: None, ..board.clone() };
        let board = self.board.as_ref().map(without_identity);
        let kernel = self.kernel.as_ref().map(|_| String::new());
        Self { start: CampaignStart::default(), board, kernel, ..self.clone() }
    }

    /// What the other campaign has otherwise, in words; may be empty.
    fn difference(&self, began: &Self) -> String {
        let others = began.facts().into_iter().zip(self.facts()).filter(|(was, now)| was != now);
        let mut all: Vec<String> =
            others.map(|((name, was), (_, now))| format!("{name} {was}, not {now}")).collect();
        let block = |plan: &Self| plan.start.erase_block_bytes.map(Bytes);
        if let (Some(was), Some(now)) = (block(began), block(self)) {
            if was != now {
                all.push(format!("erase block {was}, not {now}"));
            }
        }
        if self.is_other(began, |plan| plan.board.as_ref()?.device_hash.as_ref()) {
            all.push("the device has another CID or serial number".to_owned());
        }
        let place = |plan: &Self| plan.board.as_ref()?.place.clone();
        if let (Some(was), Some(now)) = (place(began), place(self)) {
            if was != now {
                all.push(format!("board {was}, not {now}"));
            }
        }
        // Under the same name.
        if all.is_empty() && self.workload != began.workload {
            all.push("the workload has other commands".to_owned());
        }
        if all.is_empty() && self.is_other(began, |plan| Some(&plan.card.as_ref()?.model)) {
            all.push("the card has other parameters".to_owned());
        }
        all.join("; ")
    }

    /// Whether both plans have it, and it differs.
    fn is_other<'a, T: PartialEq>(
        &'a self,
        began: &'a Self,
        of: impl Fn(&'a Self) -> Option<T>,
    ) -> bool {
        matches!((of(self), of(began)), (Some(now), Some(was)) if now != was)
    }

    fn facts(&self) -> [(&'static str, String); 10] {
        let number = match self.states {
            Some(states) => states.to_string(),
            None => "as many as there is time for".to_owned(),
        };
        let flushes = match self.flushes {
            FlushFault::None => "none",
            FlushFault::One => "one",
            FlushFault::All => "all",
        };
        let kernel = match &self.kernel {
            Some(_) => "that of a virtual machine",
            None if self.board.is_some() => "that of a board",
            None => "that of this system",
        };
        let write_unit = Bytes(u64::from(self.unit_sectors) * SECTOR_BYTES as u64);
        [
            ("setups", self.setups.join(", ")),
            ("workload", self.workload.name()),
            ("seed", self.seed.to_string()),
            ("number for each setup", number),
            ("card", in_words(self.card.as_ref(), card)),
            ("write unit", write_unit.to_string()),
            ("ignored flushes", flushes.to_owned()),
            ("kernel", kernel.to_owned()),
            ("device", in_words(self.board.as_ref(), device)),
            ("log", in_words(self.requests.as_ref(), requests)),
        ]
    }
}

fn in_words<T>(what: Option<&T>, words: fn(&T) -> String) -> String {
    what.map_or_else(|| "none".to_owned(), words)
}

fn card(card: &CardPlan) -> String {
    let faults: String = card.faults.iter().map(|fault| format!(" with {fault}")).collect();
    format!("{}{faults}", card.model.name)
}

fn device(board: &BoardPlan) -> String {
    format!("{} of {} ({})", board.target, board.on, board.device)
}

fn requests(requests: &RequestsPlan) -> String {
    let short = |hash: &str| hash.chars().take(HASH_DIGITS).collect::<String>();
    let mark = requests.mark.iter().map(|mark| format!(" from mark `{mark}`"));
    let image = requests.image.iter().map(|image| format!(" over image {}", short(image)));
    let rest: String = mark.chain(image).collect();
    format!("with SHA-256 {}{rest}", short(&requests.log))
}

#[cfg(test)]
mod tests {
    use flashfit_card::{EnabledFault, FaultClass};
    use flashfit_filesystem::{Conditions, FileSystemCatalog};

    use super::*;
    use crate::campaign::definitions;
    use crate::workload::{CrashWorkload, ProgramWorkload};

    fn refused(now: &CampaignPlan, began: &CampaignPlan) -> CrashError {
        now.check_continues(began, Path::new("dir")).unwrap_err()
    }

    /// Why it is another campaign.
    fn how(now: &CampaignPlan, began: &CampaignPlan) -> String {
        match refused(now, began) {
            CrashError::OtherCampaign { how, .. } => how,
            other => panic!("{other}"),
        }
    }

    fn started(start: CampaignStart) -> CampaignPlan {
        CampaignPlan { start, ..CampaignPlan::sample() }
    }

    #[test]
    fn a_campaign_continues_in_more_time_and_not_with_another_seed_or_layout() {
        let began =
            started(CampaignStart { erase_block_bytes: Some(4 << 20), ..CampaignStart::default() });
        let continues = |start| started(start).check_continues(&began, Path::new("dir"));
        assert!(continues(CampaignStart::default()).is_ok(), "an earlier version's");
        let longer = CampaignStart { time_ns: Some(9), ..began.start.clone() };
        assert!(continues(longer).is_ok());
        let larger = CampaignStart { erase_block_bytes: Some(8 << 20), ..CampaignStart::default() };
        assert_eq!(how(&started(larger), &began), "erase block 4 MiB, not 8 MiB");
        let other = CampaignPlan { seed: 2, states: Some(9), ..began.clone() };
        let said = "seed 1, not 2; number for each setup as many as there is time for, not 9";
        assert_eq!(how(&other, &began), said);
    }

    #[test]
    fn every_other_difference_is_named() {
        let began = CampaignPlan::sample();
        let is_named = |change: &dyn Fn(&mut CampaignPlan), said: &str| {
            let mut now = began.clone();
            change(&mut now);
            assert_eq!(how(&now, &began), said);
        };
        is_named(&|plan| plan.flushes = FlushFault::All, "ignored flushes none, not all");
        is_named(&|plan| plan.unit_sectors = 32, "write unit 4 KiB, not 16 KiB");
        let machine = "kernel that of this system, not that of a virtual machine";
        is_named(&|plan| plan.kernel = Some("6.1".to_owned()), machine);
        let requests = RequestsPlan {
            log: "0123456789abcdef".to_owned(),
            mark: Some("mkfs".to_owned()),
            image: None,
        };
        let said = "log none, not with SHA-256 0123456789ab from mark `mkfs`";
        is_named(&|plan| plan.requests = Some(requests.clone()), said);
    }

    #[test]
    fn what_differs_under_the_same_name_is_named() {
        let program = |run: &str| ProgramWorkload { run: run.to_owned(), check: String::new() };
        let with = |run| CampaignPlan {
            workload: CrashWorkload::Program(program(run)),
            ..CampaignPlan::sample()
        };
        assert_eq!(how(&with("b"), &with("a")), "the workload has other commands");
        let model = flashfit_card::catalog::load("usd-a2-cq", None).unwrap();
        let card = |sector_bytes, class| {
            let model = flashfit_card::CardModel { sector_bytes, ..model.clone() };
            let card = CardPlan { model, faults: vec![EnabledFault::new(class)] };
            CampaignPlan { card: Some(card), ..CampaignPlan::sample() }
        };
        let began = card(512, FaultClass::TornSector);
        let said = how(&card(4096, FaultClass::TornSector), &began);
        assert_eq!(said, "the card has other parameters");
        let said = how(&card(512, FaultClass::Brick), &began);
        assert_eq!(said, "card usd-a2-cq with torn-sector, not usd-a2-cq with brick");
    }

    #[test]
    fn another_kernel_is_named_also_of_a_virtual_machine() {
        let machine = |release: &str| CampaignPlan {
            kernel: Some(release.to_owned()),
            ..CampaignPlan::sample()
        };
        let host = |release: &str| {
            let host_kernel = Some(release.to_owned());
            started(CampaignStart { host_kernel, ..CampaignStart::default() })
        };
        for (now, began) in [(machine("6.2"), machine("6.1")), (host("6.2"), host("6.1"))] {
            match refused(&now, &began) {
                CrashError::OtherKernel { began, now, .. } => {
                    assert_eq!((began.as_str(), now.as_str()), ("6.1", "6.2"));
                }
                other => panic!("{other}"),
            }
            assert!(began.check_continues(&began, Path::new("dir")).is_ok());
        }
    }

    #[test]
    fn another_card_in_the_slot_of_a_board_is_another_campaign() {
        let with = |hash: Option<&str>| {
            let board = BoardPlan {
                on: "ssh:board".to_owned(),
                target: "/dev/mmcblk1".to_owned(),
                device: "SD32G, 31914983424 B".to_owned(),
                device_hash: hash.map(str::to_owned),
                place: None,
            };
            CampaignPlan { board: Some(board), ..CampaignPlan::sample() }
        };
        assert_eq!(
            how(&with(Some("b")), &with(Some("a"))),
            "the device has another CID or serial number"
        );
        for (now, began) in [(Some("a"), Some("a")), (Some("a"), None), (None, Some("a"))] {
            assert!(with(now).check_continues(&with(began), Path::new("dir")).is_ok());
        }
        let on = |place: Option<&str>| {
            let mut plan = with(None);
            plan.board.as_mut().unwrap().place = place.map(str::to_owned);
            plan
        };
        assert_eq!(how(&on(Some("b2")), &on(Some("b1"))), "board b1, not b2");
        assert!(on(Some("b2")).check_continues(&on(None), Path::new("dir")).is_ok());
    }

    #[test]
    fn a_setup_that_the_catalog_defines_otherwise_is_named() {
        let catalog = FileSystemCatalog::load(None).unwrap();
        let conditions = Conditions { volatile_cache: true, ..Conditions::default() };
        let setup = |text| CrashSetup::parse(text, &catalog, &conditions).unwrap();
        let noatime = setup("ext4:noatime");
        let changed = CrashSetup { recipe: setup("ext4:nobarrier").recipe, ..noatime.clone() };
        let mut judged = noatime.clone();
        judged.promises.keeps.clear();
        let with = |setup: &CrashSetup| {
            let definitions = definitions(std::slice::from_ref(setup));
            started(CampaignStart { definitions, ..CampaignStart::default() })
        };
        let began = with(&noatime);
        for other in [&changed, &judged] {
            match refused(&with(other), &began) {
                CrashError::OtherCatalog { setup, .. } => assert_eq!(setup, "ext4:noatime"),
                other => panic!("{other}"),
            }
            // One of an earlier version.
            assert!(with(other).check_continues(&CampaignPlan::sample(), Path::new("x")).is_ok());
        }
        // A state shows the same, whatever was promised.
        assert!(began.check_commands(&judged, Path::new("dir")).is_ok());
        assert!(began.check_commands(&changed, Path::new("dir")).is_err());
        assert!(CampaignPlan::sample().check_commands(&changed, Path::new("dir")).is_ok());
    }
}
