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
    /// there and later operations before `begun` may have had an effect.
    pub(super) fn content_fault(
        &self,
        node: u32,
        seen: &ObservedNode,
        sync: Option<usize>,
        begun: usize,
    ) -> Option<ContentFault> {
        let changes = &self.nodes[node as usize].data;
        let is_bound = |at: usize| sync.is_some_and(|sync| at <= sync);
        let mut base = FileState::default();
        for (_, change) in changes.iter().filter(|(at, _)| is_bound(*at)) {
            base.apply(node, *change);
        }
        let later: Vec<DataChange> = changes
            .iter()
            .filter(|(at, _)| !is_bound(*at) && *at < begun)
            .map(|(_, change)| *change)
            .collect();
        let (mut least, mut most) = (base.sectors.len(), base.sectors.len());
        let mut state = base.clone();
        for change in &later {
            state.apply(node, *change);
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
            return Some(ContentFault::Lost(format!("{size} bytes long, not {expected}")));
        }
        seen.content
            .iter()
            .enumerate()
            .find_map(|(sector, content)| sector_fault(node, sector, *content, &base, &later))
    }
}

fn sector_fault(
    node: u32,
    sector: usize,
    content: SectorContent,
    base: &FileState,
    later: &[DataChange],
) -> Option<ContentFault> {
    let bound = base.sectors.get(sector);
    let is_written = |change: &DataChange, wanted: SectorTag| match change {
        DataChange::Write { sector: first, sectors, version } => {
            *version == wanted.version && (*first..first + sectors).contains(&wanted.sector)
        }
        _ => false,
    };
    let is_cut_off =
        || later.iter().any(|c| matches!(c, DataChange::Size(size) if *size as usize <= sector));
    let is_overwritten = || {
        let covers = |change: &DataChange| match change {
            DataChange::Write { sector: first, sectors, .. } => {
                (*first as usize..(first + sectors) as usize).contains(&sector)
            }
            DataChange::Size(size) => *size as usize <= sector,
            DataChange::Extend(_) => false,
        };
        later.iter().any(covers)
    };
    let lost = |what: String| {
        // What was not synced, or was being overwritten, has no bound content to lose.
        match bound {
            Some(Some(_)) if !is_overwritten() => Some(ContentFault::Lost(what)),
            _ => Some(ContentFault::Foreign(what)),
        }
    };
    match content {
        SectorContent::Zero => match bound {
            None | Some(None) => None,
            Some(Some(_)) if is_cut_off() => None,
            Some(Some(_)) => Some(ContentFault::Lost(format!("sector {sector} is zero"))),
        },
        SectorContent::Data(tag) if tag.file == node && tag.sector as usize == sector => {
            let is_bound = bound.is_some_and(|bound| *bound == Some(tag));
            if is_bound || later.iter().any(|change| is_written(change, tag)) {
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
