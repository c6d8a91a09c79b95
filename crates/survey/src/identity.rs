//! Which card it was: when two measurements are of one card, and two cards of one product.
//!
//! An individual card has a serial number that is plausible, or a name that the user gave. Keys of
//! individual cards are salted hashes. A device without either belongs to the unidentified cards of
//! its product. The capacity is part of the identity, so a fake that copied the serial number of a
//! card of another size is another card. Limits: a USB card reader reports its own serial number; a
//! serial number has few bits, so someone who has the salt can find it by trying all.

use flashfit_device::identity::DeviceIdentity;
use flashfit_device::{DeclaredFacts, DeclaredProduct, DeviceKind};
use sha2::{Digest, Sha256};

use crate::record::stored_text;

/// Length of a salt in bytes.
pub const SALT_BYTES: usize = 32;
/// Separates the fields of a key; [`stored_text`] removes it from all of them.
const SEPARATOR: char = '\u{1f}';
/// A serial number with fewer different characters is a placeholder.
const LEAST_DIFFERENT: usize = 3;

pub type Salt = [u8; SALT_BYTES];

/// A device as it identifies itself. Empty texts are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CardIdentity {
    /// As in other documents: `sd-card`, `emmc`, `usb` and so on.
    pub kind: String,
    pub manufacturer: String,
    pub oem: String,
    pub product: String,
    pub revision: String,
    /// Year and month, such as `2018-11`.
    pub manufactured: String,
    /// Of the whole device; `None` if only a partition was measured and no register has it.
    pub capacity: Option<u64>,
    /// Serial number or CID; empty if there is none that is plausible.
    pub serial: String,
}

impl CardIdentity {
    /// The identity of a real device.
    pub fn of_device(
        kind: DeviceKind,
        identity: &DeviceIdentity,
        declared: &DeclaredFacts,
        capacity: u64,
        is_partition: bool,
    ) -> Self {
        let own = |text: &Option<String>| stored_text(text.as_deref().unwrap_or_default());
        let cid = identity.cid.as_deref().filter(|cid| is_plausible(cid));
        let of_cid = || DeclaredProduct::of_cid(cid?, kind == DeviceKind::Emmc);
        let product = declared.product.clone().or_else(of_cid).unwrap_or_default();
        let or = |first: String, second: String| if first.is_empty() { second } else { first };
        let declared_capacity = declared.capacity.iter().find(|one| !one.is_guess);
        let serial = cid.or(identity.serial.as_deref().filter(|serial| is_plausible(serial)));
        Self {
            kind: kind_name(kind).to_owned(),
            manufacturer: or(own(&product.manufacturer), own(&identity.vendor)),
            oem: own(&product.oem),
            product: or(own(&product.name), own(&identity.model)),
            revision: own(&product.revision),
            manufactured: own(&product.manufactured),
            capacity: match is_partition {
                true => declared_capacity.map(|one| one.bytes.0),
                false => Some(capacity),
            },
            serial: serial.map(stored_text).unwrap_or_default().to_lowercase(),
        }
    }

    /// A model of a simulated card.
    pub fn simulated(name: &str, capacity: Option<u64>) -> Self {
        Self {
            kind: kind_name(DeviceKind::Simulated).to_owned(),
            product: stored_text(name),
            capacity,
            ..Self::default()
        }
    }

    /// Whether the serial number is the card's, not that of a reader that may be in between.
    pub fn has_own_serial(&self) -> bool {
        !self.serial.is_empty() && self.kind != kind_name(DeviceKind::Usb)
    }

    /// Whether measurements of it can be assigned to one card.
    pub fn is_individual(&self, name: &str) -> bool {
        !name.is_empty() || !self.serial.is_empty()
    }

    /// The key of the card with this salt, in hexadecimal. `name` is what the user calls it; it
    /// identifies cards that have no serial number that is surely theirs.
    pub fn key(&self, salt: &Salt, name: &str) -> String {
        let kind = self.kind.as_str();
        let capacity = self.capacity.map_or_else(String::new, |bytes| bytes.to_string());
        let (manufacturer, product) = (self.manufacturer.as_str(), self.product.as_str());
        if !name.is_empty() && !self.has_own_serial() {
            return hash(salt, &["name", kind, manufacturer, product, &capacity, name]);
        }
        if !self.serial.is_empty() {
            let serial = self.serial.as_str();
            return hash(salt, &["serial", kind, manufacturer, product, &capacity, serial]);
        }
        // Nothing secret, and the same in all databases.
        let rest = [self.oem.as_str(), &self.revision, &self.manufactured];
        hash(&[], &[&["pool", kind, manufacturer, product, &capacity][..], &rest].concat())
    }
}

/// A kind for each name.
const KINDS: [DeviceKind; 9] = [
    DeviceKind::SdCard,
    DeviceKind::Emmc,
    DeviceKind::Usb,
    DeviceKind::Nvme,
    DeviceKind::Ssd,
    DeviceKind::Loop,
    DeviceKind::Image,
    DeviceKind::Simulated,
    DeviceKind::Other,
];

