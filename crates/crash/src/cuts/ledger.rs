//! The ledger: what the guest has acknowledged, kept outside of it.
//!
//! A power cut has no position in a log of requests, so positions are counted in operations: the
//! operation `n` begins at `3 n` and ends at `3 n + 2`. A power cut after `n` acknowledged
//! operations is at `3 n + 1`: the next one may have had an effect.

use super::wire::GuestReply;
use crate::CrashError;
use crate::model::NodeKind;
use crate::observe::ObservedTree;
use crate::workload::{CrashWorkload, LoggedOperation, Operation};

const STEP: u32 = 3;

/// Operations of one round of work.
#[derive(Debug, Clone)]
pub struct CutLedger {
    /// What is to be done, in order; empty for a program, whose lines are not known before.
    planned: Vec<(u32, Operation)>,
    done: Vec<LoggedOperation>,
}

impl CrashWorkload {
    /// An empty ledger for the work of this seed.
    pub(crate) fn ledger(&self, seed: u64) -> CutLedger {
        CutLedger::new(self.operations(seed))
    }
}

/// What a message of the guest means for the work.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// It waits for the word to go on.
    Operation,
    Line,
    /// All work is done.
    Ended,
}

impl CutLedger {
    pub fn new(planned: Vec<(u32, Operation)>) -> Self {
        Self { planned, done: Vec::new() }
    }

    /// An operation returned. One that does not come next is not this guest's.
    pub fn acknowledge(&mut self, number: u32, inode: Option<u64>, error: Option<i32>) -> bool {
        match self.planned.get(self.done.len()) {
            Some((expected, operation)) if *expected == number => {
                let operation = operation.clone();
                self.done.push(self.at(number, operation, inode, error));
                true
            }
            _ => false,
        }
    }

    /// Enters a message of the guest.
    ///
    /// # Errors
    /// When it does not belong here, or the work failed at once.
    pub fn take(&mut self, reply: GuestReply) -> Result<Taken, CrashError> {
        match reply {
            GuestReply::Done { number, inode, error } => {
                if self.acknowledge(number, inode, error) {
                    return Ok(Taken::Operation);
                }
                let reason = format!("operation {number} is not the next one");
                Err(CrashError::Guest { reason })
            }
            GuestReply::Line(line) => {
                self.line(line);
                Ok(Taken::Line)
            }
            GuestReply::WorkEnded => Ok(Taken::Ended),
            GuestReply::WorkFailed(reason) => Err(CrashError::WorkloadFailed { reason }),
            GuestReply::Failed(reason) => Err(CrashError::Guest { reason }),
            other => Err(CrashError::Guest { reason: format!("unexpected answer {other:?}") }),
        }
    }

    /// A program printed a line.
    pub fn line(&mut self, line: String) {
        let number = count(self.done.len());
        self.done.push(self.at(number, Operation::Acknowledge { line }, None, None));
    }

    /// Whether the guest must be told to go on after each operation.
    pub fn is_paced(&self) -> bool {
        !self.planned.is_empty()
    }

    /// Whether the guest waits for the word to go on with the next operation.
    pub fn has_next(&self) -> bool {
        self.done.len() < self.planned.len()
    }

    /// What was acknowledged, each with its positions in the log of a device.
    pub fn at_positions(self, positions: &[(u32, u32)]) -> Vec<LoggedOperation> {
        let done = self.done.into_iter().zip(positions);
        done.map(|(done, &(begin, end))| LoggedOperation { begin, end, ..done }).collect()
    }

