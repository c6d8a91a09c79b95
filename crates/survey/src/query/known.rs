//! What a survey has of a device that is at hand: the card itself, and others of its product.

use flashfit_device::Bytes;

use super::listed::ListedCard;
use crate::identity::CardIdentity;
use crate::record::SourceKind;

/// A few sentences, empty if there is nothing. `keys` are those of the device under all salts of
/// the survey.
pub fn sentences(identity: &CardIdentity, keys: &[String], cards: &[ListedCard]) -> Vec<String> {
    let is_own = |card: &ListedCard| identity.is_individual("") && card.has_key(keys);
    let mut sentences = Vec::new();
    if let Some(card) = cards.iter().find(|card| is_own(card)) {
        let (runs, probes) = (card.count(SourceKind::Run), card.count(SourceKind::Probe));
        let key = card.short_key();
        sentences.push(format!("this card is {key}, with runs: {runs}, probes: {probes}"));
        sentences.extend(card.doubts());
    }
    let is_sibling = |card: &&ListedCard| card.is_of_product(identity) && !is_own(card);
    let siblings: Vec<&ListedCard> = cards.iter().filter(is_sibling).collect();
    if siblings.is_empty() {
        return sentences;
    }
    let marked = siblings.iter().filter(|card| !card.doubts().is_empty()).count();
    let mut text = format!("other cards of this product: {}", siblings.len());
    if marked > 0 {
        text.push_str(&format!(", of which {marked} marked"));
    }
    let mut blocks: Vec<u64> =
        siblings.iter().flat_map(|card| card.erase_blocks.iter().copied()).collect();
    blocks.sort_unstable();
    blocks.dedup();
    if !blocks.is_empty() {
        let sizes: Vec<String> = blocks.iter().map(|size| Bytes(*size).to_string()).collect();
        text.push_str(&format!("; probes found an erase block of {}", sizes.join(" or ")));
    }
    sentences.push(text);
    sentences
}
