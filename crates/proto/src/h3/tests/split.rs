//! A recorded conversation in every split gives the same events.

use super::*;

/// The events of a stream, with the pieces of a body together, and an end as one event however it came.
fn normal(seen: Vec<Seen>) -> Vec<Seen> {
    let mut all: Vec<Seen> = Vec::new();
    for event in seen {
        match (all.last_mut(), event) {
            (Some(Seen::Data(of, data)), Seen::Data(id, more)) if *of == id => data.extend(more),
            (_, Seen::Head(id, true, fields)) => all.extend([Seen::Head(id, false, fields), Seen::End(id)]),
            (_, event) => all.push(event),
        }
    }
    all
}

/// The streams of a client, in the order in which their bytes come.
fn conversation() -> Vec<(u64, Vec<u8>, bool)> {
    let update = frame(kind::PRIORITY_UPDATE, &[number(0), b"u=1".to_vec()].concat());
    let settings = frame(kind::SETTINGS, &[1, 0x40, 0x64, 0x21, 0x80, 0, 0, 7]);
    vec![
        (2, [number(0), settings, frame(0x21, b"x"), update, frame(kind::GOAWAY, &[0])].concat(), false),
        (6, b"\x02\x3f\xe1\x1f\xc1\x02/x\x41a\x01b".to_vec(), false),
        (0, [frame(kind::HEADERS, b"\x03\x00\xd1\xd7\x50\x01a\x81\x80"), data(b"body")].concat(), true),
        (4, [get(), data(b"a"), frame(0x40 + 0x1f, b"abc"), data(b"b"), headers(&[("t", "v")])].concat(), true),
        (8, get(), true),
        (14, [0x40, 0x40, 1].to_vec(), false),
    ]
}

fn run(streams: &[(u64, Vec<u8>, bool)], cuts: &[usize]) -> Vec<Seen> {
    let (mut server, mut seen) = (H3Connection::new(&config(Role::Server)), Vec::new());
    let mut at = 0;
    let mut refused = None;
    for (id, bytes, fin) in streams {
        let mut start = 0;
        while start < bytes.len() && refused != Some(*id) {
            let next = cuts.iter().map(|cut| cut.saturating_sub(at)).find(|cut| *cut > start).unwrap_or(bytes.len());
            let end = next.min(bytes.len());
            let events = feed(&mut server, *id, &bytes[start..end], *fin && end == bytes.len());
            let events = events.expect("no error");
            refused = events.iter().any(|event| matches!(event, Seen::Reset(..))).then_some(*id);
            seen.extend(events);
            start = end;
        }
        at += bytes.len();
    }
    normal(seen)
}

#[test]
fn every_split_gives_the_same_events() {
    let streams = conversation();
    let whole = run(&streams, &[]);
    assert_eq!(whole.len(), 12, "{whole:?}");
    let len = streams.iter().map(|(_, bytes, _)| bytes.len()).sum::<usize>();
    for first in 0..len {
        assert_eq!(run(&streams, &[first]), whole, "cut at {first}");
        for second in first..(first + 12).min(len) {
            assert_eq!(run(&streams, &[first, second]), whole, "cut at {first} and {second}");
        }
    }
    assert_eq!(run(&streams, &(0..len).collect::<Vec<_>>()), whole, "byte for byte");
}
