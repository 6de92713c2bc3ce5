use proptest::prelude::*;

use super::*;

/// Decodes the pieces; returns the body and the bytes behind it, or `None` for an error or an incomplete body.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<(Vec<u8>, Vec<u8>, ChunkedDecoder)> {
    let mut decoder = ChunkedDecoder::new();
    let (mut body, mut rest) = (Vec::new(), Vec::new());
    for mut piece in pieces {
        loop {
            match decoder.step(piece).ok()? {
                ChunkStep::Data(range) => {
                    assert!(!range.is_empty());
                    body.extend_from_slice(&piece[range.clone()]);
                    piece = &piece[range.end..];
                }
                ChunkStep::More => break,
                ChunkStep::Done(used) => {
                    rest.extend_from_slice(&piece[used..]);
                    break;
                }
            }
        }
    }
    decoder.is_done().then_some((body, rest, decoder))
}

fn whole(text: &str) -> Option<(Vec<u8>, Vec<u8>, ChunkedDecoder)> {
    decode([text.as_bytes()])
}

#[test]
fn bodies() {
    for text in [
        "3\r\nabc\r\n0\r\n\r\n",
        "3;a=b\r\nabc\r\n0\r\n\r\n",
        "3 ;a\r\nabc\r\n0\r\n\r\n",
        "3 \r\nabc\r\n0\r\n\r\n",
        "3\t\r\nabc\r\n0\r\n\r\n",
        "003\r\nabc\r\n0\r\n\r\n",
        "000000000000000000000003\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\r\n00\r\n\r\n",
        "3\r\nabc\r\n0;x\r\n\r\n",
        "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
        "3\r\nabc\r\n0\r\nX: y\r\n\r\n",
    ] {
        let (body, rest, _) = whole(&format!("{text}GET")).unwrap_or_else(|| panic!("{text:?} refused"));
        assert_eq!((&body[..], &rest[..]), (&b"abc"[..], &b"GET"[..]), "{text:?}");
    }
    assert_eq!(whole("A\r\n0123456789\r\n0\r\n\r\n").unwrap().0, b"0123456789");
    assert_eq!(whole("0\r\n\r\n").unwrap().0, b"");
}

#[test]
fn refused() {
    for text in [
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc\r\n0\n\r\n",
        "3\r\nabc\r\n0\r\n\n",
        " 3\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nab\r\n0\r\n\r\n",
        "g\r\n\r\n",
        "-1\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "\r\n3\r\nabc\r\n0\r\n\r\n",
        "8000000000000000\r\n",
        "ffffffffffffffffff\r\n",
        "3;a\rb\r\nabc\r\n0\r\n\r\n",
        "3;a\0b\r\nabc\r\n0\r\n\r\n",
        "3 3\r\nabc\r\n0\r\n\r\n",
        "3\rabc",
        "3;a\nb\r\nabc\r\n0\r\n\r\n",
        "0\r\nX y\r\n\r\n",
        "0\r\n: y\r\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\nX: a\rb\r\n\r\n",
        "0\r\nX: a\0b\r\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\nX\r\n\r\n",
        "",
    ] {
        assert!(whole(text).is_none(), "{text:?} accepted");
    }
}

#[test]
fn the_largest_size_is_accepted_and_no_larger() {
    let mut decoder = ChunkedDecoder::new();
    assert_eq!(decoder.step(b"7fffffffffffffff\r\n"), Ok(ChunkStep::More));
    assert_eq!(decoder.left_in_chunk(), i64::MAX as u64);
}

#[test]
fn long_lines_and_trailers_are_refused() {
    let fits = "y".repeat(MAX_LINE as usize - 3);
    assert!(whole(&format!("3;{fits}\r\nabc\r\n0\r\n\r\n")).is_some());
    assert!(whole(&format!("3;{fits}y\r\nabc\r\n0\r\n\r\n")).is_none());
    assert!(whole(&format!("0\r\nX: {}\r\n\r\n", "y".repeat(MAX_TRAILERS - 10))).is_some());
    assert!(whole(&format!("0\r\n{}\r\n", "X: y\r\n".repeat(MAX_TRAILERS / 5 + 1))).is_none());
}

#[test]
fn trailers_are_told() {
    let (_, _, decoder) = whole("0\r\nX: y \r\nA-B:\tc:d\r\n\r\n").unwrap();
    let trailers: Vec<_> = decoder.trailers().collect();
    assert_eq!(trailers, [(&b"X"[..], &b"y"[..]), (b"A-B", b"c:d")]);
}

#[test]
fn heads_of_chunks() {
    for len in [1u64, 9, 10, 255, 256, 0xdead_beef, u64::MAX] {
        assert_eq!(ChunkHead::new(len).as_bytes(), format!("{len:x}\r\n").as_bytes());
    }
}

/// A simple reference for valid and damaged bodies without trailers: line by line over the whole text.
fn reference(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let end = at + text[at..].windows(2).position(|w| w == b"\r\n")?;
        let line = std::str::from_utf8(&text[at..end]).ok()?;
        if line.contains(['\n', '\r']) || line.starts_with([' ', '\t']) {
            return None;
        }
        let digits = line.split(';').next()?.trim_end_matches([' ', '\t']);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let size = usize::try_from(u64::from_str_radix(digits, 16).ok()?).ok()?;
        at = end + 2;
        if size == 0 {
            return (text.get(at..at + 2)? == b"\r\n").then_some((body, at + 2));
        }
        body.extend_from_slice(text.get(at..at.checked_add(size)?)?);
        at += size;
        if text.get(at..at + 2)? != b"\r\n" {
            return None;
        }
        at += 2;
    }
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-z]{1,20}".prop_map(|data| format!("{:x}\r\n{data}\r\n", data.len())),
        2 => "[a-z]{1,5}".prop_map(|data| format!("0{:X};x=\"y\"\r\n{data}\r\n", data.len())),
        1 => prop::sample::select(vec!["\r\n", "\n", "3\nabc\r\n", "5\r\nab\r\n", "z\r\n", ";", " ", "fffffffffffffffff\r\n"]).prop_map(str::to_owned),
        2 => Just("0\r\n\r\n".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn agrees_with_the_reference(pieces in prop::collection::vec(piece(), 0..8)) {
        let text = pieces.concat();
        let got = whole(&text).map(|(body, rest, _)| (body, text.len() - rest.len()));
        prop_assert_eq!(got, reference(text.as_bytes()), "{:?}", text);
    }

    #[test]
    fn splits_change_nothing(pieces in prop::collection::vec(piece(), 0..6), at in any::<prop::sample::Index>()) {
        let text = format!("{}0\r\nX: y\r\n\r\nrest", pieces.concat());
        let plain = |d: Option<(Vec<u8>, Vec<u8>, ChunkedDecoder)>| d.map(|(body, rest, _)| (body, rest));
        let expected = plain(whole(&text));
        let bytes = text.as_bytes();
        let cut = at.index(bytes.len());
        prop_assert_eq!(plain(decode([&bytes[..cut], &bytes[cut..]])), expected.clone());
        prop_assert_eq!(plain(decode(bytes.chunks(1))), expected);
    }

    #[test]
    fn any_bytes(raw in prop::collection::vec(prop::sample::select(b"0123aF;\r\n \t:x\0\xff".to_vec()), 0..60)) {
        let _ = decode([&raw[..]]);
    }
}
