//! States that need not be looked at again: those with the same bytes as one before, and those of
//! which recovery and checking read the same blocks with the same contents.
//!
//! The second kind is found by a tree of the blocks read. A program that has read the same so far
//! reads the same block next, so each node of the tree is one block and its edges are that block's
//! contents. A read in another order is counted, and its observation not reused.
//!
//! Source: the idea is that of pruning in CrashMonkey and Silhouette (FAST 2025). Limit: what
//! depends on the time or on chance outside the device is not seen; some hits are therefore looked
//! at again.

use std::collections::HashMap;
use std::sync::Arc;

use crate::blocks::BlockId;
use crate::device::{DiskContents, ReadBlock};
use crate::observe::CrashObservation;
use crate::state::BuiltState;

/// Observations of one log.
#[derive(Debug, Default)]
pub struct ObservationCache {
    by_bytes: HashMap<u128, Arc<CrashObservation>>,
    nodes: Vec<ReadNode>,
    /// Observations that did not fit into the tree.
    pub reordered: u64,
}

#[derive(Debug)]
enum ReadNode {
    Reads { block: u32, next: HashMap<BlockId, usize> },
    Ends(Arc<CrashObservation>),
}

/// Why a state need not be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Equivalence {
    Bytes,
    Reads,
}

impl ObservationCache {
    pub fn find(&mut self, built: &BuiltState) -> Option<(Equivalence, Arc<CrashObservation>)> {
        if let Some(known) = self.by_bytes.get(&built.fingerprint) {
            return Some((Equivalence::Bytes, Arc::clone(known)));
        }
        let known = self.by_reads(&built.contents)?;
        self.by_bytes.insert(built.fingerprint, Arc::clone(&known));
        Some((Equivalence::Reads, known))
    }

    fn by_reads(&self, contents: &DiskContents) -> Option<Arc<CrashObservation>> {
        let mut node = self.nodes.first()?;
        loop {
            match node {
                ReadNode::Ends(known) => return Some(Arc::clone(known)),
                ReadNode::Reads { block, next } => {
                    node = &self.nodes[*next.get(&contents.block(*block))?];
                }
            }
        }
    }

    /// Adds what was seen of a state, and the blocks that were read for it.
    pub fn add(&mut self, built: &BuiltState, reads: &[ReadBlock], seen: CrashObservation) {
        let seen = Arc::new(seen);
        self.by_bytes.insert(built.fingerprint, Arc::clone(&seen));
        let mut at: Option<usize> = None;
        for (index, (block, id)) in reads.iter().enumerate() {
            let here = match at {
                None if self.nodes.is_empty() => {
                    self.nodes.push(ReadNode::Reads { block: *block, next: HashMap::new() });
                    0
                }
                None => 0,
                Some(here) => here,
            };
            let following = self.nodes.len();
            let ReadNode::Reads { block: expected, next } = &mut self.nodes[here] else {
                self.reordered += 1;
                return;
            };
            if expected != block {
                self.reordered += 1;
                return;
            }
            match next.get(id) {
                Some(known) => at = Some(*known),
                None => {
                    next.insert(*id, following);
                    self.nodes.push(match reads.get(index + 1) {
                        Some((block, _)) => ReadNode::Reads { block: *block, next: HashMap::new() },
                        None => ReadNode::Ends(Arc::clone(&seen)),
                    });
                    at = Some(following);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{CrashObservation, MountedView};

    fn observation(name: &str) -> CrashObservation {
        let recovered =
            MountedView { not_mounted: Some(name.to_owned()), ..MountedView::default() };
        CrashObservation { recovered, damage: None, repaired: None }
    }

    fn state(fingerprint: u128, changed: &[(u32, u32)]) -> BuiltState {
        let contents = DiskContents {
            base: Arc::new((0..8).map(BlockId::unwritten).collect()),
            changed: changed.iter().map(|(b, id)| (*b, BlockId::unwritten(*id))).collect(),
            card: None,
        };
        BuiltState { contents, fingerprint, happened: Vec::new() }
    }

    #[test]
    fn what_was_not_read_makes_no_difference() {
        let mut cache = ObservationCache::default();
        let read = |block, id| (block, BlockId::unwritten(id));
        cache.add(&state(1, &[]), &[read(0, 0), read(3, 3)], observation("a"));
        cache.add(&state(2, &[(3, 70)]), &[read(0, 0), read(3, 70)], observation("b"));
        let mut found = |state: &BuiltState| {
            let (why, seen) = cache.find(state)?;
            Some((why, seen.recovered.not_mounted.clone()?))
        };
        assert_eq!(found(&state(1, &[])), Some((Equivalence::Bytes, "a".to_owned())));
        let other = state(3, &[(5, 50)]);
        assert_eq!(found(&other), Some((Equivalence::Reads, "a".to_owned())));
        assert_eq!(found(&other), Some((Equivalence::Bytes, "a".to_owned())));
        assert_eq!(found(&state(4, &[(3, 70), (6, 1)])).map(|f| f.1).as_deref(), Some("b"));
        assert_eq!(found(&state(5, &[(3, 71)])), None);
    }

    #[test]
    fn another_order_is_counted_and_not_stored() {
        let mut cache = ObservationCache::default();
        let read = |block| (block, BlockId::unwritten(block));
        cache.add(&state(1, &[]), &[read(0), read(1)], observation("a"));
        cache.add(&state(2, &[(7, 1)]), &[read(1), read(0)], observation("b"));
        assert_eq!(cache.reordered, 1);
        assert_eq!(
            cache.find(&state(2, &[])).unwrap().1.recovered.not_mounted.as_deref(),
            Some("b")
        );
    }
}
