//! The three ways to a card, all alike.

use std::path::{Path, PathBuf};

use flashfit_card::{Card, CardModel, CardRequest, Counters, CutOptions};
use flashfit_card_client::{CardProcess, cut, idle, power_on, save};
use flashfit_card_server::nbd::wire::{command, command_flag};

use crate::device::DirectDevice;
use crate::nbd_client::NbdClient;
use crate::serving::{How, start};

/// A card that can be used and controlled.
pub trait Way {
    fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, ()>;
    /// Writes; `forced` means that it is on the card when this returns.
    fn write(&mut self, offset: u64, data: &[u8], forced: bool) -> Result<(), ()>;
    fn flush(&mut self) -> Result<(), ()>;
    fn discard(&mut self, offset: u64, length: u64) -> Result<(), ()>;
    /// Writes zeros that are not to be discarded.
    fn write_zeros(&mut self, offset: u64, length: u64) -> Result<(), ()>;
    fn counters(&self) -> Counters;
    /// The counters begin at 0.
    fn reset_counters(&mut self);
    /// Time passes.
    fn idle(&mut self, duration_ns: u64);
    /// The power goes.
    fn cut(&mut self, seed: u64);
    /// It comes back.
    fn power_on(&mut self);
    /// The card is saved, ends, and another goes on from there.
    fn save_and_load(&mut self, file: &Path);
    /// It ends.
    fn end(self);
}

/// In this process.
pub struct InProcess(Card);

impl InProcess {
    pub fn new(model: &CardModel) -> Self {
        Self(Card::new(model))
    }

    fn serve(&mut self, request: CardRequest<'_>) -> Result<(), ()> {
        self.0.serve(request).map(drop).map_err(drop)
    }
}

impl Way for InProcess {
    fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, ()> {
        let mut buffer = vec![0; length];
        self.serve(CardRequest::Read { offset, buffer: &mut buffer })?;
        Ok(buffer)
    }

