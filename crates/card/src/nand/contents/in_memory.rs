//! Stores pages in memory in a two-level table, so that an almost empty card needs little memory.

use std::sync::Arc;

/// Pages per table.
const CHUNK: usize = 256;

#[derive(Debug)]
struct Chunk {
    pages: Box<[Option<Arc<[u8]>>]>,
    stored: usize,
}

impl Chunk {
    fn new() -> Self {
        Self { pages: vec![None; CHUNK].into(), stored: 0 }
    }
}

/// The bytes of non-zero pages.
#[derive(Debug, Default)]
pub struct InMemoryBytes {
    chunks: Vec<Option<Chunk>>,
}

impl InMemoryBytes {
    pub fn put(&mut self, page: u32, bytes: Arc<[u8]>) {
        let (chunk, place) = place(page);
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let chunk = self.chunks[chunk].get_or_insert_with(Chunk::new);
        chunk.stored += usize::from(chunk.pages[place].is_none());
        chunk.pages[place] = Some(bytes);
    }

    pub fn get(&self, page: u32) -> Option<&Arc<[u8]>> {
        let (chunk, place) = place(page);
        self.chunks.get(chunk)?.as_ref()?.pages[place].as_ref()
    }

    pub fn remove(&mut self, page: u32) {
        let (chunk, place) = place(page);
        let Some(slot) = self.chunks.get_mut(chunk) else { return };
        let Some(chunk) = slot else { return };
        if chunk.pages[place].take().is_some() {
            chunk.stored -= 1;
            if chunk.stored == 0 {
                *slot = None;
            }
        }
    }

    /// Numbers of all stored pages in ascending order.
    pub fn pages(&self) -> impl Iterator<Item = u32> + '_ {
        let chunks = self.chunks.iter().enumerate();
        let chunks = chunks.filter_map(|(at, chunk)| Some((at, chunk.as_ref()?)));
        chunks.flat_map(|(at, chunk)| {
            let stored = chunk.pages.iter().enumerate().filter(|(_, page)| page.is_some());
            stored.map(move |(place, _)| number(at * CHUNK + place))
        })
    }
}

fn place(page: u32) -> (usize, usize) {
    (page as usize / CHUNK, page as usize % CHUNK)
}

fn number(page: usize) -> u32 {
    u32::try_from(page).expect("it was put in under a number of 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_listed_in_order_and_empty_tables_are_freed() {
        let mut memory = InMemoryBytes::default();
        for page in [1000, 3, 257] {
            memory.put(page, Arc::from([1]));
        }
        memory.put(3, Arc::from([2]));
        assert_eq!(memory.pages().collect::<Vec<_>>(), [3, 257, 1000]);
        assert_eq!(memory.get(3).map(|bytes| bytes[0]), Some(2));
        memory.remove(3);
        memory.remove(4);
        memory.remove(70_000);
        assert!(memory.chunks[0].is_none() && memory.get(3).is_none());
    }
}
