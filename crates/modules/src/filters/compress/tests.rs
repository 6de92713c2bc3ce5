use std::io::Read;

use super::coding::{Coding, Params};
use super::{CODINGS, hundredths};

fn unpack(coding: &Coding, packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding.name {
        "gzip" => flate2::read::GzDecoder::new(packed).read_to_end(&mut out).unwrap(),
        "br" => brotli_decompressor::Decompressor::new(packed, 4096).read_to_end(&mut out).unwrap(),
        _ => ::zstd::stream::read::Decoder::new(packed).unwrap().read_to_end(&mut out).unwrap(),
    };
    out
}

fn text(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let words = ["loop ", "never ", "waits ", "for a ", "disk, ", "nor for ", "<b>locks</b>\n"];
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(words[(state >> 24) as usize % words.len()].as_bytes());
    }
    text.truncate(len);
    text
}

fn levels(coding: &Coding) -> std::ops::RangeInclusive<u8> {
    match coding.name {
        "gzip" => 1..=9,
        "br" => 0..=9,
        _ => 1..=19,
    }
}

#[test]
fn what_is_packed_can_be_unpacked_at_every_level() {
    for coding in CODINGS {
        for level in levels(coding) {
            let params = Params { level, window: if coding.name == "zstd" { 20 } else { 15 } };
            for len in [0, 1, 19, 1000, 40_000] {
                let body = text(len);
                let packed = (coding.whole)(params, &body).unwrap();
                assert_eq!(unpack(coding, &packed), body, "{} {level} {len}", coding.name);
                for length in [Some(len as u64), None] {
                    let mut encoder = (coding.begin)(params, length).unwrap();
                    let mut packed = Vec::new();
                    for piece in body.chunks(7000) {
                        encoder.feed(piece, &mut packed).unwrap();
                    }
                    encoder.end(&mut packed).unwrap();
                    assert_eq!(unpack(coding, &packed), body, "{} {level} {len} in pieces", coding.name);
                }
            }
        }
    }
}

#[test]
fn after_a_flush_all_that_was_fed_can_be_read() {
    for coding in CODINGS {
        let params = Params { level: 5, window: 15 };
        let mut encoder = (coding.begin)(params, None).unwrap();
        let mut packed = Vec::new();
        encoder.feed(b"first piece", &mut packed).unwrap();
        encoder.flush(&mut packed).unwrap();
        let mut out = [0; 11];
        let mut readers: [Box<dyn Read>; 1] = [match coding.name {
            "gzip" => Box::new(flate2::read::GzDecoder::new(&packed[..])),
            "br" => Box::new(brotli_decompressor::Decompressor::new(&packed[..], 4096)),
            _ => Box::new(::zstd::stream::read::Decoder::new(&packed[..]).unwrap()),
        }];
        readers[0].read_exact(&mut out).unwrap();
        assert_eq!(&out, b"first piece", "{}", coding.name);
        drop(readers);
        encoder.flush(&mut packed).unwrap();
        encoder.feed(b", second", &mut packed).unwrap();
        encoder.end(&mut packed).unwrap();
        assert_eq!(unpack(coding, &packed), b"first piece, second", "{}", coding.name);
    }
}

#[test]
fn long_bodies_in_pieces() {
    for coding in CODINGS {
        for level in [1, 6] {
            let body = text(3_000_000);
            let mut encoder = (coding.begin)(Params { level, window: 15 }, None).unwrap();
            let mut packed = Vec::new();
            for piece in body.chunks(32 * 1024) {
                encoder.feed(piece, &mut packed).unwrap();
            }
            encoder.end(&mut packed).unwrap();
            assert!(unpack(coding, &packed) == body, "{} {level}", coding.name);
        }
    }
}

#[test]
fn random_bytes_grow_by_little() {
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(100_000)
    .collect();
    for coding in CODINGS {
        let params = Params { level: 4, window: 16 };
        let packed = (coding.whole)(params, &noise).unwrap();
        assert!(packed.len() < noise.len() + 200, "{}: {}", coding.name, packed.len());
        assert_eq!(unpack(coding, &packed), noise);
    }
}

#[test]
fn ratios_as_nginx_prints_them() {
    assert_eq!(hundredths(3000, 68), "44.12");
    assert_eq!(hundredths(20, 40), "0.50");
    assert_eq!(hundredths(19, 39), "0.49");
    assert_eq!(hundredths(0, 20), "0.00");
    assert_eq!(hundredths(37, 24), "1.54");
}

#[test]
fn encoders_gather_no_more_than_their_block() {
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let piece: Vec<u8> = (0..4096).map(|_| noise()).collect();
    for coding in CODINGS.into_iter().filter(|coding| coding.block > 0) {
        for level in [1, 5, 9] {
            let mut encoder = (coding.begin)(Params { level, window: 19 }, None).unwrap();
            let (mut gathered, mut most) = (0, 0);
            for _ in 0..400 {
                let mut out = Vec::new();
                encoder.feed(&piece, &mut out).unwrap();
                gathered = if out.is_empty() { gathered + piece.len() } else { 0 };
                most = most.max(gathered);
            }
            assert!(most <= coding.block, "{} {level}: {most}", coding.name);
        }
    }
}
