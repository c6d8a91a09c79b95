//! The card as NBD shows it.

use super::wire::transmission as flag;
use crate::live::LiveCard;

/// The longest read or write, as is customary.
pub const MOST_REQUEST_BYTES: u32 = 32 << 20;

/// A card, and what is announced to a client.
#[derive(Debug, Clone)]
pub struct Export {
    card: LiveCard,
    name: String,
    title: String,
    preferred_bytes: u32,
}

impl Export {
    pub fn new(card: &LiveCard) -> Self {
        let timed = card.lock();
        let model = timed.card.model();
        let page = u32::try_from(model.map_unit_bytes()).unwrap_or(u32::MAX);
        Self {
            card: card.clone(),
            name: model.name.clone(),
            title: model.title.clone(),
            // A power of two, as the protocol has it; a page may be none.
            preferred_bytes: (1 << page.ilog2()).clamp(4096, MOST_REQUEST_BYTES),
        }
    }

    pub fn card(&self) -> &LiveCard {
        &self.card
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A line for people.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether a client that asks for `name` means this one.
    pub fn answers_to(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }

    pub fn size_bytes(&self) -> u64 {
        self.card.description().capacity_bytes
    }

    /// What it can. Several connections see one card, whose flush covers them all.
    pub fn flags(&self) -> u16 {
        let discards = self.card.description().discard_granularity_bytes > 0;
        flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::SEND_WRITE_ZEROES
            | flag::CAN_MULTI_CONN
            | if discards { flag::SEND_TRIM } else { 0 }
    }

    /// The least, the preferred and the largest size of a request, in bytes.
    pub fn block_sizes(&self) -> [u32; 3] {
        let least = self.card.description().sector_bytes;
        [least, self.preferred_bytes.max(least), MOST_REQUEST_BYTES]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::live::tests::serving;

    pub(crate) fn small_export(changes: &[(&str, &str)]) -> Export {
        Export::new(&serving(changes))
    }

    #[test]
    fn a_card_without_discard_offers_none() {
        let export = small_export(&[("[discard]\ngranularity = \"4KiB\"", "")]);
        assert_eq!(export.flags() & flag::SEND_TRIM, 0);
        assert_ne!(small_export(&[]).flags() & flag::SEND_TRIM, 0);
    }

    #[test]
    fn sizes_are_powers_of_two() {
        let larger =
            [("page = \"4KiB\"", "page = \"12KiB\""), ("64KiB", "48KiB"), ("1MiB", "768KiB")];
        assert_eq!(small_export(&larger).block_sizes(), [512, 8192, 32 << 20]);
    }
}
