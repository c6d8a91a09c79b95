//! A mutator for texts with numbers in them: it puts extreme numbers in the place of whole numbers,
//! which changes of single bytes hardly ever do.

use std::ops::Range;

/// The edges of what integers hold, and what a damaged file may have.
const EXTREMES: [&str; 10] = [
    "0",
    "-1",
    "1e300",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "null",
];

/// Changes the first `size` bytes of `data`, all of which may be used; returns the new size.
pub fn mutate(data: &mut [u8], size: usize, seed: u32) -> usize {
    let room = data.len();
    // What shrinks may have been larger than there is room for now.
    let size = size.min(room);
    let choice = usize::try_from(seed).expect("at least 32 bits");
    let changed = (choice % 2 == 0).then(|| with_extreme(&data[..size], choice / 2)).flatten();
    if let Some(changed) = changed.filter(|changed| changed.len() <= room) {
        data[..changed.len()].copy_from_slice(&changed);
        return changed.len();
    }
    libfuzzer_sys::fuzzer_mutate(data, size, room)
}

/// The text with one of its numbers replaced; `None` where it has none.
fn with_extreme(text: &[u8], choice: usize) -> Option<Vec<u8>> {
    let numbers = numbers(text);
    let number = numbers.get(choice.checked_rem(numbers.len())?)?;
    let extreme = EXTREMES[choice / numbers.len() % EXTREMES.len()];
    Some([&text[..number.start], extreme.as_bytes(), &text[number.end..]].concat())
}

fn numbers(text: &[u8]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (place, _) in text.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
        match found.last_mut() {
            Some(last) if last.end == place => last.end += 1,
            _ => found.push(place..place + 1),
        }
    }
    found
}