    /// How many operations or lines were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.done.len()
    }

    /// Whether something was acknowledged that must survive.
    pub fn has_sync(&self) -> bool {
        self.done.iter().any(|done| done.error.is_none() && done.operation.is_sync())
    }

    /// The position of a power cut now.
    pub fn position(&self) -> u32 {
        count(self.done.len()) * STEP + 1
    }

    /// All operations that may have had an effect. Which inode number the last one would have
    /// reported is taken from what was found, as nobody else can have created it.
    pub fn operations(&self, found: Option<&ObservedTree>) -> Vec<LoggedOperation> {
        let mut operations = self.done.clone();
        let Some((number, operation)) = self.planned.get(self.done.len()) else {
            return operations;
        };
        let created = match operation {
            Operation::Create { path } => Some((path, NodeKind::File)),
            Operation::MakeDir { path } => Some((path, NodeKind::Dir)),
            _ => None,
        };
        let mut inode = None;
        if let Some((path, kind)) = created {
            let node = found.and_then(|tree| tree.nodes.get(path));
            match node.filter(|node| node.kind == kind) {
                Some(node) => inode = Some(node.inode),
                // It had no effect.
                None => return operations,
            }
        }
        operations.push(self.at(*number, operation.clone(), inode, None));
        operations
    }

    fn at(
        &self,
        number: u32,
        operation: Operation,
        inode: Option<u64>,
        error: Option<i32>,
    ) -> LoggedOperation {
        let begin = count(self.done.len()) * STEP;
        LoggedOperation { operation, number, begin, end: begin + STEP - 1, inode, error }
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a round of work is short")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::content::{SectorContent, SectorTag};
    use crate::model::{History, Oracle};
    use crate::observe::ObservedNode;

    fn planned() -> Vec<(u32, Operation)> {
        let f = || "f".to_owned();
        let write = Operation::Write { path: f(), sector: 0, sectors: 1, synchronous: false };
        let all = [
            Operation::Create { path: f() },
            write,
            Operation::Fsync { path: f() },
            Operation::Create { path: "g".to_owned() },
        ];
        (0..).zip(all).collect()
    }

    fn tree(names: &[(&str, u64)]) -> ObservedTree {
        let tag = SectorTag { file: 1, version: 1, sector: 0 };
        let node = |inode: u64| ObservedNode {
            kind: NodeKind::File,
            inode,
            size_bytes: if inode == 13 { 512 } else { 0 },
            content: vec![SectorContent::Data(tag); usize::from(inode == 13)],
            error: None,
        };
        let nodes = names.iter().map(|(name, inode)| ((*name).to_owned(), node(*inode)));
        ObservedTree { nodes: nodes.collect::<BTreeMap<_, _>>() }
    }

    fn judged(ledger: &CutLedger, found: &ObservedTree) -> Vec<Oracle> {
        let history = History::new(&ledger.operations(Some(found)));
        let violations = history.judge(ledger.position(), found);
        violations.into_iter().map(|violation| violation.oracle).collect()
    }

    #[test]
    fn what_was_acknowledged_is_bound_and_what_may_have_begun_is_free() {
        let mut ledger = CutLedger::new(planned());
        assert!(judged(&ledger, &tree(&[])).is_empty());
        assert!(ledger.acknowledge(0, Some(13), None));
        assert!(!ledger.acknowledge(3, None, None), "the next one is 1");
        assert!(ledger.acknowledge(1, None, None));
        // The fsync may have been under way.
        assert!(judged(&ledger, &tree(&[])).is_empty());
        assert!(judged(&ledger, &tree(&[("f", 13)])).is_empty());
        assert!(ledger.acknowledge(2, None, None));
        assert!(judged(&ledger, &tree(&[("f", 13)])).is_empty());
        assert!(judged(&ledger, &tree(&[])).contains(&Oracle::SyncedName));
        // The creation of g may have been under way, whatever its inode number.
        assert!(judged(&ledger, &tree(&[("f", 13), ("g", 77)])).is_empty());
        assert_eq!(judged(&ledger, &tree(&[("f", 13), ("h", 77)])), [Oracle::SyncedName]);
        assert!(ledger.has_sync());
    }

    #[test]
    fn lines_of_a_program_are_acknowledged_one_by_one() {
        let mut ledger = CutLedger::new(Vec::new());
        assert_eq!((ledger.position(), ledger.has_sync()), (1, false));
        ledger.line("created".to_owned());
        ledger.line("1".to_owned());
        assert_eq!((ledger.position(), ledger.acknowledged()), (7, 2));
        let ends: Vec<u32> = ledger.operations(None).iter().map(|done| done.end).collect();
        assert_eq!(ends, [2, 5]);
        let placed = ledger.at_positions(&[(0, 7), (7, 9)]);
        assert_eq!((placed[1].begin, placed[1].end), (7, 9));
    }
}
