//! The device behind a probe: a device opened for reading only, one that the user agreed to lose,
//! or a simulated card in the process under its own clock.

use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_device::{
    BlockDev, Clock, Device, DirectDevice, SystemClock, VirtualClock, WriteConsent,
};

use crate::error::ProbeRunError;

/// How much is written at once to use a simulated card up.
const PIECE_BYTES: u64 = 1 << 20;

/// A device and the clock by which its requests are timed.
pub struct TimedDevice {
    pub device: Box<dyn BlockDev>,
    pub clock: Box<dyn Clock>,
    /// What the user should know of how it is opened.
    pub notes: Vec<String>,
}

impl TimedDevice {
    /// A node or an image that was looked at, for reading only.
    pub fn read_only(device: &Device) -> Result<Self, ProbeRunError> {
        Ok(Self::direct(DirectDevice::open_described(device)?))
    }

    /// A device whose data the user agreed to lose.
    pub fn writable(consent: &WriteConsent) -> Result<Self, ProbeRunError> {
        Ok(Self::direct(DirectDevice::writable(consent)?))
    }

    fn direct(device: DirectDevice) -> Self {
        let notes = device.notes().to_vec();
        Self { device: Box::new(device), clock: Box::new(SystemClock::default()), notes }
    }

    /// A simulated card as it leaves the factory.
    pub fn simulated(model: &CardModel) -> Self {
        let clock = VirtualClock::default();
        Self::card(InProcessCard::new(Card::new(model), clock.clone()), clock)
    }

    /// A simulated card that was written all over once, as cards are that are in use: what was
    /// never written takes no time to read. What was written are zeros, which take no memory.
    pub fn used(model: &CardModel) -> Result<Self, ProbeRunError> {
        let clock = VirtualClock::default();
        let mut card = InProcessCard::new(Card::new(model), clock.clone());
        let capacity = card.describe().capacity_bytes;
        let piece = vec![0; usize::try_from(PIECE_BYTES).expect("a small piece")];
        let mut offset = 0;
        while offset < capacity {
            let length = PIECE_BYTES.min(capacity - offset);
            let data = &piece[..usize::try_from(length).expect("at most a piece")];
            card.write(offset, data)?;
            offset += length;
        }
        card.flush()?;
        Ok(Self::card(card, clock))
    }

    fn card(card: InProcessCard<VirtualClock>, clock: VirtualClock) -> Self {
        Self { device: Box::new(card), clock: Box::new(clock), notes: Vec::new() }
    }
}
