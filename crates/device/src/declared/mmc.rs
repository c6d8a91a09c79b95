//! Collects what SD cards and eMMC chips declare in their registers and in sysfs.
//!
//! The kernel sets `preferred_erase_size` to the allocation unit of the SD status register, to the
//! high-capacity erase group of an eMMC chip, or else to a guess from the capacity
//! (`mmc_init_erase` in `drivers/mmc/core`). Limit: EXT_CSD requires root and a mounted debugfs.
//! Without it, a value that equals the guess is treated as the guess, unless it is also the erase
//! group that the kernel uses.

use super::{DeclaredBytes, DeclaredFacts, DeclaredProduct, RejectedRegister};
use crate::registers::BadRegister;
use crate::registers::cid::Cid;
use crate::registers::csd::{Csd, CsdFamily};
use crate::registers::ext_csd::{ExtCsd, life_text};
use crate::registers::sd_status::SdStatus;
use crate::system::SystemRoots;
use crate::units::{Bytes, SECTOR_BYTES};

const PREFERRED: &str = "preferred_erase_size";

const SSR: &str = "SD status register";
const CSD: &str = "CSD";
const CID: &str = "CID";
const EXT_CSD: &str = "EXT_CSD";

pub(super) fn read_sd(system: &SystemRoots, disk: &str) -> DeclaredFacts {
    let mut declared = DeclaredFacts::default();
    let source = CardAttributes { system, disk };
    let read = source.attribute("ssr").map(|text| SdStatus::parse(&text));
    let status = read.and_then(|read| declared.accept(SSR, read));
    let au = status.as_ref().and_then(|status| status.au);
    if let Some(status) = &status {
        let blocks = [
            (status.au, "SD status register, AU_SIZE"),
            (status.uhs_au, "SD status register, UHS_AU_SIZE"),
            (status.video_au, "SD status register, VSC_AU_SIZE"),
        ];
        for (size, field) in blocks {
            declared.erase_block.extend(size.map(|size| DeclaredBytes::stated(size, field)));
        }
        declared.add_status(status);
    }
    if let Some(preferred) = source.number(PREFERRED) {
        declared.erase_block.push(if au == Some(preferred) {
            DeclaredBytes::stated(preferred, "preferred_erase_size, from the SD status register")
        } else {
            let what = "preferred_erase_size, the kernel's guess from the capacity";
            DeclaredBytes::guess(preferred, what)
        });
    }
    declared.add_csd(&source, CsdFamily::Sd);
    declared.add_cid(&source, CsdFamily::Sd, None);
    declared
}

pub(super) fn read_emmc(system: &SystemRoots, disk: &str) -> DeclaredFacts {
    let mut declared = DeclaredFacts::default();
    let source = CardAttributes { system, disk };
    let register = source.ext_csd().and_then(|text| declared.accept(EXT_CSD, ExtCsd::parse(&text)));
    if let Some(register) = &register {
        let group = register.erase_group.map(|group| {
            let in_use = register.erase_group_in_use;
            let how = if in_use { "HC_ERASE_GRP_SIZE" } else { "HC_ERASE_GRP_SIZE, not in use" };
            DeclaredBytes { is_guess: !in_use, ..DeclaredBytes::stated(group, &in_ext_csd(how)) }
        });
        declared.erase_block.extend(group);
        let write = register.optimal_write;
        let field = in_ext_csd("OPTIMAL_WRITE_SIZE");
        declared.write_unit.extend(write.map(|size| DeclaredBytes::stated(size, &field)));
        let field = in_ext_csd("CACHE_SIZE");
        declared.cache.extend(register.cache.map(|size| DeclaredBytes::stated(size, &field)));
        let field = in_ext_csd("SEC_COUNT");
        declared.capacity.extend(register.capacity.map(|size| DeclaredBytes::stated(size, &field)));
        declared.add_ext_csd(register);
    } else {
        declared.add_life_times(&source);
    }
    if let Some(preferred) = source.number(PREFERRED) {
        let group = register.as_ref().and_then(|register| register.erase_group);
        let erase_size = source.number("erase_size");
        declared.erase_block.push(if group == Some(preferred) {
            DeclaredBytes::stated(preferred, "preferred_erase_size, from EXT_CSD")
        } else if group.is_none() && is_erase_group(preferred, erase_size, source.capacity()) {
            DeclaredBytes::stated(preferred, "preferred_erase_size, the erase group")
        } else {
            let what = "preferred_erase_size, the erase group or the kernel's guess from the \
                        capacity";
            DeclaredBytes::guess(preferred, what)
        });
    }
    declared.add_csd(&source, CsdFamily::Mmc);
    declared.add_cid(&source, CsdFamily::Mmc, register.map(|register| register.revision));
    declared
}

fn in_ext_csd(field: &str) -> String {
    format!("{EXT_CSD}, {field}")
}

/// Whether `preferred_erase_size` can only be the erase group, not the kernel's guess.
fn is_erase_group(preferred: Bytes, erase_size: Option<Bytes>, capacity: Bytes) -> bool {
    erase_size == Some(preferred) || preferred != guess(capacity, erase_size)
}

