use super::*;
use crate::response::Framing;
use crate::{BodyFraming, HeadRules, parse_request};

/// The result of a decoder: the body, its trailers, how many bytes of the input belonged to it, and whether it is
/// complete.
#[derive(PartialEq, Eq, Debug)]
struct Found {
    body: Vec<u8>,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
    used: usize,
    done: bool,
}

/// Feeds a decoder with the pieces of `text` that end at each of `cuts`, and at its end.
fn feed(mut decoder: BodyDecoder, text: &[u8], cuts: &[usize]) -> Result<Found, RequestError> {
    let mut body = Vec::new();
    let mut at = 0;
    for &end in cuts.iter().chain([&text.len()]) {
        loop {
            match decoder.step(&text[at..end])? {
                ChunkStep::Data(data) => {
                    assert!(!data.is_empty() && at + data.end <= end, "{data:?}");
                    body.extend_from_slice(&text[at + data.start..at + data.end]);
                    at += data.end;
                }
                ChunkStep::More => {
                    at = end;
                    break;
                }
                ChunkStep::Done(used) => {
                    let trailers = decoder.trailers().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                    assert!(decoder.is_done() && decoder.is_done_when_closed());
                    for next in [&b"more"[..], b""] {
                        assert_eq!(decoder.step(next), Ok(ChunkStep::Done(0)), "a body that is over stays so");
                    }
                    return Ok(Found { body, trailers, used: at + used, done: true });
                }
            }
        }
    }
    Ok(Found { body, trailers: Vec::new(), used: at, done: decoder.is_done() })
}

fn length(length: u64) -> BodyDecoder {
    BodyFraming::Length(length).decoder()
}

#[test]
fn nothing_decides_nothing() {
    for mut decoder in [BodyDecoder::chunked(), length(1), Framing::UntilClose.decoder()] {
        assert_eq!(decoder.step(b""), Ok(ChunkStep::More));
        assert!(!decoder.is_done());
    }
    let mut wrong = BodyDecoder::chunked();
    assert_eq!(wrong.step(b"g"), Err(RequestError::Chunked));
    assert_eq!(wrong.step(b""), Err(RequestError::Chunked), "what is wrong stays so");
}

#[test]
fn a_body_that_comes_in_two_pieces_is_the_same_wherever_it_is_cut() {
    let chunked: &[&[u8]] = &[
        b"0\r\n\r\nGET",
        b"2\r\nok\r\n3;a=\"b\"\r\nyes\r\n0\r\n\r\nGET",
        b"1\r\n\r\r\n1\r\n\n\r\n0;last\r\nT: v\r\nA-B:\tc\r\n\r\nGET",
        b"00a \t\r\n0123456789\r\n000\r\n\r\n",
        // Not complete.
        b"5\r\nabc",
        b"2\r\nok\r\n0\r\nT: v\r\n",
        // Wrong.
        b"2\r\nokk\r\n0\r\n\r\n",
        b"g\r\n",
        b"8000000000000000\r\n",
        b"1;\x7f\r\na\r\n0\r\n\r\n",
        b"0\r\nT v\r\n\r\n",
        b"1\na\r\n0\r\n\r\n",
    ];
    type Make = fn() -> BodyDecoder;
    let make: [(Make, &[&[u8]]); 4] = [
        (BodyDecoder::chunked, chunked),
        (|| length(3), &[b"abcGET", b"abc", b"ab", b"a\r\n"]),
        (|| BodyFraming::None.decoder(), &[b"GET"]),
        (|| Framing::UntilClose.decoder(), &[b"all of it"]),
    ];
    for (decoder, texts) in make {
        for text in texts {
            let whole = feed(decoder(), text, &[]);
            for cut in 0..=text.len() {
                assert_eq!(feed(decoder(), text, &[cut]), whole, "{} at {cut}", text.escape_ascii());
            }
            let every: Vec<usize> = (0..text.len()).collect();
            assert_eq!(feed(decoder(), text, &every), whole, "{} byte by byte", text.escape_ascii());
        }
    }
}

