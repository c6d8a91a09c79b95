//! Replays recorded traces for years.
//!
//! The space of a card is divided into tiles as large as the card that the traces were recorded on.
//! Each workload has one or more tiles; the other tiles contain data that never
//! changes. Plain repetition of a trace hardly ages a card, because the same places are written in
//! the same order and become invalid together. So:
//!
//! - the state before the workload is written in pieces of all tiles in random order, so that erase
//!   blocks contain data of different age, on cards that map pages;
//! - each pass of a trace works in another tile, if its workload has several;
//! - a small write that does not continue another, to a place that the trace wrote only once and
//!   that had data before, is replaced by its neighborhood: each time, another block within 1 MiB
//!   of the same extent is written instead. So all pages of a database change in time, not only
//!   those that changed while it was recorded.
//!
//! Requests stay in their order, because file systems that write sequentially make whole erase
//! blocks invalid that way.
//!
//! Limits: places that a file system would use only after years are those of the recording; times
//! between requests are not replayed; workloads do not share a journal.

use flashfit_card::trace::TracedRequest;
use flashfit_device::random::Random;

use crate::trace_file::{BLOCK_BYTES, RecordedTrace};

/// A trace is replayed in so many parts, between which workloads alternate.
const WINDOWS: u64 = 16;
/// Larger writes are to new files rather than to records in old ones.
const SMALL_BYTES: u64 = 16 << 10;
/// How far a place is moved: 1 MiB.
const NEIGHBOR_BLOCKS: u64 = 256;
/// The largest piece in which data is written before the workload.
const PIECE_BYTES: u64 = 64 << 10;

/// Where and how a trace is replayed.
#[derive(Debug, Clone, Copy)]
pub struct Share<'a> {
    pub trace: &'a RecordedTrace,
    /// Bytes to write to the card per byte written by all workloads; only the ratios count.
    pub weight: u64,
    /// Tiles that the workload uses in turn.
    pub tiles: u32,
}

/// An endless sequence of requests.
#[derive(Debug)]
pub struct Replay<'a> {
    parts: Vec<Part<'a>>,
    random: Random,
    tile_bytes: u64,
    tiles: u32,
    fill_percent: u32,
    trim: bool,
}

#[derive(Debug)]
struct Part<'a> {
    share: Share<'a>,
    first_tile: u32,
    profile: Profile,
    written_bytes: u64,
    next: u64,
    /// Where this pass of the trace is replayed.
    tile: u32,
}

/// How a trace used its space, by block.
#[derive(Debug)]
struct Profile {
    /// Number of writes, at most 3.
    writes: Vec<u8>,
    /// The initial extent of each block, if it is in one: start and end block.
    extents: Vec<(u32, u32)>,
}

/// How a replay fills its card.
#[derive(Debug, Clone, Copy)]
pub struct ReplayOptions {
    /// Tiles of the card.
    pub tiles: u32,
    /// Share of the card that contains data.
    pub fill_percent: u32,
    /// Whether the card knows which space is free.
    pub trim: bool,
    pub seed: u64,
}

/// The order in which the state before the workload is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillOrder {
    /// So that erase blocks contain data of different age.
    Random,
    /// For cards that map whole erase blocks or chunks: they keep data in the same places
    /// whichever order it came in, and a random one would wear them out.
    Ascending,
}

