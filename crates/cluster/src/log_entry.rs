//! Entries of the engine's logs: changes of pairs, and purges. Other nodes write them, perhaps of another version, so each is
//! checked as what a stranger sends.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use freerun_cache::purge::{MAX_TEXT, Purge};

use crate::seal::Sealer;

/// The identifier of an entry in a log of the engine: the engine's time in milliseconds, and a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// Milliseconds since 1970, by the engine's clock.
    pub milliseconds: u64,
    /// The number among the entries of this millisecond.
    pub number: u64,
}

impl EntryId {
    /// The identifier of the same number that is this many milliseconds older.
    pub fn earlier(self, milliseconds: u64) -> EntryId {
        EntryId { milliseconds: self.milliseconds.saturating_sub(milliseconds), number: 0 }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}-{}", self.milliseconds, self.number)
    }
}

impl FromStr for EntryId {
    type Err = ();

    fn from_str(text: &str) -> Result<EntryId, ()> {
        let (milliseconds, number) = text.split_once('-').ok_or(())?;
        Ok(EntryId { milliseconds: milliseconds.parse().map_err(|_| ())?, number: number.parse().map_err(|_| ())? })
    }
}

/// The fields of an entry as the engine has them.
pub(crate) type EntryFields = Vec<(Vec<u8>, Vec<u8>)>;

/// The value of a field.
fn field<'f>(fields: &'f EntryFields, name: &[u8]) -> Option<&'f [u8]> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
}

/// A pair as the engine has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnginePair {
    /// The key.
    pub(crate) key: String,
    /// The value.
    pub(crate) value: String,
    /// The time until which it is there, in milliseconds since 1970 by the engine's clock.
    pub(crate) until: Option<u64>,
}

/// A change in the log of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PairEntry {
    /// The pair is as it is here.
    Set(EnginePair),
    /// The pair with this key is gone.
    Remove(String),
    /// All pairs are gone.
    Clear,
}

/// Writes and reads the pairs of a zone, encrypted if there is a secret.
#[derive(Clone)]
pub(crate) struct PairCodec {
    place: String,
    sealer: Option<Arc<Sealer>>,
}

impl PairCodec {
    /// The codec of a zone.
    pub(crate) fn new(zone: &str, sealer: Option<Arc<Sealer>>) -> PairCodec {
        PairCodec { place: format!("pairs {zone}"), sealer }
    }

    /// The name that stands for a key.
    pub(crate) fn field(&self, key: &str) -> Vec<u8> {
        match &self.sealer {
            Some(sealer) => sealer.hash(&self.place, key.as_bytes()),
            None => key.as_bytes().to_vec(),
        }
    }

    /// The text that stands for a pair. `None`: there are no random numbers.
    pub(crate) fn payload(&self, key: &str, value: &str) -> Option<Vec<u8>> {
        let Some(sealer) = &self.sealer else { return Some(value.as_bytes().to_vec()) };
        let length = u32::try_from(key.len()).ok()?.to_le_bytes();
        sealer.seal(&self.place, &[&length[..], key.as_bytes(), value.as_bytes()].concat())
    }

    /// The key and the value of a pair with this name and this text. `None`: it is none of this cluster.
    fn open(&self, field: &[u8], payload: &[u8]) -> Option<(String, String)> {
        let Some(sealer) = &self.sealer else {
            return Some((String::from_utf8(field.to_vec()).ok()?, String::from_utf8(payload.to_vec()).ok()?));
        };
        let plain = sealer.open(&self.place, payload)?;
        let (length, rest) = plain.split_first_chunk::<4>()?;
        let (key, value) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        let key = String::from_utf8(key.to_vec()).ok().filter(|key| self.field(key) == field)?;
        Some((key, String::from_utf8(value.to_vec()).ok()?))
    }

    /// The pair with this name in the engine's table. `None`: it is none of this cluster.
    pub(crate) fn stored(&self, field: &[u8], stored: &[u8]) -> Option<EnginePair> {
        let at = stored.iter().position(|byte| *byte == b'|')?;
        let until = std::str::from_utf8(&stored[..at]).ok()?.parse::<u64>().ok()?;
        let (key, value) = self.open(field, &stored[at + 1..])?;
        Some(EnginePair { key, value, until: (until > 0).then_some(until) })
    }