/// RFC 9112 section 6.3: the bytes behind the body are not decoded.
#[test]
fn the_body_ends_where_its_framing_says() {
    let found = |body: &[u8], used, done| Ok(Found { body: body.to_vec(), trailers: Vec::new(), used, done });
    assert_eq!(feed(length(3), b"abcGET", &[]), found(b"abc", 3, true));
    assert_eq!(feed(length(0), b"GET", &[]), found(b"", 0, true));
    assert_eq!(feed(length(9), b"abc", &[]), found(b"abc", 3, false));
    assert_eq!(feed(BodyFraming::None.decoder(), b"GET", &[]), found(b"", 0, true));
    assert_eq!(feed(BodyDecoder::chunked(), b"1\r\na\r\n0\r\n\r\nGET", &[]), found(b"a", 11, true));
    assert_eq!(feed(BodyDecoder::chunked(), b"1\r\na\r\n0\r\n", &[]), found(b"a", 9, false));
    assert_eq!(feed(Framing::UntilClose.decoder(), b"abc", &[]), found(b"abc", 3, false));
}

#[test]
fn a_peer_that_closes_has_ended_only_a_body_without_an_end_of_its_own() {
    let mut until_close = Framing::UntilClose.decoder();
    assert!(until_close.is_done_when_closed() && !until_close.is_done());
    assert_eq!(until_close.step(b"abc"), Ok(ChunkStep::Data(0..3)));
    assert!(until_close.is_done_when_closed());
    assert!(!length(1).is_done_when_closed() && length(0).is_done_when_closed());
    let mut chunked = BodyDecoder::chunked();
    assert!(!chunked.is_done_when_closed());
    assert_eq!(chunked.step(b"0\r\n\r"), Ok(ChunkStep::More));
    assert!(!chunked.is_done_when_closed());
    assert_eq!(chunked.step(b"\n"), Ok(ChunkStep::Done(1)));
    assert!(chunked.is_done_when_closed());
}

#[test]
fn what_is_still_to_come_is_told() {
    let mut decoder = length(u64::MAX);
    assert_eq!((decoder.remaining(), decoder.expected()), (Some(u64::MAX), u64::MAX));
    assert_eq!(decoder.step(b"abc"), Ok(ChunkStep::Data(0..3)));
    assert_eq!(decoder.remaining(), Some(u64::MAX - 3));
    let mut decoder = BodyDecoder::chunked();
    assert_eq!(decoder.step(b"5\r\nabc"), Ok(ChunkStep::Data(3..6)));
    assert_eq!((decoder.remaining(), decoder.expected()), (None, 2));
    assert_eq!((Framing::UntilClose.decoder().remaining(), Framing::UntilClose.decoder().expected()), (None, 0));
}

/// After an error the end of the body is unknown, whatever is decoded again.
#[test]
fn a_body_that_was_wrong_is_never_complete() {
    let mut decoder = BodyDecoder::chunked();
    assert_eq!(decoder.step(b"1\r\nx"), Ok(ChunkStep::Data(3..4)));
    // If this were decoded once more from its beginning, in the middle of a line, it would be a chunk and the end.
    let wrong = b"\r\n4;a\x7f\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    for _ in 0..3 {
        assert_eq!(decoder.step(wrong), Err(RequestError::Chunked));
        assert!(!decoder.is_done() && !decoder.is_done_when_closed());
        assert_eq!(decoder.expected(), 0);
    }
}

/// The body behind a head is decoded as the head says (RFC 9112 section 6).
#[test]
fn the_framing_of_a_head_leads_to_its_decoder() {
    for (fields, behind, body) in [
        ("", &b"GET"[..], &b""[..]),
        ("Content-Length: 0\r\n", b"GET", b""),
        ("Content-Length: 2\r\n", b"okGET", b"ok"),
        ("Transfer-Encoding: chunked\r\n", b"2\r\nok\r\n0\r\n\r\nGET", b"ok"),
    ] {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let parsed = parse_request(head.as_bytes(), &HeadRules::default()).unwrap().unwrap();
        let found = feed(parsed.body.decoder(), behind, &[]).unwrap();
        assert_eq!((&found.body[..], &behind[found.used..], found.done), (body, &b"GET"[..], true), "{fields}");
    }
}