    fn write(&mut self, offset: u64, data: &[u8], forced: bool) -> Result<(), ()> {
        self.serve(CardRequest::Write { offset, data })?;
        if forced { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ()> {
        self.serve(CardRequest::Flush)
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), ()> {
        self.serve(CardRequest::Discard { offset, length })
    }

    fn write_zeros(&mut self, offset: u64, length: u64) -> Result<(), ()> {
        self.serve(CardRequest::Write { offset, data: &vec![0; length as usize] })
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn reset_counters(&mut self) {
        self.0.reset_counters();
    }

    fn idle(&mut self, duration_ns: u64) {
        self.0.idle_until(self.0.done_ns() + duration_ns);
    }

    fn cut(&mut self, seed: u64) {
        self.0.power_cut(&CutOptions::honest(seed));
    }

    fn power_on(&mut self) {
        self.0.power_on().unwrap();
    }

    fn save_and_load(&mut self, file: &Path) {
        self.0.save_to(file).unwrap();
        self.0 = Card::load_from(file).unwrap();
    }

    fn end(self) {}
}

/// A card in its own process, and its control messages.
struct Served {
    model: PathBuf,
    how: How,
    process: Option<CardProcess>,
}

impl Served {
    fn new(model: &Path, how: How) -> Self {
        let process = Some(start(model, &how).unwrap());
        Self { model: model.to_owned(), how, process }
    }

    fn process(&self) -> &CardProcess {
        self.process.as_ref().unwrap()
    }

    fn place(&self) -> &Path {
        self.process().device()
    }

    fn reset_counters(&self) {
        self.process().reset_counters().unwrap();
    }

    fn save_and_load(&mut self, file: &Path) {
        let counters = self.process().counters().unwrap();
        save(self.place(), file).unwrap();
        self.process.take().unwrap().stop().unwrap();
        let how = How { state: Some(file.to_owned()), ..self.how.clone() };
        self.process = Some(start(&self.model, &how).unwrap());
        // A card that was loaded goes on counting.
        assert_eq!(self.process().counters().unwrap(), counters);
    }

    fn end(mut self) {
        self.process.take().unwrap().stop().unwrap();
    }
}

/// Over NBD.
pub struct Nbd {
    served: Served,
    client: NbdClient,
}

impl Nbd {
    /// A new card with a socket next to its model.
    pub fn new(model: &Path) -> Self {
        let nbd = Some(model.with_extension("socket"));
        let served = Served::new(model, How { nbd, ..How::default() });
        Self { client: NbdClient::connect(served.place()), served }
    }

    fn ask(&mut self, command: u16, flags: u16, offset: u64, length: u64) -> Result<Vec<u8>, ()> {
        let length = u32::try_from(length).unwrap();
        self.client.ask(command, flags, offset, length, &[]).map_err(drop)
    }
}

impl Way for Nbd {
    fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, ()> {
        self.client.read(offset, u32::try_from(length).unwrap()).map_err(drop)
    }

    fn write(&mut self, offset: u64, data: &[u8], forced: bool) -> Result<(), ()> {
        let flags = if forced { command_flag::FUA } else { 0 };
        self.client.write(flags, offset, data).map_err(drop)
    }

    fn flush(&mut self) -> Result<(), ()> {
        self.ask(command::FLUSH, 0, 0, 0).map(drop)
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), ()> {
        self.ask(command::TRIM, 0, offset, length).map(drop)
    }

    fn write_zeros(&mut self, offset: u64, length: u64) -> Result<(), ()> {
        self.ask(command::WRITE_ZEROES, command_flag::NO_HOLE, offset, length).map(drop)
    }

    fn counters(&self) -> Counters {
        self.served.process().counters().unwrap()
    }

    fn reset_counters(&mut self) {
        self.served.reset_counters();
    }

    fn idle(&mut self, duration_ns: u64) {
        idle(self.served.place(), duration_ns).unwrap();
    }

    fn cut(&mut self, seed: u64) {
        cut(self.served.place(), &[], seed).unwrap();
    }

    fn power_on(&mut self) {
        power_on(self.served.place()).unwrap();
    }

    fn save_and_load(&mut self, file: &Path) {
        self.served.save_and_load(file);
        self.client = NbdClient::connect(self.served.place());
    }

    fn end(self) {
        drop(self.client);
        self.served.end();
    }
}

/// Through this kernel.
pub struct Kernel {
    served: Served,
    device: Option<DirectDevice>,
}

impl Kernel {
    /// A new card on a loop device.
    pub fn new(model: &Path) -> Self {
        let served = Served::new(model, How::default());
        Self { device: Some(DirectDevice::open(served.place())), served }
    }

    fn device(&mut self) -> &mut DirectDevice {
        self.device.as_mut().unwrap()
    }
}

impl Way for Kernel {
    fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, ()> {
        self.device().read(offset, length).map_err(drop)
    }

    fn write(&mut self, offset: u64, data: &[u8], forced: bool) -> Result<(), ()> {
        self.device().write(offset, data).map_err(drop)?;
        if forced { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ()> {
        self.device().flush().map_err(drop)
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), ()> {
        self.device().discard(offset, length).map_err(drop)
    }

    fn write_zeros(&mut self, offset: u64, length: u64) -> Result<(), ()> {
        self.device().write_zeros(offset, length).map_err(drop)
    }

    fn counters(&self) -> Counters {
        self.served.process().counters().unwrap()
    }

    fn reset_counters(&mut self) {
        self.served.reset_counters();
    }

    fn idle(&mut self, duration_ns: u64) {
        idle(self.served.place(), duration_ns).unwrap();
    }

    fn cut(&mut self, seed: u64) {
        cut(self.served.place(), &[], seed).unwrap();
    }

    fn power_on(&mut self) {
        power_on(self.served.place()).unwrap();
    }

    fn save_and_load(&mut self, file: &Path) {
        self.device = None;
        self.served.save_and_load(file);
        self.device = Some(DirectDevice::open(self.served.place()));
    }

    fn end(mut self) {
        self.device = None;
        self.served.end();
    }
}