impl<'a> Replay<'a> {
    /// # Panics
    /// Without a share, with more tiles in use than there are, or with traces of different sizes.
    pub fn new(shares: &[Share<'a>], options: ReplayOptions) -> Self {
        let tile_bytes = shares[0].trace.header.capacity.0;
        let mut first_tile = 0;
        let mut parts = Vec::new();
        for &share in shares {
            assert_eq!(share.trace.header.capacity.0, tile_bytes, "tiles are equal");
            assert!(share.weight > 0 && share.tiles > 0, "a workload without writes");
            let profile = Profile::new(share.trace);
            parts.push(Part {
                share,
                first_tile,
                profile,
                written_bytes: 0,
                next: 0,
                tile: first_tile,
            });
            first_tile += share.tiles;
        }
        assert!(first_tile <= options.tiles, "more tiles in use than there are");
        Self {
            parts,
            random: Random::new(options.seed),
            tile_bytes,
            tiles: options.tiles,
            fill_percent: options.fill_percent,
            trim: options.trim,
        }
    }

    /// The share of the card that contains data before the workload.
    pub fn filled_percent(&self) -> f64 {
        let of_tile = |tile| self.initial(tile).iter().map(|(_, length)| length).sum::<u64>();
        let filled: u64 = (0..self.tiles).map(of_tile).sum();
        filled as f64 * 100.0 / (self.tile_bytes as f64 * f64::from(self.tiles))
    }

    /// Calls `serve` with the writes that create the state before the workload.
    pub fn fill<E>(
        &mut self,
        order: FillOrder,
        mut serve: impl FnMut(TracedRequest) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for tile in 0..self.tiles {
            let start = u64::from(tile) * self.tile_bytes;
            for (offset, length) in self.initial(tile) {
                let mut done = 0;
                while done < length {
                    // Pieces end at multiples of their size, so that no page is written twice.
                    let to_end = PIECE_BYTES - (offset + done) % PIECE_BYTES;
                    let part = to_end.min(length - done);
                    pieces.push((start + offset + done, part));
                    done += part;
                }
            }
        }
        match order {
            FillOrder::Ascending => pieces.sort_unstable(),
            FillOrder::Random if self.tiles > 1 => self.random.shuffle(&mut pieces),
            FillOrder::Random => {}
        }
        for (offset, length) in pieces {
            serve(TracedRequest::Write { offset, length })?;
        }
        Ok(())
    }

    /// The extents with data of a tile: those of its trace, and as much of the rest as the fill
    /// needs; without trim everything.
    fn initial(&self, tile: u32) -> Vec<(u64, u64)> {
        let part = self
            .parts
            .iter()
            .find(|part| (part.first_tile..part.first_tile + part.share.tiles).contains(&tile));
        let initial = part.map_or(&[][..], |part| &part.share.trace.initial[..]);
        if !self.trim {
            return vec![(0, self.tile_bytes)];
        }
        let mut used: u64 = initial.iter().map(|(_, length)| length).sum();
        let wanted = self.tile_bytes / 100 * u64::from(self.fill_percent);
        let mut extents = initial.to_vec();
        // Free blocks that the trace never writes take the data that is missing.
        let blocks = self.tile_bytes / BLOCK_BYTES;
        let is_free = |block: u64| part.is_none_or(|part| part.profile.is_untouched(block));
        let mut block = 0;
        while block < blocks && used < wanted {
            if is_free(block) {
                used += BLOCK_BYTES;
                match extents.last_mut() {
                    Some((start, length)) if *start + *length == block * BLOCK_BYTES => {
                        *length += BLOCK_BYTES;
                    }
                    _ => extents.push((block * BLOCK_BYTES, BLOCK_BYTES)),
                }
            }
            block += 1;
        }
        extents
    }

    /// Calls `serve` with the requests of the next window; returns the bytes written to the card
    /// and the index of the share.
    pub fn window<E>(
        &mut self,
        mut serve: impl FnMut(TracedRequest) -> Result<(), E>,
    ) -> Result<(usize, u64), E> {
        // The workload that is furthest behind its share.
        let (index, part) = self
            .parts
            .iter_mut()
            .enumerate()
            .min_by_key(|(_, part)| {
                u128::from(part.written_bytes) * (1 << 32) / u128::from(part.share.weight)
            })
            .expect("there is a share");
        let requests = &part.share.trace.requests;
        let count = requests.len() as u64;
        let window = (count / WINDOWS).max(1);
        if part.next >= count {
            part.next = 0;
            part.tile = part.first_tile + self.random.below(part.share.tiles.into()) as u32;
        }
        let start = part.next;
        part.next = (start + window).min(count);
        let tile = part.tile;
        let tile_start = u64::from(tile) * self.tile_bytes;
        let before = part.written_bytes;
        let mut place = Place::default();
        for request in &requests[start as usize..part.next as usize] {
            let moved = match *request {
                TracedRequest::Write { offset, length } => {
                    part.written_bytes += length;
                    let offset = place.of(&part.profile, offset, length, &mut self.random);
                    TracedRequest::Write { offset: tile_start + offset, length }
                }
                TracedRequest::Discard { offset, length } => {
                    TracedRequest::Discard { offset: tile_start + offset, length }
                }
                other => other,
            };
            serve(moved)?;
        }
        Ok((index, part.written_bytes - before))
    }
}

impl Profile {
    fn new(trace: &RecordedTrace) -> Self {
        let blocks = (trace.header.capacity.0 / BLOCK_BYTES) as usize;
        let mut profile = Self { writes: vec![0; blocks], extents: vec![(0, 0); blocks] };
        let mut ranges: Vec<(usize, usize)> = (trace.initial.iter())
            .map(|&(offset, length)| (offset / BLOCK_BYTES, (offset + length) / BLOCK_BYTES))
            .map(|(start, end)| (start as usize, end as usize))
            .collect();
        ranges.sort_unstable();
        let mut at = 0;
        while let Some(&(start, mut end)) = ranges.get(at) {
            at += 1;
            while let Some(&(_, next_end)) = ranges.get(at).filter(|next| next.0 == end) {
                end = next_end;
                at += 1;
            }
            profile.extents[start..end].fill((start as u32, end as u32));
        }
        for request in &trace.requests {
            if let TracedRequest::Write { offset, length } = *request {
                let end = (offset + length).div_ceil(BLOCK_BYTES);
                for count in &mut profile.writes[(offset / BLOCK_BYTES) as usize..end as usize] {
                    *count = count.saturating_add(1).min(3);
                }
            }
        }
        profile
    }

    fn is_untouched(&self, block: u64) -> bool {
        let block = block as usize;
        self.writes[block] == 0 && self.extents[block] == (0, 0)
    }
}

/// Moves places that were written once.
#[derive(Debug, Default)]
struct Place {
    /// The end of the previous write, as recorded.
    end: u64,
}

impl Place {
    fn of(&mut self, profile: &Profile, offset: u64, length: u64, random: &mut Random) -> u64 {
        let continues = std::mem::replace(&mut self.end, offset + length) == offset;
        let small = offset % BLOCK_BYTES == 0 && length <= SMALL_BYTES;
        let block = offset / BLOCK_BYTES;
        if continues || !small || profile.writes[block as usize] != 1 {
            return offset;
        }
        let (start, end) = profile.extents[block as usize];
        let blocks = length.div_ceil(BLOCK_BYTES);
        let start = u64::from(start).max(block.saturating_sub(NEIGHBOR_BLOCKS));
        let end = u64::from(end).min(block + NEIGHBOR_BLOCKS);
        if end < start + blocks {
            return offset;
        }
        (start + random.below(end - start - blocks + 1)) * BLOCK_BYTES
    }
}

#[cfg(test)]
mod tests;