    /// The change that the fields of an entry describe. `None`: it is none of this cluster.
    pub(crate) fn entry(&self, fields: &EntryFields) -> Option<PairEntry> {
        match field(fields, b"o")? {
            b"c" => Some(PairEntry::Clear),
            b"d" => {
                let (key, _) = self.open(field(fields, b"k")?, field(fields, b"v")?)?;
                Some(PairEntry::Remove(key))
            }
            b"s" => self.stored(field(fields, b"k")?, field(fields, b"v")?).map(PairEntry::Set),
            _ => None,
        }
    }
}

/// Writes and reads the purges of a cache, encrypted if there is a secret.
#[derive(Clone)]
pub(crate) struct PurgeCodec {
    place: String,
    sealer: Option<Arc<Sealer>>,
}

impl PurgeCodec {
    /// The codec of a cache.
    pub(crate) fn new(cache: &str, sealer: Option<Arc<Sealer>>) -> PurgeCodec {
        PurgeCodec { place: format!("purges {cache}"), sealer }
    }

    /// The kind and the text of an entry. `None`: there are no random numbers.
    pub(crate) fn fields(&self, what: &Purge) -> Option<(&'static str, Vec<u8>)> {
        let (kind, text) = match what {
            Purge::Key(text) => ("k", text),
            Purge::Prefix(text) => ("p", text),
            Purge::Tag(text) => ("t", text),
        };
        let text = match &self.sealer {
            Some(sealer) => sealer.seal(&self.place, text)?,
            None => text.to_vec(),
        };
        Some((kind, text))
    }

