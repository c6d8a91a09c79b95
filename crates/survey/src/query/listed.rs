//! The cards of a survey as they are listed, with what their sources say together.

use flashfit_device::Bytes;

use super::filter::{ColumnValue, RowFilter};
use crate::database::{StoredCard, StoredSource};
use crate::error::SurveyError;
use crate::identity::CardIdentity;
use crate::record::SourceKind;

/// How many letters of a key are shown.
const SHORT_KEY: usize = 10;
/// The fewest that name a card.
const LEAST_KEY: usize = 4;

/// A card with what its sources say together.
#[derive(Debug, Clone)]
pub struct ListedCard {
    pub card: StoredCard,
    /// Probed erase blocks, each once, as far as they differ.
    pub erase_blocks: Vec<u64>,
    pub write_units: Vec<u64>,
    /// The least capacity that a probe found, if one checked it.
    pub real_capacity: Option<u64>,
    /// In percent, according to the device in the latest reading; see [`super::wear`].
    pub life_used: Option<f64>,
    /// In what it differs from its siblings, a sentence each; see [`super::siblings::flag`].
    pub oddities: Vec<String>,
}

impl ListedCard {
    /// The columns by which cards are filtered.
    pub const COLUMNS: [&'static str; 20] = [
        "card",
        "kind",
        "manufacturer",
        "oem",
        "product",
        "revision",
        "manufactured",
        "capacity_bytes",
        "name",
        "individual",
        "simulated",
        "bundled",
        "erase_block_bytes",
        "write_unit_bytes",
        "real_capacity_bytes",
        "runs",
        "probes",
        "wear_readings",
        "power_cut_campaigns",
        "life_used_percent",
    ];

    pub fn new(card: StoredCard) -> Self {
        let each = |of: &dyn Fn(&StoredSource) -> Option<u64>| {
            let mut all: Vec<u64> = card.sources.iter().filter_map(of).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let erase_blocks = each(&|source| source.construction.erase_block);
        let write_units = each(&|source| source.construction.write_unit);
        let real_capacity = each(&|source| source.construction.capacity).first().copied();
        Self {
            card,
            erase_blocks,
            write_units,
            real_capacity,
            life_used: None,
            oddities: Vec::new(),
        }
    }

    /// The beginning of its key, by which users name it.
    pub fn short_key(&self) -> &str {
        let key = self.card.keys.first().map_or("", String::as_str);
        key.get(..SHORT_KEY).unwrap_or(key)
    }

    /// What cards of one product have in common. Groups of cards that cannot be distinguished, and
    /// simulated cards, are apart.
    pub fn product_key(&self) -> Vec<String> {
        let card = &self.card;
        let capacity = card.capacity_bytes.map_or_else(String::new, |bytes| bytes.to_string());
        let texts = [&card.kind, &card.manufacturer, &card.oem, &card.product, &capacity];
        let group = (!card.is_individual).then(|| card.keys.first().cloned()).flatten();
        texts.into_iter().cloned().chain(group).collect()
    }

    /// Whether it has one of these keys.
    pub fn has_key(&self, keys: &[String]) -> bool {
        self.card.keys.iter().any(|key| keys.contains(key))
    }

    /// Whether it is of the product and capacity of a device, whose product is known.
    pub fn is_of_product(&self, device: &CardIdentity) -> bool {
        let card = &self.card;
        !device.product.is_empty()
            && card.kind == device.kind
            && card.manufacturer == device.manufacturer
            && card.product == device.product
            && card.capacity_bytes == device.capacity
    }

    /// Whether others measured it, and a bundle brought it.
    pub fn is_bundled(&self) -> bool {
        self.card.sources.iter().any(|source| !source.bundle.is_empty())
    }

    /// How many sources of a kind it has.
    pub fn count(&self, kind: SourceKind) -> usize {
        self.card.sources.iter().filter(|source| source.kind == kind.name()).count()
    }

    pub(super) fn column(&self, column: &str) -> Option<ColumnValue> {
        let card = &self.card;
        let text = |text: &str| (!text.is_empty()).then(|| ColumnValue::Text(text.to_owned()));
        let number = |number: Option<u64>| number.map(|number| ColumnValue::Number(number as f64));
        let count = |kind| Some(ColumnValue::Number(self.count(kind) as f64));
        match column {
            "card" => text(self.short_key()),
            "kind" => text(&card.kind),
            "manufacturer" => text(&card.manufacturer),
            "oem" => text(&card.oem),
            "product" => text(&card.product),
            "revision" => text(&card.revision),
            "manufactured" => text(&card.manufactured),
            "capacity_bytes" => number(card.capacity_bytes),
            "name" => text(&card.name),
            "individual" => Some(ColumnValue::Is(card.is_individual)),
            "bundled" => Some(ColumnValue::Is(self.is_bundled())),
            "simulated" => Some(ColumnValue::Is(card.is_simulated)),
            "erase_block_bytes" => number(self.erase_blocks.first().copied()),
            "write_unit_bytes" => number(self.write_units.first().copied()),
            "real_capacity_bytes" => number(self.real_capacity),
            "runs" => count(SourceKind::Run),
            "probes" => count(SourceKind::Probe),
            "wear_readings" => count(SourceKind::WearReading),
            "power_cut_campaigns" => count(SourceKind::PowerCuts),
            "life_used_percent" => self.life_used.map(ColumnValue::Number),
            _ => None,
        }
    }

    pub fn matches(&self, filters: &[RowFilter]) -> bool {
        filters.iter().all(|filter| filter.matches(self.column(filter.column()).as_ref()))
    }

    /// What does not fit together in what is known of this card, and in what it differs from its
    /// siblings, a sentence each.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if let (Some(real), Some(stated)) = (self.real_capacity, self.card.capacity_bytes) {
            if real < stated {
                doubts.push(format!(
                    "counterfeit: it keeps {}, and claims {}",
                    Bytes(real),
                    Bytes(stated)
                ));
            }
        }
        for (what, found) in
            [("erase block", &self.erase_blocks), ("write unit", &self.write_units)]
        {
            if found.len() > 1 && self.card.is_individual {
                let sizes: Vec<String> =
                    found.iter().map(|size| Bytes(*size).to_string()).collect();
                doubts.push(format!(
                    "probes found an {what} of {}: several cards with one serial number, or a \
                     probe is wrong",
                    sizes.join(" and ")
                ));
            }
        }
        doubts.extend(self.oddities.iter().cloned());
        doubts
    }
}

/// The card whose key, one of them, begins with this text, or that has this name.
///
/// # Errors
/// If there is none, or several.
pub fn find_card(cards: Vec<ListedCard>, text: &str) -> Result<ListedCard, SurveyError> {
    let wanted = text.to_lowercase();
    let is_it = |listed: &ListedCard| {
        let by_key = wanted.len() >= LEAST_KEY
            && listed.card.keys.iter().any(|key| key.starts_with(&wanted));
        by_key || (!listed.card.name.is_empty() && listed.card.name == text)
    };
    let mut found: Vec<ListedCard> = cards.into_iter().filter(is_it).collect();
    match found.len() {
        0 => Err(SurveyError::UnknownCard { text: text.to_owned() }),
        1 => Ok(found.remove(0)),
        count => Err(SurveyError::AmbiguousCard { text: text.to_owned(), count }),
    }
}
