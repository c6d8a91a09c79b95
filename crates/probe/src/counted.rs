//! A device that counts what is written to it, also where a measurement does not come to its end.

use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo};

pub struct CountedDevice<'a> {
    device: &'a mut dyn BlockDev,
    written_bytes: u64,
}

impl<'a> CountedDevice<'a> {
    pub fn new(device: &'a mut dyn BlockDev) -> Self {
        Self { device, written_bytes: 0 }
    }

    /// Bytes of writes so far that did not fail.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }
}

impl BlockDev for CountedDevice<'_> {
    fn describe(&self) -> BlockDevInfo {
        self.device.describe()
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.device.read(offset, buffer)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        self.device.write(offset, data)?;
        self.written_bytes += data.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        self.device.flush()
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        self.device.discard(offset, length)
    }
}
