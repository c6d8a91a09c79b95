//! The simulated card of the virtual machine: served over NBD by this process, with its volatile
//! cache, so that a power cut loses what a real card would lose.
//!
//! Killing QEMU alone is not a power cut: what it has written would survive. Before every round of
//! work, the card is set back to a saved one with a new file system.
//!
//! Limits: blocks that were never written read as zeros, so a file that shows what the device
//! contained before is not told from one with zeros.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use flashfit_card::{Card, CardModel, CardRequest, CutReport, EnabledFault};
use flashfit_card_server::live::LiveCard;
use flashfit_card_server::nbd::NbdServer;

use crate::CrashError;

/// Images are written to a card in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;

/// A card that is served to machines, one after another.
#[derive(Debug)]
pub struct PluggedCard {
    live: LiveCard,
    history_ms: u64,
    _server: NbdServer,
}

impl PluggedCard {
    /// Serves a new card on a socket.
    ///
    /// # Errors
    /// When there is no socket.
    pub fn serve(model: &CardModel, socket: &Path, history_ms: u64) -> Result<Self, CrashError> {
        let live = LiveCard::new(Card::new(model));
        let server = NbdServer::open(&live, socket)?;
        Ok(Self { live, history_ms, _server: server })
    }

    /// Replaces the card by a saved one, with power.
    pub fn insert(&self, saved: &SavedCard) {
        let mut card = Card::load(&saved.0[..]).expect("saved by this process");
        card.record_history(self.history_ms);
        self.live.lock().card = card;
    }

    /// How many writes it has served since it was new.
    pub fn writes(&self) -> u64 {
        self.live.lock().card.counters().host_write_requests
    }

    /// Cuts the power now; what is under way is lost or torn.
    pub fn cut(&self, seed: u64, faults: Vec<EnabledFault>) -> CutReport {
        self.live.cut(seed, faults)
    }

    /// Restores the power. Only when the machine that was cut off is dead: it would go on writing.
    ///
    /// # Errors
    /// Why the card does not answer.
    pub fn power_on(&self) -> Result<(), String> {
        self.live.lock().card.power_on().map_err(|error| error.to_string())
    }

    /// Writes what the card contains to an empty file. Returns how many bytes cannot be read.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn image(&self, path: &Path) -> Result<u64, CrashError> {
        let failed = |source| CrashError::File { path: path.to_owned(), source };
        let file = File::create(path).map_err(failed)?;
        self.live.lock().card.write_image(&file).map_err(failed)
    }

    /// Writes what differs in the file to the card, as a repair does.
    ///
    /// # Errors
    /// When the file cannot be read, or the card does not take it.
    pub fn write_back(&self, path: &Path) -> Result<(), CrashError> {
        let failed = |source| CrashError::File { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let card = &mut self.live.lock().card;
        copy(&file, card).map_err(failed)
    }
}

/// A card without power, as bytes.
#[derive(Debug, Clone)]
pub struct SavedCard(Vec<u8>);

impl SavedCard {
    /// A new card with the contents of an image.
    ///
    /// # Errors
    /// When the image cannot be read.
    pub fn of_image(model: &CardModel, path: &Path) -> Result<Self, CrashError> {
        let failed = |source| CrashError::File { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let mut card = Card::new(model);
        copy(&file, &mut card).map_err(failed)?;
        let mut bytes = Vec::new();
        card.save(&mut bytes).map_err(|error| failed(io::Error::other(error)))?;
        Ok(Self(bytes))
    }
}

/// Writes the pieces of a file that differ from what the card contains, and flushes.
fn copy(file: &File, card: &mut Card) -> io::Result<()> {
    let (mut wanted, mut present) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let capacity = card.model().capacity.0;
    for offset in (0..capacity).step_by(PIECE_BYTES) {
        let length = usize::try_from(capacity - offset).map_or(PIECE_BYTES, |l| l.min(PIECE_BYTES));
        let (wanted, present) = (&mut wanted[..length], &mut present[..length]);
        file.read_exact_at(wanted, offset)?;
        // What cannot be read is written.
        if card.peek(offset, present).is_err() || wanted != present {
            card.serve(CardRequest::Write { offset, data: wanted }).map_err(io::Error::other)?;
        }
    }
    card.serve(CardRequest::Flush).map_err(io::Error::other)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flashfit_device::Bytes;
    use flashfit_wear::replica::scaled;

    use super::*;

    fn model() -> CardModel {
        let model = flashfit_card::catalog::load("usd-a2-cq", None).unwrap();
        scaled(&model, Bytes::mib(64)).unwrap()
    }

    #[test]
    fn an_image_is_carried_over_and_back_and_unflushed_data_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let file = File::create(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(&[7; 5000], 1 << 20).unwrap();
        let model = model();
        let saved = SavedCard::of_image(&model, &path).unwrap();
        let card = PluggedCard::serve(&model, &folder.path().join("socket"), 0).unwrap();
        card.insert(&saved);
        let write = CardRequest::Write { offset: 1 << 20, data: &[8; 4096] };
        card.live.lock().card.serve(write).unwrap();
        let lose_all = "lost-cache=0".parse().unwrap();
        let report = card.cut(1, vec![lose_all]);
        assert!(report.lost_cache_bytes >= 4096, "{report:?}");
        let after = folder.path().join("after");
        assert_eq!(card.image(&after).unwrap(), 0);
        assert!(std::fs::read(&after).unwrap() == std::fs::read(&path).unwrap());
        card.power_on().unwrap();
        let file = File::options().write(true).open(&after).unwrap();
        file.write_all_at(&[9; 512], 4 << 20).unwrap();
        card.write_back(&after).unwrap();
        let again = folder.path().join("again");
        card.image(&again).unwrap();
        assert!(std::fs::read(&again).unwrap() == std::fs::read(&after).unwrap());
    }

    #[test]
    fn a_bricked_card_gets_no_power() {
        let folder = tempfile::tempdir().unwrap();
        let card = PluggedCard::serve(&model(), &folder.path().join("socket"), 0).unwrap();
        card.cut(1, vec!["brick".parse().unwrap()]);
        assert!(card.power_on().unwrap_err().contains("broken"));
    }
}
