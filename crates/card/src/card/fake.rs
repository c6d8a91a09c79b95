//! Requests to a card with less capacity than it claims.

use flashfit_device::BlockDevError;

use super::Card;

impl Card {
    pub(super) fn read_claimed(
        &mut self,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), BlockDevError> {
        let Some(fake) = &self.model.fake else { return self.read(offset, buffer) };
        for found in fake.parts(offset, buffer.len()) {
            let part = &mut buffer[found.part];
            match found.place {
                Some(place) => self.read(place, part)?,
                None => part.fill(0),
            }
        }
        Ok(())
    }

    pub(super) fn write_claimed(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        let Some(fake) = &self.model.fake else { return self.write(offset, data) };
        for found in fake.parts(offset, data.len()) {
            if let Some(place) = found.place {
                self.write(place, &data[found.part])?;
            }
        }
        Ok(())
    }

    /// Beyond the real capacity nothing is discarded.
    pub(super) fn discard_claimed(&mut self, offset: u64, length: u64) {
        let real = self.model.fake.as_ref().map_or(u64::MAX, |fake| fake.real_capacity.0);
        let end = (offset + length).min(real);
        if offset < end {
            self.discard(offset, end - offset);
        }
    }
}
