//! Content that can be checked without keeping a copy: every byte is a function of the file's path and its offset.

/// A seed for [`fill`] from a file's path (FNV-1a), so that two files of one size differ.
pub fn seed(path: &str) -> u64 {
    path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Fills `buffer` with the bytes at `offset` of the content with this seed.
pub fn fill(seed: u64, offset: u64, buffer: &mut [u8]) {
    let mut at = offset;
    let mut rest = buffer;
    while !rest.is_empty() {
        let word = mix(seed ^ (at / 8)).to_le_bytes();
        let start = (at % 8) as usize;
        let count = (8 - start).min(rest.len());
        let (now, later) = rest.split_at_mut(count);
        now.copy_from_slice(&word[start..start + count]);
        at += count as u64;
        rest = later;
    }
}

/// The `length` bytes at `offset` of the content with this seed.
pub fn bytes(seed: u64, offset: u64, length: usize) -> Vec<u8> {
    let mut buffer = vec![0; length];
    fill(seed, offset, &mut buffer);
    buffer
}

/// splitmix64's finalizer: neighbouring words are unrelated, so a page from a wrong place is noticed.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_equals_the_same_range_of_the_whole() {
        let whole = bytes(seed("a"), 0, 100);
        for start in 0..20 {
            for end in start..60 {
                assert_eq!(bytes(seed("a"), start as u64, end - start), &whole[start..end]);
            }
        }
        assert_ne!(whole, bytes(seed("b"), 0, 100));
    }
}
