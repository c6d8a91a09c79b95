//! The contexts that predict the next byte of a trace: kinds and lengths of the last requests, and
//! where they lie. File systems write several regions in turn, so that a request often begins where
//! one before the last began or ended.

pub const CONTEXTS: usize = 16;

/// What is known when a byte begins, by the format of [`flashfit_card::trace`].
#[derive(Default)]
pub struct RequestHistory {
    /// 0: the head; 1 to 7: the place; from 8: the length.
    pub field: usize,
    last_byte: u32,
    heads: [u32; 3],
    /// Of the field so far.
    number: u64,
    shift: u32,
    distance: u64,
    /// Of the request whose distance was read last, in sectors.
    place: u64,
    /// Of the last requests, the last first; in sectors, like their places and ends.
    lengths: [u64; 2],
    places: [u64; 6],
    ends: [u64; 5],
}

impl RequestHistory {
    pub fn contexts(&self) -> [u32; CONTEXTS] {
        let field = self.field as u32;
        let so_far = (self.number as u32).wrapping_mul(0x9E37_79B1) ^ field;
        let base = field.wrapping_mul(131).wrapping_add(self.heads[0] << 16).wrapping_add(so_far);
        let with =
            |number: u64, factor: u32| base.wrapping_add((number as u32).wrapping_mul(factor));
        let end = |request: usize| self.byte_towards(self.ends[request]);
        let place = |request: usize| self.byte_towards(self.places[request]);
        [
            field,
            field << 8 | self.last_byte,
            base.wrapping_add(self.heads[1] * 257 + self.heads[2]),
            with(self.distance, 40503),
            with(self.lengths[0], 40503).wrapping_add((self.lengths[1] as u32).wrapping_mul(977)),
            with(self.ends[0], 0x9E37_79B1),
            end(1),
            end(2),
            end(3),
            place(0),
            place(1),
            end(1).wrapping_mul(31) ^ end(2).wrapping_mul(17) ^ place(1),
            place(3),
            end(4),
            place(5),
            base ^ (self.place as u32).wrapping_mul(0x85EB_CA6B),
        ]
    }

    /// The next byte of the distance, if the request began here, and whether its bytes so far fit.
    fn byte_towards(&self, place: u64) -> u32 {
        let signed = place.wrapping_sub(self.ends[0]) as i64;
        let distance = ((signed << 1) ^ (signed >> 63)) as u64;
        let shift = self.shift.min(63);
        let fits = distance & ((1 << shift) - 1) == self.number;
        let rest = distance >> shift;
        let byte = (rest & 127) as u32 | if rest > 127 { 128 } else { 0 };
        let known = (self.field as u32) << 10 | u32::from(fits) << 9 | byte << 1;
        known.wrapping_mul(0x9E37_79B1) ^ (self.heads[1] & 15)
    }

    pub fn push(&mut self, byte: u8) {
        self.last_byte = u32::from(byte);
        let is_whole = match self.field {
            0 => {
                self.heads = [u32::from(byte), self.heads[0], self.heads[1]];
                self.distance_of_this(byte)
            }
            field => {
                self.number |= u64::from(byte & 127).checked_shl(self.shift).unwrap_or(0);
                self.shift += 7;
                if byte & 128 != 0 && self.field != 7 && self.field != 15 {
                    self.field += 1;
                    return;
                }
                let number = std::mem::take(&mut self.number);
                self.shift = 0;
                if field < 8 {
                    self.distance = number;
                    self.place = self.ends[0].wrapping_add(signed(number));
                    self.field = if self.heads[0] & 8 == 0 { 8 } else { 0 };
                } else {
                    self.lengths = [number, self.lengths[0]];
                    self.field = 0;
                }
                self.field == 0
            }
        };
        if is_whole && self.heads[0] & 2 == 0 {
            let continues = self.heads[0] & 4 != 0;
            let distance = if continues { 0 } else { self.distance };
            let place = self.ends[0].wrapping_add(signed(distance));
            self.places.rotate_right(1);
            self.places[0] = place;
            self.ends.rotate_right(1);
            self.ends[0] = place.wrapping_add(self.lengths[0]);
        }
    }

    /// Sets the field after a head; whether there is none.
    fn distance_of_this(&mut self, head: u8) -> bool {
        self.place = self.ends[0];
        self.field = match (head & 2, head & 4, head & 8) {
            (0, 0, _) => 1,
            (0, _, 0) => 8,
            _ => 0,
        };
        self.field == 0
    }
}

/// The distance that is written as this number, to be added with wrapping.
fn signed(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}