    /// The purge that the fields of an entry describe. `None`: it is none of this cluster.
    pub(crate) fn entry(&self, fields: &EntryFields) -> Option<Purge> {
        let text = field(fields, b"t")?;
        let text = match &self.sealer {
            Some(sealer) => sealer.open(&self.place, text)?,
            None => text.to_vec(),
        };
        if text.len() > MAX_TEXT {
            return None;
        }
        let text = Bytes::from(text);
        match field(fields, b"w")? {
            b"k" => Some(Purge::Key(text)),
            b"p" => Some(Purge::Prefix(text)),
            b"t" => Some(Purge::Tag(text)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealers() -> [Option<Arc<Sealer>>; 2] {
        [None, Some(Arc::new(Sealer::new(&[7; 32]).unwrap()))]
    }

    fn fields(all: &[(&str, &[u8])]) -> EntryFields {
        all.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec())).collect()
    }

    #[test]
    fn identifiers_are_compared_as_numbers() {
        let id = |text: &str| text.parse::<EntryId>();
        assert!(id("9-5").unwrap() < id("10-0").unwrap() && id("10-2").unwrap() < id("10-11").unwrap());
        assert_eq!(id("1700000000000-3").unwrap().to_string(), "1700000000000-3");
        assert_eq!(id("50-3").unwrap().earlier(60), EntryId::default());
        for wrong in ["", "-", "1", "1-", "-1", "x-1", "1-2-3"] {
            assert!(id(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pairs_come_back_as_they_were() {
        for sealer in sealers() {
            let codec = PairCodec::new("sessions", sealer);
            let (key, value) = ("10.1.2.3", "a|b\u{e9}");
            let (field, payload) = (codec.field(key), codec.payload(key, value).unwrap());
            let stored = [b"1700|", &payload[..]].concat();
            let pair = EnginePair { key: key.into(), value: value.into(), until: Some(1700) };
            assert_eq!(codec.stored(&field, &stored), Some(pair.clone()));
            let set = fields(&[("o", b"s"), ("k", &field), ("v", &stored), ("n", b"node")]);
            assert_eq!(codec.entry(&set), Some(PairEntry::Set(pair)));
            let removal = codec.payload(key, "").unwrap();
            let removed = fields(&[("o", b"d"), ("k", &field), ("v", &removal)]);
            assert_eq!(codec.entry(&removed), Some(PairEntry::Remove(key.into())));
            assert_eq!(codec.entry(&fields(&[("o", b"c")])), Some(PairEntry::Clear));
        }
    }

    #[test]
    fn purges_come_back_as_they_were() {
        for sealer in sealers() {
            let codec = PurgeCodec::new("static", sealer);
            for what in [Purge::Key("/a".into()), Purge::Prefix("".into()), Purge::Tag("shoes".into())] {
                let (kind, text) = codec.fields(&what).unwrap();
                assert_eq!(codec.entry(&fields(&[("w", kind.as_bytes()), ("t", &text)])), Some(what));
            }
        }
    }

    /// Entries and stored pairs of which anything may have been changed: nothing panics, and what is read can be written again.
    ///
    /// It is a test and no target of `fuzz`, which would have to build this crate and all that it needs.
    #[test]
    fn damaged_entries_of_any_bytes() {
        let mut number = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |limit: usize| {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            (number % limit as u64) as usize
        };
        for round in 0..20_000 {
            let sealer = sealers()[round % 2].clone();
            let (pairs, purges) = (PairCodec::new("z", sealer.clone()), PurgeCodec::new("c", sealer));
            let (kind, text) = purges.fields(&Purge::Prefix("/a".into())).unwrap();
            let stored = [b"1700|", &pairs.payload("key", "value").unwrap()[..]].concat();
            let mut all = fields(&[
                ("o", &b"sdc"[below(3)..][..1]),
                ("k", &pairs.field("key")),
                ("v", &stored),
                ("w", kind.as_bytes()),
                ("t", &text),
            ]);
            for _ in 0..=below(3) {
                let place = below(all.len());
                let (name, value) = &mut all[place];
                let bytes = if below(4) == 0 { name } else { value };
                match below(3) {
                    0 => bytes.truncate(below(bytes.len() + 1)),
                    1 => bytes.push(below(256) as u8),
                    _ if bytes.is_empty() => {}
                    _ => {
                        let at = below(bytes.len());
                        bytes[at] = below(256) as u8;
                    }
                }
            }
            if let Some(PairEntry::Set(pair)) = pairs.entry(&all) {
                assert_eq!(pairs.field(&pair.key), field(&all, b"k").unwrap());
            }
            if let Some(what) = purges.entry(&all) {
                assert!(purges.fields(&what).is_some());
            }
            let _ = String::from_utf8_lossy(&all[0].1).parse::<EntryId>();
        }
    }

    #[test]
    fn what_strangers_have_written_is_left_out() {
        let [plain, sealed] = sealers().map(|sealer| PairCodec::new("z", sealer));
        let no_text = [0xff_u8];
        for wrong in [
            fields(&[]),
            fields(&[("o", b"x")]),
            fields(&[("o", b"s"), ("k", b"a")]),
            fields(&[("o", b"s"), ("k", b"a"), ("v", b"1")]),
            fields(&[("o", b"s"), ("k", b"a"), ("v", b"x|1")]),
            fields(&[("o", b"s"), ("k", &no_text), ("v", b"0|1")]),
            fields(&[("o", b"d"), ("k", b"a")]),
        ] {
            assert_eq!((plain.entry(&wrong), sealed.entry(&wrong)), (None, None), "{wrong:?}");
        }
        // What another zone has sealed, or what stands under another name, is none of this one.
        let other = PairCodec::new("y", sealed.sealer.clone());
        let payload = other.payload("a", "1").unwrap();
        let stored = [b"0|", &payload[..]].concat();
        assert_eq!(sealed.stored(&other.field("a"), &stored), None);
        let own = [b"0|", &sealed.payload("a", "1").unwrap()[..]].concat();
        assert_eq!(sealed.stored(&sealed.field("b"), &own), None);
        let long = fields(&[("w", b"t"), ("t", &vec![b'x'; MAX_TEXT + 1])]);
        assert_eq!(PurgeCodec::new("c", None).entry(&long), None);
    }
}
