//! The reference model: what a card may contain, derived only from the history.
//!
//! A sector's value is the number of the write that wrote it; 0 is a sector of zeros. The *base* is
//! what a power cut must not lose; later writes follow as pieces in order of arrival.

use crate::kinds::{Cache, SECTORS};

/// The part of a write within one mapped unit.
#[derive(Debug)]
struct Piece {
    sectors: Vec<usize>,
    value: u64,
    done_ns: u64,
    /// Number of flushes before it.
    epoch: usize,
}

#[derive(Debug)]
pub struct Plain {
    cache: Cache,
    sectors_per_page: usize,
    base: Vec<u64>,
    pieces: Vec<Piece>,
    /// Completion time of each flush, and the number of pieces before it.
    flushes: Vec<(u64, usize)>,
    epoch: usize,
}

impl Plain {
    pub fn new(cache: Cache, sectors_per_page: usize) -> Self {
        let (base, pieces, flushes) = (vec![0; SECTORS], Vec::new(), Vec::new());
        Self { cache, sectors_per_page, base, pieces, flushes, epoch: 0 }
    }

    pub fn write(&mut self, first: usize, count: usize, value: u64, done_ns: u64) {
        let mut from = first;
        while from < first + count {
            let next = (from / self.sectors_per_page + 1) * self.sectors_per_page;
            let sectors = (from..next.min(first + count)).collect();
            self.pieces.push(Piece { sectors, value, done_ns, epoch: self.epoch });
            from = next;
        }
    }

    /// A discard is complete on arrival, and reads as zeros.
    pub fn discard(&mut self, first: usize, count: usize) {
        let range = first..first + count;
        self.base[range.clone()].fill(0);
        for piece in &mut self.pieces {
            piece.sectors.retain(|sector| !range.contains(sector));
        }
    }

    pub fn flush(&mut self, done_ns: u64) {
        self.flushes.push((done_ns, self.pieces.len()));
        self.epoch += 1;
    }

    pub fn now(&self) -> Vec<u64> {
        self.after(self.pieces.len())
    }

    fn after(&self, pieces: usize) -> Vec<u64> {
        let mut state = self.base.clone();
        for piece in &self.pieces[..pieces] {
            piece.sectors.iter().for_each(|&sector| state[sector] = piece.value);
        }
        state
    }

    /// How many of the first pieces survive any power cut at `at_ns` or later.
    fn safe(&self, at_ns: u64) -> usize {
        let flushed = self.flushes.iter().filter(|(done_ns, _)| *done_ns <= at_ns);
        match self.cache {
            Cache::None => self.pieces.iter().take_while(|piece| piece.done_ns <= at_ns).count(),
            Cache::Barrier => 0,
            Cache::Unordered | Cache::Ordered => {
                flushed.map(|&(_, pieces)| pieces).max().unwrap_or(0)
            }
        }
    }

    /// Rules out a power cut before `now_ns`.
    pub fn pass_to(&mut self, now_ns: u64) {
        let safe = self.safe(now_ns);
        self.base = self.after(safe);
        self.pieces.drain(..safe);
        self.flushes.retain(|&(_, pieces)| pieces > safe);
        self.flushes.iter_mut().for_each(|(_, pieces)| *pieces -= safe);
    }

    /// Checks what a power cut at `at_ns` has left, and continues with it.
    pub fn cut(&mut self, at_ns: u64, left: Vec<u64>) {
        let safe = self.safe(at_ns);
        self.base = self.after(safe);
        self.pieces.drain(..safe);
        match self.cache {
            Cache::None | Cache::Unordered => self.check_any(&left, at_ns),
            Cache::Ordered => {
                assert!(
                    self.has_prefix(&left),
                    "no prefix of the writes leaves {left:?}: {self:?}"
                );
            }
            Cache::Barrier => self.check_barriers(&left),
        }
        *self = Self { base: left, ..Self::new(self.cache, self.sectors_per_page) };
    }

    /// Whether a prefix of the pieces, possibly with its last pieces in part, leaves this state.
    fn has_prefix(&self, left: &[u64]) -> bool {
        let mut state = self.base.clone();
        let mut others = state.iter().zip(left).filter(|(now, left)| now != left).count();
        for piece in &self.pieces {
            if others == 0 {
                return true;
            }
            for &sector in &piece.sectors {
                others -= usize::from(state[sector] != left[sector]);
                state[sector] = piece.value;
                others += usize::from(state[sector] != left[sector]);
            }
        }
        others == 0
    }

    /// Checks that each sector has a value it had since it was last safe.
    fn check_any(&self, left: &[u64], at_ns: u64) {
        let mut allowed: Vec<Vec<u64>> = self.base.iter().map(|&value| vec![value]).collect();
        for piece in &self.pieces {
            for &sector in &piece.sectors {
                if self.cache == Cache::None && piece.done_ns <= at_ns {
                    allowed[sector].clear();
                }
                allowed[sector].push(piece.value);
            }
        }
        for (sector, (value, allowed)) in left.iter().zip(&allowed).enumerate() {
            assert!(allowed.contains(value), "sector {sector} is {value}, not of {allowed:?}");
        }
    }

    /// Checks that some flush separates complete pieces from absent ones.
    fn check_barriers(&self, left: &[u64]) {
        let possible = |epoch: usize| {
            let before = self.pieces.iter().take_while(|piece| piece.epoch < epoch).count();
            let mut allowed: Vec<Vec<u64>> =
                self.after(before).into_iter().map(|value| vec![value]).collect();
            for piece in self.pieces[before..].iter().take_while(|piece| piece.epoch == epoch) {
                piece.sectors.iter().for_each(|&sector| allowed[sector].push(piece.value));
            }
            left.iter().zip(&allowed).all(|(value, allowed)| allowed.contains(value))
        };
        assert!((0..=self.epoch).any(possible), "out of order: {left:?}: {self:?}");
    }
}
