//! A table of recent cache keys by their texts, because a hit in memory would otherwise spend much of its time on MD5.
//!
//! Each loop remembers some texts. A text whose slot is taken by another one is hashed again, so correctness does not
//! depend on how well they are spread.

use std::cell::RefCell;

use freerun_cache::key::Key;

/// Number of texts that a loop remembers; a power of two.
const SLOTS: usize = 512;
/// Longer texts are not remembered. Together the texts take at most a hundred kilobytes for each loop.
const LONGEST: usize = 192;

#[derive(Default)]
struct KeySumSlot {
    text: Vec<u8>,
    key: Option<Key>,
}

thread_local! {
    static SUMS: RefCell<Vec<KeySumSlot>> = const { RefCell::new(Vec::new()) };
}

/// The key of a text: the same as [`Key::of`] gives.
pub fn key_of(text: &[u8]) -> Key {
    if text.len() > LONGEST {
        return Key::of(text);
    }
    SUMS.with_borrow_mut(|slots| {
        if slots.is_empty() {
            slots.resize_with(SLOTS, KeySumSlot::default);
        }
        let slot = &mut slots[place(text)];
        if let Some(key) = slot.key
            && slot.text == text
        {
            return key;
        }
        let key = Key::of(text);
        slot.text.clear();
        slot.text.extend_from_slice(text);
        slot.key = Some(key);
        key
    })
}

/// The slot of a text.
fn place(text: &[u8]) -> usize {
    let mut sum = text.len() as u64;
    let mut mix = |part: u64| sum = (sum.rotate_left(5) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (parts, rest) = text.as_chunks::<8>();
    for part in parts {
        mix(u64::from_le_bytes(*part));
    }
    match text.last_chunk::<8>() {
        Some(last) => mix(u64::from_le_bytes(*last)),
        None => rest.iter().for_each(|byte| mix(u64::from(*byte))),
    }
    // The highest bits depend on all others.
    (sum >> 40) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_its_own_key_whatever_was_there_before() {
        let long = "x".repeat(LONGEST);
        let texts: Vec<String> = (0..3 * SLOTS).map(|number| format!("http://a/{number}")).collect();
        let odd = ["", "a", "a\0", &long, &format!("{long}y")].map(str::to_owned);
        for _ in 0..2 {
            for text in texts.iter().chain(&odd) {
                assert_eq!(key_of(text.as_bytes()), Key::of(text.as_bytes()));
                assert_eq!(key_of(text.as_bytes()), Key::of(text.as_bytes()), "again");
            }
        }
    }

    #[test]
    fn texts_are_spread() {
        let mut places: Vec<usize> =
            (0..SLOTS).map(|number| place(format!("http://u/{number}.html").as_bytes())).collect();
        places.sort_unstable();
        places.dedup();
        // As many slots are used as with random numbers: 1 - 1/e of all.
        assert!(places.len() > SLOTS / 2, "{}", places.len());
    }
}
