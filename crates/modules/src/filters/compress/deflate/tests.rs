use std::io::Read;

use super::huffman::{HuffmanCode, MAX_BITS};
use super::{Effort, MAX, Small};

const EFFORTS: [Effort; 3] =
    [Effort::Fast, Effort::Chains { depth: 8, good: 32 }, Effort::Chains { depth: 64, good: 130 }];

fn random(seed: &mut u32) -> u32 {
    *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *seed >> 8
}

/// Bytes of which about one in `fresh` is new; the others are repetitions.
fn body(len: usize, fresh: u32, kinds: u32, seed: u32) -> Vec<u8> {
    let mut seed = seed;
    let mut body: Vec<u8> = Vec::with_capacity(len);
    while body.len() < len {
        if body.is_empty() || random(&mut seed).is_multiple_of(fresh) {
            body.push((random(&mut seed) % kinds) as u8);
        } else {
            let from = random(&mut seed) as usize % body.len();
            let times = (random(&mut seed) % 400) as usize;
            for at in from..(from + times).min(len) {
                body.push(body[at.min(body.len() - 1)]);
            }
        }
    }
    body.truncate(len);
    body
}

fn check(small: &mut Small, body: &[u8], effort: Effort) -> usize {
    let packed = small.gzip(body, effort).unwrap();
    let mut unpacked = Vec::new();
    // This checks the sum and the length as well; no bytes may follow.
    let mut decoder = flate2::bufread::GzDecoder::new(&packed[..]);
    decoder.read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == body, "{effort:?}, {} bytes", body.len());
    assert!(decoder.into_inner().is_empty());
    assert!(packed.len() <= body.len() + 23, "never more than stored: {} of {}", packed.len(), body.len());
    // libdeflate is stricter about incomplete data.
    let mut room = vec![0; body.len()];
    assert_eq!(libdeflater::Decompressor::new().gzip_decompress(&packed, &mut room), Ok(body.len()));
    packed.len()
}

#[test]
fn whatever_is_packed_can_be_unpacked() {
    let mut small = Small::default();
    for effort in EFFORTS {
        for len in 0..300 {
            check(&mut small, &body(len, 1, 256, len as u32), effort);
            check(&mut small, &body(len, 9, 3, len as u32), effort);
            check(&mut small, &vec![b'x'; len], effort);
        }
        for len in [1000, 8191, 8192, 8193, 12_000, MAX - 1, MAX] {
            for fresh in [1, 2, 20, 1000] {
                for kinds in [1, 2, 60, 256] {
                    check(&mut small, &body(len, fresh, kinds, 7), effort);
                }
            }
            check(&mut small, &vec![0; len], effort);
        }
    }
    assert!(small.gzip(&vec![0; MAX + 1], Effort::Fast).is_none());
}

#[test]
fn all_lengths_and_distances_of_a_match_can_be_said() {
    let mut small = Small::default();
    let noise = body(600, 1, 256, 3);
    for distance in [1, 2, 3, 4, 5, 8, 9, 100, 257, 1024, 1025, 4096, 8193, 12_289, MAX - 600] {
        let mut text = body(distance.max(600), 1, 256, 5);
        text.extend_from_slice(&noise);
        for len in [4, 5, 10, 11, 18, 19, 34, 35, 66, 67, 130, 131, 257, 258, 259, 300] {
            let mut text = text[text.len().saturating_sub(distance.max(600))..].to_vec();
            for _ in 0..len {
                text.push(text[text.len() - distance]);
            }
            text.truncate(MAX);
            for effort in EFFORTS {
                check(&mut small, &text, effort);
            }
        }
    }
}

#[test]
fn words_are_never_longer_than_allowed_and_use_all_there_is() {
    let mut frequencies = [0_u32; 288];
    let (mut one, mut two) = (1, 1);
    for frequency in frequencies.iter_mut().take(21) {
        *frequency = one;
        (one, two) = (two, one + two);
    }
    for limit in [7, MAX_BITS] {
        let code = HuffmanCode::optimal(&frequencies, limit);
        let used = code.lengths.iter().filter(|len| **len > 0);
        assert_eq!(used.clone().map(|len| 1 << (limit - usize::from(*len))).sum::<usize>(), 1 << limit, "a full tree");
        assert_eq!(used.max().copied(), Some(limit as u8));
        assert!(code.lengths[20] <= code.lengths[0], "the most frequent has the shortest");
    }
    let one = HuffmanCode::optimal(&[0, 0, 5], MAX_BITS);
    assert_eq!(one.lengths, [1, 0, 1]);
    assert_eq!(HuffmanCode::optimal(&[0; 3], MAX_BITS).lengths, [1, 1, 0]);
}