/// The kernel's guess of the erase block: by capacity, rounded up to whole erase groups.
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

/// The EXT_CSD register of an eMMC as text, if debugfs is mounted and may be read. There the card
/// is below its host: `mmc0/mmc0:0001/ext_csd`.
pub fn ext_csd_text(system: &SystemRoots, disk: &str) -> Option<String> {
    let device = system.block(disk).join("device").canonicalize().ok()?;
    let card = device.file_name()?.to_str()?.to_owned();
    let host = card.split(':').next()?.to_owned();
    let folder = system.sys.join("kernel/debug").join(host);
    system.attribute(&folder.join(card).join("ext_csd"))
}

/// The sysfs attributes of a card.
struct CardAttributes<'a> {
    system: &'a SystemRoots,
    disk: &'a str,
}

impl CardAttributes<'_> {
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

    fn ext_csd(&self) -> Option<String> {
        ext_csd_text(self.system, self.disk)
    }
}

impl DeclaredFacts {
    /// The decoded register; records the reason if decoding failed.
    fn accept<T>(&mut self, register: &str, read: Result<T, BadRegister>) -> Option<T> {
        read.map_err(|error| {
            let (register, reason) = (register.to_owned(), error.to_string());
            self.rejected.push(RejectedRegister { register, reason });
        })
        .ok()
    }

    fn add_status(&mut self, status: &SdStatus) {
        if let Some(classes) = status.classes() {
            self.add_fact("speed classes", classes, SSR);
        }
        if let Some(units) = status.erase_size_aus {
            let text = format!("applies to {units} allocation units at a time");
            self.add_fact("erase time", text, "SD status register, ERASE_SIZE");
        }
        if let Some(depth) = status.queue_depth {
            let text = format!("{depth} deep");
            self.add_fact("command queue", text, "SD status register, PERFORMANCE_ENHANCE");
        }
        if status.discard {
            self.add_fact("discards", "supported", "SD status register, DISCARD_SUPPORT");
        }
    }

    fn add_ext_csd(&mut self, register: &ExtCsd) {
        if let Some(size) = register.optimal_read {
            self.add_fact("optimal read", size.to_string(), &in_ext_csd("OPTIMAL_READ_SIZE"));
        }
        if register.cache.is_some() {
            let text = if register.cache_is_on { "on" } else { "off" };
            self.add_fact("cache", text, &in_ext_csd("CACHE_CTRL"));
        }
        let lives = [
            ("life of the SLC area", register.life_used_a, "DEVICE_LIFE_TIME_EST_TYP_A"),
            ("life of the MLC area", register.life_used_b, "DEVICE_LIFE_TIME_EST_TYP_B"),
        ];
        for (name, tenths, field) in lives {
            if let Some(tenths) = tenths {
                self.add_fact(name, life_text(tenths), &in_ext_csd(field));
            }
        }
        if let Some(pre_eol) = register.pre_eol {
            self.add_fact("spare units", pre_eol.text(), &in_ext_csd("PRE_EOL_INFO"));
        }
    }

    /// Life time estimates of sysfs: `0x01 0x02`.
    fn add_life_times(&mut self, source: &CardAttributes<'_>) {
        let Some(text) = source.attribute("life_time") else { return };
        let names = ["life of the SLC area", "life of the MLC area"];
        for (name, word) in names.into_iter().zip(text.split_whitespace()) {
            let tenths = u8::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or(0);
            if (1..=11).contains(&tenths) {
                self.add_fact(name, life_text(tenths), "sysfs, life_time");
            }
        }
    }

    fn add_csd(&mut self, source: &CardAttributes<'_>, family: CsdFamily) {
        let Some(text) = source.attribute("csd") else { return };
        let Some(csd) = self.accept(CSD, Csd::parse(family, &text)) else { return };
        let field = format!("{CSD}, C_SIZE");
        self.capacity.extend(csd.capacity.map(|size| DeclaredBytes::stated(size, &field)));
        if let Some(sector) = csd.erase_sector {
            self.add_fact("least erase", sector.to_string(), CSD);
        }
        if csd.permanently_protected || csd.protected {
            let how = if csd.permanently_protected { "permanent" } else { "temporary" };
            self.add_fact("write protection", how, CSD);
        }
    }

    fn add_cid(&mut self, source: &CardAttributes<'_>, family: CsdFamily, revision: Option<u8>) {
        let Some(text) = source.attribute("cid") else { return };
        if let Some(cid) = self.accept(CID, Cid::parse(family, &text, revision)) {
            self.add_fact("identification", cid.summary(), CID);
            self.product = Some(DeclaredProduct::from(&cid));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_guess_depends_on_capacity_and_erase_group() {
        assert_eq!(guess(Bytes::mib(64), None), Bytes::kib(512));
        assert_eq!(guess(Bytes::mib(400), None), Bytes::mib(1));
        assert_eq!(guess(Bytes::mib(1000), None), Bytes::mib(2));
        assert_eq!(guess(Bytes::mib(4000), None), Bytes::mib(4));
        assert_eq!(guess(Bytes::mib(4000), Some(Bytes::mib(3))), Bytes::mib(6));
    }
}
