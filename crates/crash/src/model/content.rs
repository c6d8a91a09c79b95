//! What a file may contain after a power cut.

use super::history::History;
use super::namespace::DataChange;
use crate::blocks::SECTOR_BYTES;
use crate::content::{SectorContent, SectorTag};
use crate::observe::ObservedNode;

/// What is wrong with a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContentFault {
    /// Synced data is missing, or an older version of it is there.
    Lost(String),
    /// The length is none that the file had.
    Length(String),
    /// Data of another file or of the device before, or what nobody wrote.
    Foreign(String),
}

/// A file's content at one moment: what each sector is, `None` for zeros.
#[derive(Debug, Clone, Default)]
struct FileState {
    sectors: Vec<Option<SectorTag>>,
}

impl FileState {
    fn apply(&mut self, node: u32, change: DataChange) {
        match change {
            DataChange::Write { sector, sectors, version } => {
                let end = (sector + sectors) as usize;
                if self.sectors.len() < end {
                    self.sectors.resize(end, None);
                }
                for sector in sector..sector + sectors {
                    self.sectors[sector as usize] = Some(SectorTag { file: node, version, sector });
                }
            }
            DataChange::Size(sectors) => self.sectors.resize(sectors as usize, None),
            DataChange::Extend(sectors) => {
                let sectors = self.sectors.len().max(sectors as usize);
                self.sectors.resize(sectors, None);
            }
        }
    }
}

impl History {
    /// What is wrong with the content of `node`, if all its data up to the operation `sync` must be
    /// there, and what was written with `O_SYNC` by the first `acknowledged` operations; other
    /// operations before `begun` may have had an effect.
    pub(super) fn content_fault(
        &self,
        node: u32,
        seen: &ObservedNode,
        sync: Option<usize>,
        acknowledged: usize,
        begun: usize,
    ) -> Option<ContentFault> {
        let changes = &self.nodes[node as usize].data;
        let synced = self.synced_writes(node, acknowledged);
        let is_bound = |at: usize| sync.is_some_and(|sync| at <= sync) || synced.contains(&at);
        let mut base = FileState::default();
        for (_, change) in changes.iter().filter(|(at, _)| is_bound(*at)) {
            base.apply(node, *change);
        }
        let later: Vec<LaterChange> = changes
            .iter()
            .filter(|(at, _)| !is_bound(*at) && *at < begun)
            .map(|(at, change)| {
                let after = |(other, _): &&(usize, DataChange)| other > at && is_bound(*other);
                let bound_after = changes.iter().filter(after).map(|(_, change)| *change).collect();
                LaterChange { change: *change, bound_after }
            })
            .collect();
        let (mut least, mut most) = (base.sectors.len(), base.sectors.len());
        let mut state = base.clone();
        for later in &later {
            state.apply(node, later.change);
            least = least.min(state.sectors.len());
            most = most.max(state.sectors.len());
        }
        let bytes = |sectors: usize| (sectors * SECTOR_BYTES) as u64;
        let size = seen.size_bytes;
        if size % SECTOR_BYTES as u64 != 0 || size < bytes(least) || size > bytes(most) {
            let (least, most) = (bytes(least), bytes(most));
            let expected = if least == most {
                format!("{least} bytes")
            } else {
                format!("{least} to {most} bytes")
            };
            return Some(ContentFault::Length(format!("{size} bytes long, not {expected}")));
        }
        seen.content
            .iter()
            .enumerate()
            .find_map(|(sector, content)| sector_fault(node, sector, *content, &base, &later))
    }
}

/// A change that need not be there.
struct LaterChange {
    change: DataChange,
    /// Later writes that must be there, so that this one cannot be seen below them.
    bound_after: Vec<DataChange>,
}

impl LaterChange {
    /// Whether it may decide what this sector is.
    fn reaches(&self, sector: u32) -> bool {
        !self.bound_after.iter().any(|change| writes(change, sector))
    }

    fn may_write(&self, tag: SectorTag) -> bool {
        let DataChange::Write { version, .. } = self.change else { return false };
        version == tag.version && writes(&self.change, tag.sector) && self.reaches(tag.sector)
    }

    fn may_cut_off(&self, sector: u32) -> bool {
        matches!(self.change, DataChange::Size(size) if size <= sector) && self.reaches(sector)
    }
}

fn writes(change: &DataChange, sector: u32) -> bool {
    match change {
        DataChange::Write { sector: first, sectors, .. } => {
            (*first..first + sectors).contains(&sector)
        }
        DataChange::Size(_) | DataChange::Extend(_) => false,
    }
}

fn sector_fault(
    node: u32,
    sector: usize,
    content: SectorContent,
    base: &FileState,
    later: &[LaterChange],
) -> Option<ContentFault> {
    let bound = base.sectors.get(sector);
    let place = u32::try_from(sector).expect("files of a workload are small");
    let is_cut_off = || later.iter().any(|later| later.may_cut_off(place));
    let is_overwritten = || later.iter().any(|later| writes(&later.change, place));
    let lost = |what: String| {
        // What was not synced, or was being overwritten, has no bound content to lose.
        match bound {
            Some(Some(_)) if !is_overwritten() && !is_cut_off() => Some(ContentFault::Lost(what)),
            _ => Some(ContentFault::Foreign(what)),
        }
    };
    match content {
        SectorContent::Zero => match bound {
            None | Some(None) => None,
            Some(Some(_)) if is_cut_off() => None,
            Some(Some(_)) => Some(ContentFault::Lost(format!("sector {sector} is zero"))),
        },
        SectorContent::Data(tag) if tag.file == node && tag.sector == place => {
            let is_bound = bound.is_some_and(|bound| *bound == Some(tag));
            if is_bound || later.iter().any(|later| later.may_write(tag)) {
                return None;
            }
            let version = tag.version;
            Some(ContentFault::Lost(format!("sector {sector} is of an older write, {version}")))
        }
        SectorContent::Data(tag) => {
            lost(format!("sector {sector} is sector {} of file {}", tag.sector, tag.file))
        }
        SectorContent::Unwritten => {
            lost(format!("sector {sector} has what the device contained before"))
        }
        SectorContent::Unknown => lost(format!("sector {sector} has what nobody wrote")),
    }
}
