//! Inputs of a cache: its own files, which anybody may have damaged, and what upstreams and clients say of caching.

use bytes::Bytes;
use freerun_cache::record::{Damage, Head, MAX_HEAD, PREFIX};
use freerun_cache::rules::control::{Directives, RequestControl, ResponseControl};
use freerun_cache::rules::{Answer, Field, RequestFacts, Rules, Verdict, judge, tags, update};

use crate::choice;

/// Heads of stored files: no panic, nothing but the bytes that were written is taken for a head, and more bytes are asked for
/// within bounds. The first byte says whether the checksum is made right, so that what is behind it is reached.
pub fn record(data: &[u8]) {
    let (options, data) = choice(data);
    let mut bytes = data.to_vec();
    if options & 1 == 1 && bytes.len() > PREFIX {
        let size = (bytes.len() as u32).to_le_bytes();
        bytes[..8].copy_from_slice(b"frcache1");
        bytes[8..12].copy_from_slice(&size);
        let sum = crc32fast::hash(&bytes[PREFIX..]).to_le_bytes();
        bytes[12..PREFIX].copy_from_slice(&sum);
    }
    let bytes = Bytes::from(bytes);
    match Head::decode(&bytes) {
        Ok((head, offset)) => {
            assert!(offset <= bytes.len() && head.size() == offset);
            assert_eq!(head.encode().ok(), Some(bytes.slice(..offset)));
            let _ = head.verify(offset, bytes.len() as u64, freerun_cache::key::Key::of(b"x"));
        }
        Err(Damage::Short(needed)) => assert!(needed > bytes.len() && needed <= MAX_HEAD),
        Err(_) => {}
    }
}

/// `Cache-Control` and the fields around it: no panic, and by both sets of rules a lifetime that is bounded. Lines are parted by
/// line feeds; the first byte of each chooses the field.
pub fn cache_control(data: &[u8]) {
    const NAMES: [&str; 8] =
        ["Cache-Control", "Expires", "X-Accel-Expires", "Age", "Date", "Last-Modified", "Vary", "Surrogate-Key"];
    const NOW: u64 = 1_800_000_000;
    let mut fields: Vec<Field> = Vec::new();
    for line in data.split(|&b| b == b'\n').take(16) {
        let (which, value) = choice(line);
        fields.push((NAMES[usize::from(which) % NAMES.len()].into(), Bytes::copy_from_slice(value)));
        assert!(Directives::of(value).count() <= value.len());
        let _ = (
            ResponseControl::of(std::iter::once(value)),
            RequestControl::of(std::iter::once(value), std::iter::once(value)),
        );
    }
    let status = 200 + data.len() as u16 % 400;
    for rfc9111 in [false, true] {
        let rules = Rules { rfc9111, ..Rules::default() };
        let asked = RequestFacts { sent: NOW, ..RequestFacts::default() };
        if let Verdict::Store { lifetime, vary } = judge(&asked, &Answer { status, fields: &fields }, &rules, NOW) {
            assert!(lifetime.born <= NOW && lifetime.fresh_until <= NOW + (1 << 31));
            assert!(
                vary.is_none_or(|names| !names.is_empty() && !names.split(|&b| b == b',').any(|name| name == b"*"))
            );
        }
        let stored = update::stored(&fields, rfc9111, rules.ignored);
        let changed = update::refreshed(&stored, &fields, rules.ignored);
        assert!(changed.is_none_or(|changed| changed.len() <= stored.len() + fields.len()));
    }
    assert!(tags::tags(&fields).iter().all(|tag| !tag.is_empty()));
}
