//! Tests of the code as a whole.

use proptest::prelude::*;

use super::*;

fn encoded(text: &[u8]) -> Vec<u8> {
    let mut target = vec![0; encoded_len::<false>(text)];
    assert_eq!(encode::<false>(text, &mut target), Some(target.len()));
    if let Some(short) = target.len().checked_sub(1) {
        assert_eq!(encode::<false>(text, &mut vec![0; short]), None);
    }
    target
}

fn decoded(code: &[u8], most: usize) -> Result<Vec<u8>, HuffmanError> {
    let mut out = b"before".to_vec();
    let result = decode(code, most, &mut out);
    assert!(out.starts_with(b"before"));
    let text = out.split_off(6);
    assert!(text.len() <= most.min(longest(code.len())));
    assert!(result.is_ok() || text.is_empty());
    result.map(|()| text)
}

/// Decodes bit by bit, as the RFC says it.
fn decoded_slowly(code: &[u8]) -> Result<Vec<u8>, HuffmanError> {
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u32, 0u8);
    for byte in code {
        for place in (0..8).rev() {
            bits = bits << 1 | u32::from(byte >> place & 1);
            count += 1;
            let found = (0..=code::EOS).find(|&symbol| code::LENGTHS[symbol] == count && code::CODES[symbol] == bits);
            match found {
                Some(code::EOS) => return Err(HuffmanError::Eos),
                Some(symbol) => {
                    out.push(symbol as u8);
                    (bits, count) = (0, 0);
                }
                None => {}
            }
        }
    }
    if count <= 8 && bits == (1 << count) - 1 { Ok(out) } else { Err(HuffmanError::Padding) }
}

#[test]
fn every_symbol_at_every_place() {
    for symbol in 0..=255u8 {
        for before in 0..14 {
            for behind in [0, 1, 2, 9] {
                let text = [&vec![b'a'; before][..], &[symbol], &vec![b'{'; behind]].concat();
                assert_eq!(decoded(&encoded(&text), 100), Ok(text));
            }
        }
    }
}

#[test]
fn no_more_is_decoded_than_is_taken() {
    let code = encoded(&[b'a'; 100]);
    assert_eq!(decoded(&code, 100).map(|text| text.len()), Ok(100));
    for most in [0, 1, 7, 8, 9, 50, 92, 93, 99] {
        assert_eq!(decoded(&code, most), Err(HuffmanError::TooLong), "{most}");
    }
    assert_eq!(decoded(&[], 0), Ok(vec![]));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn texts_come_back(text in proptest::collection::vec(any::<u8>(), 0..100)) {
        assert_eq!(decoded(&encoded(&text), 100), Ok(text));
    }

    /// Mostly ones, since long codes begin with them.
    #[test]
    fn any_code_is_decoded_as_bit_by_bit(
        code in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0xff), Just(0xfe)], 0..30)
    ) {
        assert_eq!(decoded(&code, 1000), decoded_slowly(&code));
    }
}