/// The name of a kind in documents; rotating and other drives of one bus are one kind.
fn kind_name(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::SdCard => "sd-card",
        DeviceKind::Emmc => "emmc",
        DeviceKind::Usb => "usb",
        DeviceKind::Nvme => "nvme",
        DeviceKind::Ssd | DeviceKind::Disk => "ssd",
        DeviceKind::Loop => "loop",
        DeviceKind::Image => "image",
        DeviceKind::Simulated => "simulated",
        DeviceKind::Other => "other",
    }
}

/// Whether it is the name of a kind.
pub(crate) fn is_kind(name: &str) -> bool {
    KINDS.iter().any(|kind| kind_name(*kind) == name)
}

/// Whether its serial number can be that of a reader.
pub(crate) fn is_reader_kind(name: &str) -> bool {
    name == kind_name(DeviceKind::Usb)
}

pub(crate) fn is_simulated_kind(name: &str) -> bool {
    name == kind_name(DeviceKind::Simulated)
}

/// Whether it looks like a SHA-256 in hexadecimal.
pub(crate) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

pub(crate) fn hash(salt: &[u8], fields: &[&str]) -> String {
    let mut hash = Sha256::new();
    hash.update(salt);
    for field in fields {
        hash.update(field.as_bytes());
        hash.update(SEPARATOR.to_string().as_bytes());
    }
    hexadecimal(&hash.finalize())
}

/// Bytes as text.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a serial number can identify a card: not zeros, spaces, one digit repeated, or a count
/// such as 0123456789.
pub fn is_plausible(serial: &str) -> bool {
    let prefix = serial.trim().trim_start_matches("0x");
    let letters: Vec<char> = prefix.chars().filter(|letter| letter.is_alphanumeric()).collect();
    let mut different = letters.clone();
    different.sort_unstable();
    different.dedup();
    let next = |pair: &[char]| match (pair[0], pair[1]) {
        ('9', '0' | 'A' | 'a') => true,
        (first, second) => u32::from(first) + 1 == u32::from(second),
    };
    let counts = letters.windows(2).all(next);
    different.len() >= LEAST_DIFFERENT && !counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const CID: &str = "035344534c3332478076543210012b00";

    fn card(cid: &str, capacity: u64) -> CardIdentity {
        let identity = DeviceIdentity { cid: Some(cid.to_owned()), ..DeviceIdentity::default() };
        let declared = DeclaredFacts::default();
        CardIdentity::of_device(DeviceKind::SdCard, &identity, &declared, capacity, false)
    }

    #[test]
    fn one_card_has_one_key_and_others_have_others() {
        let salt = [7; SALT_BYTES];
        let key = |card: &CardIdentity| card.key(&salt, "");
        let first = card(CID, 32 << 30);
        assert_eq!(first.product, "SL32G");
        assert_eq!(key(&first), key(&card(CID, 32 << 30)));
        // A sibling with another serial number.
        let sibling = card("035344534c3332478076543211012b00", 32 << 30);
        assert_ne!(key(&first), key(&sibling));
        assert_eq!(first.product, sibling.product);
        // A fake of another size with the same register.
        assert_ne!(key(&first), key(&card(CID, 8 << 30)));
        assert_ne!(key(&first), first.key(&[8; SALT_BYTES], ""), "a salt is used");
        // A card that says who it is needs no name.
        assert_eq!(key(&first), first.key(&salt, "card 1"));
    }

    #[test]
    fn names_distinguish_devices_without_serial_numbers() {
        let salt = [7; SALT_BYTES];
        let identity = DeviceIdentity { model: Some("Flash".into()), ..DeviceIdentity::default() };
        let stick = CardIdentity::of_device(
            DeviceKind::Usb,
            &identity,
            &DeclaredFacts::default(),
            1 << 30,
            false,
        );
        assert!(!stick.is_individual("") && stick.is_individual("red"));
        assert_ne!(stick.key(&salt, "red"), stick.key(&salt, "blue"));
        assert_eq!(stick.key(&salt, ""), stick.key(&[8; SALT_BYTES], ""), "nothing to hide");
        // In a reader, the serial number is that of the reader.
        let read = CardIdentity { serial: "4c530001".into(), ..stick };
        assert_ne!(read.key(&salt, "red"), read.key(&salt, "blue"));
        assert_ne!(read.key(&salt, "red"), read.key(&salt, ""));
    }

    #[test]
    fn placeholders_are_not_serial_numbers() {
        for serial in ["", "0", "0x00000000", "1111111111", "0123456789ABCDEF", "12345678", "-- "] {
            assert!(!is_plausible(serial), "{serial}");
        }
        for serial in ["0x76543210", "4C530001", "S3Z8NB0K", CID] {
            assert!(is_plausible(serial), "{serial}");
        }
    }
}
