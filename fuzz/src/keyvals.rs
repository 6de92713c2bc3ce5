//! Zones of key-value pairs: a disk may have damaged their state files, and clients choose what is looked up.

use freerun_serve::keyvals::{Change, Keyvals, Kind, New};

use crate::choice;
use crate::targets::owned;

/// How many bytes the pairs may take: less than the larger seeds need.
const ROOM: u64 = 1024;

/// A state file: no panic, no more pairs than there is room for, each of them is found by its key, and what is saved is
/// restored as it was. The same bytes as a key: it is refused, or its pair is found and removed.
pub fn state(data: &[u8]) {
    let (which, data) = choice(data);
    let (_, kind) = Kind::ALL[usize::from(which) % Kind::ALL.len()];
    let zone = Keyvals::new(kind, ROOM);
    let restored = zone.restore(data);
    assert!(restored.is_some() || zone.is_empty());
    zone.look_up(data);
    let all = zone.all();
    assert!(all.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>() <= ROOM);
    for (key, value) in &all {
        assert_eq!(zone.get(key).as_ref(), Some(value));
        // A network is no address.
        if kind != Kind::Address || !key.contains('/') {
            assert_eq!(zone.look_up(key.as_bytes()).as_deref(), Some(value.as_bytes()));
        }
    }
    let other = Keyvals::new(kind, ROOM);
    assert_eq!((other.restore(&zone.save()), other.all()), (Some(0), all));
    added(kind, &String::from_utf8_lossy(data));
}

fn added(kind: Kind, key: &str) {
    let zone = Keyvals::new(kind, ROOM);
    let new = New { key: key.to_owned(), value: "v".to_owned(), lasts: None };
    if zone.change(&Change::Add(vec![new]), None).is_ok() {
        assert_eq!(zone.get(key).as_deref(), Some("v"));
        assert_eq!(zone.change(&Change::Remove(key.to_owned()), None), Ok(()));
    }
    assert!(zone.is_empty());
}

/// State files of each kind, and keys.
pub fn seeds() -> Vec<Vec<u8>> {
    owned(&[
        br#"0{"a": {"value": "1"}, "/b": {"value": "\u00e9", "until": 4000000000000}, "c": {"value": "", "until": 5}}"#,
        br#"1{"10.0.0.0/8": {"value": "n"}, "::ffff:10.1.2.3": {"value": "a"}, "::/0": {"value": "all"}}"#,
        br#"2{"/": {"value": "root"}, "/a/b": {"value": "deep"}, "/a": {"value": "flat"}}"#,
        b"12001:db8::/32",
        b"2/a/b",
    ])
}

/// What state files are made of.
pub const WORDS: &[&[u8]] =
    &[b"{\"", b"\": {\"value\": \"", b"\"}, \"", b"\", \"until\": ", b"/0", b"/128", b"::", b"\\u0000", b"\xc3\xa9"];
