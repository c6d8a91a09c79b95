//! What SD cards and eMMC chips declare: their registers, and what the kernel makes of them.
//!
//! `preferred_erase_size` is, of an SD card, the allocation unit of the SD status register; of an
//! eMMC chip, its high-capacity erase group; and where those are lacking, a guess from the capacity
//! (`mmc_init_erase` in `drivers/mmc/core`). Limit: EXT_CSD is read from debugfs only, so it needs
//! root and a mounted debugfs; without it, what equals the guess is taken for the guess, unless it
//! is the erase group that the kernel uses.

use super::{DeclaredBytes, DeclaredFacts, RefusedRegister};
use crate::registers::BadRegister;
use crate::registers::cid::Cid;
use crate::registers::csd::{Csd, CsdFamily};
use crate::registers::ext_csd::{ExtCsd, PreEol, life_text};
use crate::registers::sd_status::SdStatus;
use crate::system::SystemRoots;
use crate::units::{Bytes, SECTOR_BYTES};

const PREFERRED: &str = "preferred_erase_size";

/// The names of registers as people look for them.
const SSR: &str = "SD status register";
const CSD: &str = "CSD";
const CID: &str = "CID";
const EXT_CSD: &str = "EXT_CSD";

/// What an SD card declares.
pub(super) fn sd(system: &SystemRoots, disk: &str) -> DeclaredFacts {
    let mut declared = DeclaredFacts::default();
    let source = Source { system, disk };
    let read = source.attribute("ssr").map(|text| SdStatus::parse(&text));
    let status = read.and_then(|read| declared.believe(SSR, read));
    let au = status.as_ref().and_then(|status| status.au);
    if let Some(status) = &status {
        let units = [
            (status.au, "SD status register, AU_SIZE"),
            (status.uhs_au, "SD status register, UHS_AU_SIZE"),
            (status.video_au, "SD status register, VSC_AU_SIZE"),
        ];
        for (unit, place) in units {
            declared.erase_unit.extend(unit.map(|unit| DeclaredBytes::stated(unit, place)));
        }
        declared.of_status(status);
    }
    if let Some(preferred) = source.number(PREFERRED) {
        declared.erase_unit.push(if au == Some(preferred) {
            DeclaredBytes::stated(preferred, "preferred_erase_size, from the SD status register")
        } else {
            let what = "preferred_erase_size, the kernel's guess from the capacity";
            DeclaredBytes::guess(preferred, what)
        });
    }
    declared.of_csd(&source, CsdFamily::Sd);
    declared.of_cid(&source, CsdFamily::Sd, None);
    declared
}

/// What an eMMC chip declares.
pub(super) fn emmc(system: &SystemRoots, disk: &str) -> DeclaredFacts {
    let mut declared = DeclaredFacts::default();
    let source = Source { system, disk };
    let register =
        source.ext_csd().and_then(|text| declared.believe(EXT_CSD, ExtCsd::parse(&text)));
    if let Some(register) = &register {
        let group = register.erase_group.map(|group| {
            let in_use = register.erase_group_in_use;
            let how = if in_use { "HC_ERASE_GRP_SIZE" } else { "HC_ERASE_GRP_SIZE, not in use" };
            DeclaredBytes { is_guess: !in_use, ..DeclaredBytes::stated(group, &in_ext_csd(how)) }
        });
        declared.erase_unit.extend(group);
        let write = register.optimal_write;
        let place = in_ext_csd("OPTIMAL_WRITE_SIZE");
        declared.write_unit.extend(write.map(|size| DeclaredBytes::stated(size, &place)));
        let place = in_ext_csd("CACHE_SIZE");
        declared.cache.extend(register.cache.map(|size| DeclaredBytes::stated(size, &place)));
        let place = in_ext_csd("SEC_COUNT");
        declared.capacity.extend(register.capacity.map(|size| DeclaredBytes::stated(size, &place)));
        declared.of_ext_csd(register);
    } else {
        declared.of_life(&source);
    }
    if let Some(preferred) = source.number(PREFERRED) {
        let group = register.as_ref().and_then(|register| register.erase_group);
        let erase_size = source.number("erase_size");
        declared.erase_unit.push(if group == Some(preferred) {
            DeclaredBytes::stated(preferred, "preferred_erase_size, from EXT_CSD")
        } else if group.is_none() && is_of_the_chip(preferred, erase_size, source.capacity()) {
            DeclaredBytes::stated(preferred, "preferred_erase_size, the erase group")
        } else {
            let what = "preferred_erase_size, the erase group or the kernel's guess from the \
                        capacity";
            DeclaredBytes::guess(preferred, what)
        });
    }
    declared.of_csd(&source, CsdFamily::Mmc);
    declared.of_cid(&source, CsdFamily::Mmc, register.map(|register| register.revision));
    declared
}

fn in_ext_csd(field: &str) -> String {
    format!("{EXT_CSD}, {field}")
}

/// Whether `preferred_erase_size` can only be the erase group, and no guess of the kernel's.
fn is_of_the_chip(preferred: Bytes, erase_size: Option<Bytes>, capacity: Bytes) -> bool {
    erase_size == Some(preferred) || preferred != guess(capacity, erase_size)
}

/// What the kernel takes for the erase block where nothing declares one: by the capacity, in whole
/// erase groups.
fn guess(capacity: Bytes, erase_size: Option<Bytes>) -> Bytes {
    let by_capacity = match capacity.0 >> 20 {
        0..128 => Bytes::kib(512),
        128..512 => Bytes::mib(1),
        512..1024 => Bytes::mib(2),
        _ => Bytes::mib(4),
    };
    let group = erase_size.map_or(1, |size| size.0.max(1));
    Bytes(by_capacity.0.next_multiple_of(group))
}

