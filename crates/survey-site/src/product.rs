//! Products: the cards of one kind, manufacturer, name and capacity, and the name of their page.
//!
//! Names come from devices of strangers, so the name of a page has only a few letters of them, and
//! a hash of all, which keeps pages of similar names apart and their addresses the same in the next
//! edition.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_device::Bytes;
use flashfit_report::text::{plain, shorten_middle};
use flashfit_survey::identity::hexadecimal;
use flashfit_survey::query::ListedCard;
use sha2::{Digest, Sha256};

/// Letters of a product in the name of its page.
const SHOWN_LETTERS: usize = 40;
/// Of a product's name in texts.
const MOST_LETTERS: usize = 48;
/// Follows the names of what others measured.
const BUNDLED_MARK: &str = " +";
/// Of the hash, at first.
const HASH_LETTERS: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteProduct {
    /// Its own, among all products.
    pub index: usize,
    /// Indexes, the individual cards first.
    pub cards: Vec<usize>,
    pub is_simulated: bool,
    /// The name of its page.
    pub file: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ProductKey {
    is_simulated: bool,
    kind: String,
    manufacturer: String,
    oem: String,
    product: String,
    capacity: Option<u64>,
}

impl ProductKey {
    fn of(listed: &ListedCard) -> Self {
        let card = &listed.card;
        Self {
            is_simulated: card.is_simulated,
            kind: card.kind.clone(),
            manufacturer: card.manufacturer.clone(),
            oem: card.oem.clone(),
            product: card.product.clone(),
            capacity: card.capacity_bytes,
        }
    }

    fn hash(&self) -> String {
        let mut hash = Sha256::new();
        let capacity = self.capacity.map_or_else(String::new, |bytes| bytes.to_string());
        let simulated = if self.is_simulated { "simulated" } else { "" };
        let texts = [&self.kind, &self.manufacturer, &self.oem, &self.product, &capacity];
        for text in texts.into_iter().map(String::as_str).chain([simulated]) {
            hash.update(text.as_bytes());
            hash.update([0x1f]);
        }
        hexadecimal(&hash.finalize())
    }
}

/// The products of these cards, real ones first.
pub fn products(cards: &[ListedCard]) -> Vec<SiteProduct> {
    let mut members: BTreeMap<ProductKey, Vec<usize>> = BTreeMap::new();
    for (index, card) in cards.iter().enumerate() {
        members.entry(ProductKey::of(card)).or_default().push(index);
    }
    let mut taken = BTreeSet::new();
    let members = members.into_iter().enumerate();
    members
        .map(|(index, (key, mut indexes))| {
            indexes.sort_by_key(|index| !cards[*index].card.is_individual);
            let file = file_name(&key, &mut taken);
            SiteProduct { index, cards: indexes, is_simulated: key.is_simulated, file }
        })
        .collect()
}

fn file_name(key: &ProductKey, taken: &mut BTreeSet<String>) -> String {
    let mut name = String::new();
    for letter in key.product.chars().take(SHOWN_LETTERS) {
        if letter.is_ascii_alphanumeric() {
            name.push(letter.to_ascii_lowercase());
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    let name = Some(name.trim_matches('-')).filter(|name| !name.is_empty()).unwrap_or("unnamed");
    let hash = key.hash();
    let names = (HASH_LETTERS..=hash.len())
        .map(|letters| format!("product-{name}-{}.html", &hash[..letters]));
    let mut free = names.filter(|name| !taken.contains(name));
    let file = free.next().expect("two products have two hashes");
    taken.insert(file.clone());
    file
}

impl SiteProduct {
    /// A card of it, which says what it is.
    pub fn example<'a>(&self, cards: &'a [ListedCard]) -> &'a ListedCard {
        &cards[self.cards[0]]
    }

    /// `SL32G`, of at most [`MOST_LETTERS`], with `+` if others measured some of its cards.
    pub fn name(&self, cards: &[ListedCard]) -> String {
        self.plain_name(cards) + self.mark(cards)
    }

    fn plain_name(&self, cards: &[ListedCard]) -> String {
        // Without what is invisible, which would be a name without letters.
        let name = plain(&self.example(cards).card.product);
        match name.trim() {
            "" => "unnamed product".to_owned(),
            name => shorten_middle(name, MOST_LETTERS),
        }
    }

    /// `SL32G, 32 GB`, with `+` if others measured some of its cards.
    pub fn title(&self, cards: &[ListedCard]) -> String {
        let name = self.plain_name(cards);
        let name = match self.example(cards).card.capacity_bytes {
            Some(bytes) => format!("{name}, {}", Bytes(bytes).si()),
            None => name,
        };
        name + self.mark(cards)
    }

    fn mark(&self, cards: &[ListedCard]) -> &'static str {
        if self.bundled(cards) > 0 { BUNDLED_MARK } else { "" }
    }

    /// How many of its cards others measured.
    pub fn bundled(&self, cards: &[ListedCard]) -> usize {
        self.cards.iter().filter(|index| cards[**index].is_bundled()).count()
    }

    pub fn individuals<'a>(&'a self, cards: &'a [ListedCard]) -> impl Iterator<Item = usize> + 'a {
        self.cards.iter().copied().filter(|index| cards[*index].card.is_individual)
    }

    pub fn marked(&self, cards: &[ListedCard]) -> usize {
        self.cards.iter().filter(|index| !cards[**index].doubts().is_empty()).count()
    }
}

/// The beginning of a card's key, with `+` if others measured it.
pub fn card_name(card: &ListedCard) -> String {
    let mark = if card.is_bundled() { BUNDLED_MARK } else { "" };
    format!("{}{mark}", card.short_key())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(product: &str, taken: &mut BTreeSet<String>) -> String {
        let key = ProductKey {
            is_simulated: false,
            kind: "sd-card".into(),
            manufacturer: String::new(),
            oem: String::new(),
            product: product.into(),
            capacity: None,
        };
        file_name(&key, taken)
    }

    #[test]
    fn names_of_pages_are_safe_and_unique() {
        let mut taken = BTreeSet::new();
        let long = "x".repeat(5000);
        let products = [
            "SL32G",
            "sl32g",
            "../../etc/passwd",
            "<script>alert(1)</script>",
            "",
            "-",
            ".",
            "..",
            "a/b",
            "a\0b",
            "größe",
            &long,
            "index",
            "con",
            "a b",
            "a  b",
        ];
        for product in products {
            let name = file(product, &mut taken);
            let stem = name.strip_suffix(".html").unwrap();
            let is_plain = |letter: char| {
                letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
            };
            assert!(stem.chars().all(is_plain) && name.len() < 80, "{name}");
            assert!(name.starts_with("product-"), "{name}");
        }
        assert_eq!(taken.len(), products.len());
        // The same in the next edition.
        assert_eq!(file("SL32G", &mut BTreeSet::new()), file("SL32G", &mut BTreeSet::new()));
        // Even where hashes begin alike.
        let again = file("SL32G", &mut taken);
        assert_eq!(taken.len(), products.len() + 1, "{again}");
    }
}
