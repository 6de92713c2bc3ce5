//! Bytes from upstreams, and the bytes that are written for them.

use freerun_proto::chunked::ChunkStep;
use freerun_proto::response::{Framing, HeadKind, MAX_RESPONSE_FIELDS, RequestKind, ResponseHead, ResponseParser};
use freerun_proto::{fastcgi, memcached, scgi, uwsgi};

use crate::choice;

/// A response as it was understood.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The bytes break the rules.
    Wrong,
    /// More is needed.
    Partial,
    /// Its heads, its body, and the bytes that all of it took.
    Whole(Vec<ResponseHead>, Vec<u8>, usize),
}

/// Responses: no panic, the same outcome in whatever pieces they come, and nothing in a field that could be taken for another.
pub fn response(data: &[u8]) {
    let (options, text) = choice(data);
    let kind = [HeadKind::Http, HeadKind::Cgi, HeadKind::HttpOrCgi, HeadKind::Http][usize::from(options & 3)];
    let asked = [RequestKind::Other, RequestKind::Other, RequestKind::Head, RequestKind::Connect]
        [usize::from(options >> 2 & 3)];
    let max = if options & 16 == 0 { 4096 } else { 64 };
    let whole = read_response(text, kind, asked, max, text.len().max(1));
    let pieces = read_response(text, kind, asked, max, usize::from(options >> 5) + 1);
    assert_eq!(whole, pieces);
    let Outcome::Whole(heads, body, used) = whole else { return };
    assert!(used <= text.len() && body.len() <= used);
    let mut rest = text;
    for head in heads {
        assert!(head.len <= max && (100..=999).contains(&head.status));
        assert!(head.fields.len() <= MAX_RESPONSE_FIELDS);
        assert!(!head.reason.of(rest).iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')));
        for field in &head.fields {
            assert!(field.name.range().end <= head.len && field.value.range().end <= head.len);
            assert!(!field.name.of(rest).is_empty());
            // A name may have bytes that no token has, but none that could be taken for another structure.
            assert!(!field.name.of(rest).iter().any(|byte| *byte <= b' ' || *byte == b':' || *byte == 0x7f));
            assert!(!field.value.of(rest).iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')));
        }
        rest = &rest[head.len..];
    }
}

fn read_response(text: &[u8], kind: HeadKind, asked: RequestKind, max: usize, step: usize) -> Outcome {
    let mut parser = ResponseParser::new(kind, max);
    let (mut heads, mut start, mut end) = (Vec::new(), 0, 0);
    let framing = loop {
        match parser.advance(&text[start..end]) {
            Err(_) => return Outcome::Wrong,
            Ok(None) if end == text.len() => return Outcome::Partial,
            Ok(None) => {
                assert!(end - start < max, "a head longer than the limit is still awaited");
                end = (end + step).min(text.len());
            }
            Ok(Some(head)) => {
                let (framing, interim) = (Framing::of(&head, asked), head.is_interim());
                start += head.len;
                heads.push(head);
                if !interim {
                    break framing;
                }
            }
        }
    };
    let mut decoder = framing.decoder();
    let mut body = Vec::new();
    loop {
        match decoder.step(&text[start..end]) {
            Err(_) => return Outcome::Wrong,
            Ok(ChunkStep::Data(range)) => {
                assert!(!range.is_empty());
                body.extend_from_slice(&text[start + range.start..start + range.end]);
                start += range.end;
            }
            Ok(ChunkStep::Done(used)) => return Outcome::Whole(heads, body, start + used),
            Ok(ChunkStep::More) if end == text.len() => {
                let is_whole = decoder.is_done_when_closed();
                return if is_whole { Outcome::Whole(heads, body, end) } else { Outcome::Partial };
            }
            Ok(ChunkStep::More) => (start, end) = (end, (end + step).min(text.len())),
        }
    }
}

/// Cuts data into names and values: two bytes of lengths before each pair.
fn pairs(mut data: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut pairs = Vec::new();
    while let Some((&[name, value], rest)) = data.split_first_chunk::<2>() {
        let (name, rest) = rest.split_at(rest.len().min(usize::from(name)));
        let (value, rest) = rest.split_at(rest.len().min(usize::from(value)));
        pairs.push((name, value));
        data = rest;
    }
    pairs
}

/// The content of FastCGI records: output, error output, and the bytes they took where they are complete.
type Spoken = Option<(Vec<u8>, Vec<u8>, Option<usize>)>;

/// FastCGI: records read the same in whatever pieces they come; parameters that are written can be read again.
pub fn fastcgi(data: &[u8]) {
    let (options, bytes) = choice(data);
    let whole = read_records(bytes, bytes.len().max(1));
    assert_eq!(whole, read_records(bytes, usize::from(options) + 1));
    if let Some((stdout, stderr, used)) = whole {
        assert!(stdout.len() + stderr.len() <= bytes.len() && used.is_none_or(|used| used <= bytes.len()));
    }

    let pairs = pairs(bytes);
    let mut out = Vec::new();
    let mut params = fastcgi::Params::begin(&mut out);
    for (name, value) in &pairs {
        assert!(params.pair(name, value, &mut out).is_ok());
    }
    params.end(&mut out);
    let (mut rest, mut read) = (&out[..], Vec::new());
    while let Some((head, record)) = rest.split_first_chunk::<{ fastcgi::RECORD_HEAD }>() {
        assert_eq!(head[..4], [1, 4, 0, 1]);
        let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let (mut content, behind) = record.split_at(len);
        rest = &behind[usize::from(head[6])..];
        assert_eq!(len == 0, rest.is_empty(), "an empty record ends the parameters, and nothing else does");
        while !content.is_empty() {
            let mut lengths = [0; 2];
            for length in &mut lengths {
                let short = usize::from(content[0]);
                let bytes = if short < 128 { 1 } else { 4 };
                *length = content[..bytes].iter().fold(0, |n, &b| n << 8 | usize::from(b)) & 0x7fff_ffff;
                content = &content[bytes..];
            }
            let (name, behind) = content.split_at(lengths[0]);
            let (value, behind) = behind.split_at(lengths[1]);
            read.push((name, value));
            content = behind;
        }
    }
    assert_eq!(read, pairs);
}

fn read_records(bytes: &[u8], step: usize) -> Spoken {
    use fastcgi::Piece;
    let mut records = fastcgi::Records::new();
    let (mut stdout, mut stderr, mut at) = (Vec::new(), Vec::new(), 0);
    for piece in bytes.chunks(step) {
        let mut rest = piece;
        loop {
            match records.step(rest).ok()? {
                Piece::Stdout(range) | Piece::Stderr(range) if range.is_empty() => panic!("an empty piece"),
                Piece::Stdout(range) => {
                    stdout.extend_from_slice(&rest[range.clone()]);
                    rest = &rest[range.end..];
                }
                Piece::Stderr(range) => {
                    stderr.extend_from_slice(&rest[range.clone()]);
                    rest = &rest[range.end..];
                }
                Piece::StdoutEnd(used) => rest = &rest[used..],
                Piece::More => break,
                Piece::End(used) => return Some((stdout, stderr, Some(at + piece.len() - rest.len() + used))),
            }
        }
        at += piece.len();
    }
    Some((stdout, stderr, None))
}

/// uwsgi: variables that are written can be read again.
pub fn uwsgi(data: &[u8]) {
    let (modifier, bytes) = choice(data);
    let pairs = pairs(bytes);
    let mut out = Vec::new();
    let mut packet = uwsgi::Packet::begin(modifier, !modifier, &mut out);
    for (name, value) in &pairs {
        assert!(packet.pair(name, value, &mut out).is_ok());
    }
    packet.end(&mut out);
    let (head, mut rest) = out.split_at(uwsgi::PACKET_HEAD);
    assert_eq!((head[0], head[3]), (modifier, !modifier));
    assert_eq!(usize::from(u16::from_le_bytes([head[1], head[2]])), rest.len());
    let mut texts = Vec::new();
    while let Some((&length, behind)) = rest.split_first_chunk::<2>() {
        let (text, behind) = behind.split_at(usize::from(u16::from_le_bytes(length)));
        texts.push(text);
        rest = behind;
    }
    let written: Vec<_> = pairs.iter().flat_map(|&(name, value)| [name, value]).collect();
    assert_eq!(texts, written);
}

/// SCGI: variables that are written can be read again, up to a NUL.
pub fn scgi(data: &[u8]) {
    let (length, bytes) = choice(data);
    let pairs = pairs(bytes);
    let mut out = Vec::new();
    let mut variables = scgi::Variables::begin(u64::from(length), &mut out);
    for (name, value) in &pairs {
        variables.pair(name, value, &mut out);
    }
    variables.end(&mut out);
    let colon = out.iter().position(|&byte| byte == b':').unwrap_or_default();
    let told: usize =
        std::str::from_utf8(&out[..colon]).ok().and_then(|digits| digits.parse().ok()).unwrap_or_default();
    let content = &out[colon + 1..];
    assert_eq!((content.len(), content.last()), (told + 1, Some(&b',')));
    let texts: Vec<_> = content[..told - 1].split(|&byte| byte == 0).collect();
    let length = length.to_string();
    let first: [&[u8]; 2] = [b"CONTENT_LENGTH", length.as_bytes()];
    let cut = |text: &'_ [u8]| text.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
    let written: Vec<_> =
        first.into_iter().chain(pairs.iter().flat_map(|&(name, value)| [name, value])).map(cut).collect();
    assert_eq!(texts, written);
}

/// memcached: no panic, the same value in whatever pieces it comes, and keys that are one word.
pub fn memcached(data: &[u8]) {
    use memcached::{ResponseLine, Value, ValuePiece};
    let (options, bytes) = choice(data);
    let key = memcached::escape_key(bytes);
    assert!(!key.iter().any(|&byte| byte <= b' '));
    // What `memcached_buffer_size` says.
    const MAX_LINE: usize = 4096;
    let answer = |bytes: &[u8]| memcached::answer(bytes, b"k", options & 1 == 0, MAX_LINE);
    let answered = answer(bytes);
    // The line is understood when it is complete, not before.
    let end = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |at| at + 1);
    for part in 0..end.min(bytes.len()) {
        assert_eq!(answer(&bytes[..part.min(MAX_LINE - 1)]), Ok(None));
    }
    let Ok(Some((ResponseLine::Value { length, .. }, used))) = answered else { return };
    assert_eq!(used, end);
    let read = |step: usize| {
        let (mut value, mut body) = (Value::new(length), Vec::new());
        for piece in bytes[used..].chunks(step) {
            let mut rest = piece;
            loop {
                match value.step(rest).ok()? {
                    ValuePiece::Data(range) => {
                        assert!(!range.is_empty());
                        body.extend_from_slice(&rest[range.clone()]);
                        rest = &rest[range.end..];
                    }
                    ValuePiece::More => break,
                    ValuePiece::Done(_) => {
                        assert!(value.is_done() && body.len() as u64 == length);
                        return Some((body, true));
                    }
                }
            }
        }
        Some((body, false))
    };
    assert_eq!(read(bytes.len()), read(usize::from(options) + 1));
}