/// Where a card's attributes are.
struct Source<'a> {
    system: &'a SystemRoots,
    disk: &'a str,
}

impl Source<'_> {
    fn attribute(&self, name: &str) -> Option<String> {
        self.system.attribute(&self.system.block(self.disk).join("device").join(name))
    }

    fn number(&self, name: &str) -> Option<Bytes> {
        self.attribute(name)?.parse().ok().filter(|bytes| *bytes > 0).map(Bytes)
    }

    fn capacity(&self) -> Bytes {
        let sectors = self.system.number(&self.system.block(self.disk).join("size"));
        Bytes(sectors.unwrap_or(0) * SECTOR_BYTES)
    }

    /// debugfs has a card under its host: `mmc0/mmc0:0001/ext_csd`.
    fn ext_csd(&self) -> Option<String> {
        let device = self.system.block(self.disk).join("device").canonicalize().ok()?;
        let card = device.file_name()?.to_str()?.to_owned();
        let host = card.split(':').next()?.to_owned();
        let folder = self.system.sys.join("kernel/debug").join(host);
        self.system.attribute(&folder.join(card).join("ext_csd"))
    }
}

impl DeclaredFacts {
    /// The register, or a note of why it is not believed.
    fn believe<T>(&mut self, register: &str, read: Result<T, BadRegister>) -> Option<T> {
        read.map_err(|bad| {
            let (register, reason) = (register.to_owned(), bad.to_string());
            self.refused.push(RefusedRegister { register, reason });
        })
        .ok()
    }

    fn of_status(&mut self, status: &SdStatus) {
        if let Some(classes) = status.classes() {
            self.fact("speed classes", classes, SSR);
        }
        if let Some(units) = status.erase_size_aus {
            let text = format!("stated for {units} allocation units at a time");
            self.fact("erase time", text, "SD status register, ERASE_SIZE");
        }
        if let Some(depth) = status.queue_depth {
            let text = format!("{depth} deep");
            self.fact("command queue", text, "SD status register, PERFORMANCE_ENHANCE");
        }
        if status.discard {
            self.fact("discards", "taken", "SD status register, DISCARD_SUPPORT");
        }
    }

    fn of_ext_csd(&mut self, register: &ExtCsd) {
        if let Some(size) = register.optimal_read {
            self.fact("optimal read", size.to_string(), &in_ext_csd("OPTIMAL_READ_SIZE"));
        }
        if register.cache.is_some() {
            let text = if register.cache_is_on { "on" } else { "off" };
            self.fact("cache", text, &in_ext_csd("CACHE_CTRL"));
        }
        let lives = [
            ("life of the SLC area", register.life_used_a, "DEVICE_LIFE_TIME_EST_TYP_A"),
            ("life of the MLC area", register.life_used_b, "DEVICE_LIFE_TIME_EST_TYP_B"),
        ];
        for (name, tenths, field) in lives {
            if let Some(tenths) = tenths {
                self.fact(name, life_text(tenths), &in_ext_csd(field));
            }
        }
        if let Some(pre_eol) = register.pre_eol {
            let text = match pre_eol {
                PreEol::Normal => "less than 80 % used",
                PreEol::Warning => "80 % used or more",
                PreEol::Urgent => "90 % used or more",
            };
            self.fact("spare units", text, &in_ext_csd("PRE_EOL_INFO"));
        }
    }

    /// Life times as sysfs shows them: `0x01 0x02`.
    fn of_life(&mut self, source: &Source<'_>) {
        let Some(text) = source.attribute("life_time") else { return };
        let names = ["life of the SLC area", "life of the MLC area"];
        for (name, word) in names.into_iter().zip(text.split_whitespace()) {
            let tenths = u8::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or(0);
            if (1..=11).contains(&tenths) {
                self.fact(name, life_text(tenths), "sysfs, life_time");
            }
        }
    }

    fn of_csd(&mut self, source: &Source<'_>, family: CsdFamily) {
        let Some(text) = source.attribute("csd") else { return };
        let Some(csd) = self.believe(CSD, Csd::parse(family, &text)) else { return };
        let place = format!("{CSD}, C_SIZE");
        self.capacity.extend(csd.capacity.map(|size| DeclaredBytes::stated(size, &place)));
        if let Some(sector) = csd.erase_sector {
            self.fact("least erase", sector.to_string(), CSD);
        }
        if csd.permanently_protected || csd.protected {
            let how = if csd.permanently_protected { "for ever" } else { "until taken back" };
            self.fact("write protection", how, CSD);
        }
    }

    fn of_cid(&mut self, source: &Source<'_>, family: CsdFamily, revision: Option<u8>) {
        let Some(text) = source.attribute("cid") else { return };
        if let Some(cid) = self.believe(CID, Cid::parse(family, &text, revision)) {
            self.fact("identification", cid.summary(), CID);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_guess_goes_by_the_capacity_in_whole_erase_groups() {
        assert_eq!(guess(Bytes::mib(64), None), Bytes::kib(512));
        assert_eq!(guess(Bytes::mib(400), None), Bytes::mib(1));
        assert_eq!(guess(Bytes::mib(1000), None), Bytes::mib(2));
        assert_eq!(guess(Bytes::mib(4000), None), Bytes::mib(4));
        assert_eq!(guess(Bytes::mib(4000), Some(Bytes::mib(3))), Bytes::mib(6));
    }
}
