//! The head at the front of a stored file: everything of a response but its body.
//!
//! | at | bytes | what (numbers are little-endian) |
//! |---|---|---|
//! | 0 | 8 | `frcache` and the version of the format, a digit |
//! | 8 | 4 | length of the head, these bytes included |
//! | 12 | 4 | CRC-32 of the bytes behind it, up to the end of the head |
//! | 16 | 8 | length of the body |
//! | 24 | 8 | when it was stored (this and the next two: seconds since the epoch) |
//! | 32 | 8 | fresh until |
//! | 40 | 8 | born, for `Age` |
//! | 48 | 4 | seconds of `stale-while-revalidate` |
//! | 52 | 4 | seconds of `stale-if-error` |
//! | 56 | 2 | status |
//! | 58 | 1 | flags: 1 must be revalidated, 2 no-cache, 4 has `Vary` |
//! | 59 | 1 | 0 |
//! | 60 | 4 | length of the key's text |
//! | 64 | 4 | length of the reason phrase |
//! | 68 | 4 | length of the names of `Vary` |
//! | 72 | 4 | number of fields |
//! | 76 | 4 | number of tags |
//! | 80 | 16 | the variant; zeros without `Vary` |
//! | 96 | | key, reason phrase (a single NUL, which no phrase has, if no server has answered), names of `Vary`; then each field as two lengths (4 bytes each), name and value; then each tag as a length and its text |
//!
//! The numbers have a fixed width, so a head whose body's length becomes known later has the same size. A file is whole
//! if its head can be decoded and the body has the length that it says. A file that has its name is always whole, since
//! it gets the name last.

use bytes::{BufMut, Bytes, BytesMut};

use crate::key::Key;
use crate::rules::{Lifetime, Vary};

/// The longest head in bytes. Responses with a longer one are not stored.
pub const MAX_HEAD: usize = 1 << 20;

/// The number of bytes from which the length of the head can be read.
pub const PREFIX: usize = 16;

const MAGIC: &[u8; 7] = b"frcache";
const VERSION: u8 = b'1';
/// The offset at which the text begins.
const TEXT: usize = 96;

const MUST_REVALIDATE: u8 = 1;
const NO_CACHE: u8 = 2;
const HAS_VARY: u8 = 4;

/// The head of a stored file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// The text of the key.
    pub key: Bytes,
    /// The status of the response.
    pub status: u16,
    /// The reason phrase.
    pub reason: Reason,
    /// The stored fields: [`rules::update::stored`](crate::rules::update::stored).
    pub fields: Vec<(Bytes, Bytes)>,
    /// Moment at which the response was stored, in seconds since the epoch.
    pub created: u64,
    /// Time for which the response may be used, according to the response that came with the body. After a 304 the
    /// index's lifetime counts.
    pub lifetime: Lifetime,
    /// The variant that the response is for, among the requests of its key.
    pub vary: Option<Vary>,
    /// The surrogate tags of the response.
    pub tags: Vec<Bytes>,
    /// The length of the body.
    pub body: u64,
}

/// The reason phrase of a stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A server has sent this phrase.
    Sent(Bytes),
    /// No server has answered: the response is this server's own error page for the status.
    OwnFailure,
}

/// The form of [`Reason::OwnFailure`] in a file.
const OWN_FAILURE: &[u8] = b"\0";

impl Reason {
    /// The bytes of the reason for the file.
    fn text(&self) -> &[u8] {
        match self {
            Reason::Sent(phrase) => phrase,
            Reason::OwnFailure => OWN_FAILURE,
        }
    }
}

impl Default for Reason {
    fn default() -> Reason {
        Reason::Sent(Bytes::new())
    }
}

impl From<Bytes> for Reason {
    /// The reason that these bytes of a file mean.
    fn from(text: Bytes) -> Reason {
        if *text == *OWN_FAILURE { Reason::OwnFailure } else { Reason::Sent(text) }
    }
}

impl From<&'static str> for Reason {
    fn from(phrase: &'static str) -> Reason {
        Reason::Sent(Bytes::from_static(phrase.as_bytes()))
    }
}

/// Reason why a file's head cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A greater number of bytes of the file is needed: this one.
    #[error("{0} bytes are needed")]
    Short(usize),
    /// The file is another program's, or was not written to its end.
    #[error("not a stored response")]
    Foreign,
    /// The file has another version's format.
    #[error("another version's format")]
    Version,
    /// The checksum is wrong, or the lengths do not fit.
    #[error("damaged")]
    Damaged,
    /// The file is whole, and belongs to another key.
    #[error("another key's")]
    OtherKey,
    /// The body is shorter or longer than the head says.
    #[error("the body has another length")]
    Length,
    /// The file is not the file stored under this name: another program has replaced or rewritten it.
    #[error("it was replaced or rewritten by another program")]
    Replaced,
}

/// A head that is longer than [`MAX_HEAD`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the head is too long to be stored")]
pub struct TooLong;

impl Head {
    /// The bytes that the head takes in the file.
    pub fn size(&self) -> usize {
        let names = self.vary.as_ref().map_or(0, |vary| vary.names.len());
        let fields: usize = self.fields.iter().map(|(name, value)| 8 + name.len() + value.len()).sum();
        let tags: usize = self.tags.iter().map(|tag| 4 + tag.len()).sum();
        TEXT + self.key.len() + self.reason.text().len() + names + fields + tags
    }

    /// The head's bytes for the file.
    ///
    /// # Errors
    /// The head would be longer than [`MAX_HEAD`].
    pub fn encode(&self) -> Result<Bytes, TooLong> {
        let size = self.size();
        if size > MAX_HEAD {
            return Err(TooLong);
        }
        let mut out = BytesMut::with_capacity(size);
        out.put_slice(MAGIC);
        out.put_u8(VERSION);
        // No part whose length is written here is longer than MAX_HEAD.
        let length = |n: usize| n as u32;
        out.put_u32_le(length(size));
        out.put_u32_le(0);
        out.put_u64_le(self.body);
        out.put_u64_le(self.created);
        let lifetime = &self.lifetime;
        out.put_u64_le(lifetime.fresh_until);
        out.put_u64_le(lifetime.born);
        out.put_u32_le(lifetime.stale_while_revalidate);
        out.put_u32_le(lifetime.stale_if_error);
        out.put_u16_le(self.status);
        let mut flags = 0;
        for (set, flag) in [
            (lifetime.must_revalidate, MUST_REVALIDATE),
            (lifetime.no_cache, NO_CACHE),
            (self.vary.is_some(), HAS_VARY),
        ] {
            flags |= if set { flag } else { 0 };
        }
        out.put_u8(flags);
        out.put_u8(0);
        let (names, variant) = match &self.vary {
            Some(vary) => (&vary.names[..], vary.variant.0),
            None => (&[][..], [0; 16]),
        };
        for number in [self.key.len(), self.reason.text().len(), names.len(), self.fields.len(), self.tags.len()] {
            out.put_u32_le(length(number));
        }
        out.put_slice(&variant);
        for text in [&self.key[..], self.reason.text(), names] {
            out.put_slice(text);
        }
        for (name, value) in &self.fields {
            out.put_u32_le(length(name.len()));
            out.put_u32_le(length(value.len()));
            out.put_slice(name);
            out.put_slice(value);
        }
        for tag in &self.tags {
            out.put_u32_le(length(tag.len()));
            out.put_slice(tag);
        }
        debug_assert_eq!(out.len(), size);
        let sum = crc32fast::hash(&out[PREFIX..]);
        out[12..PREFIX].copy_from_slice(&sum.to_le_bytes());
        Ok(out.freeze())
    }

    /// The head at the beginning of a file's bytes, and where the body begins. The parts share the bytes.
    ///
    /// # Errors
    /// [`Damage::Short`] asks for more bytes of the file: at first [`PREFIX`], then the whole head.
    pub fn decode(bytes: &Bytes) -> Result<(Head, usize), Damage> {
        let size = Head::size_of(bytes)?;
        if bytes.len() < size {
            return Err(Damage::Short(size));
        }
        let head = bytes.slice(..size);
        if crc32fast::hash(&head[PREFIX..]).to_le_bytes() != head[12..PREFIX] {
            return Err(Damage::Damaged);
        }
        Reader { bytes: &head, at: PREFIX }.head().ok_or(Damage::Damaged).map(|head| (head, size))
    }

    /// The length of the head at the beginning of these bytes.
    ///
    /// # Errors
    /// [`Damage::Short`] if there are not enough bytes to tell; another error if there is no head.
    pub fn size_of(bytes: &[u8]) -> Result<usize, Damage> {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(Damage::Foreign);
        }
        if bytes.get(MAGIC.len()).is_some_and(|&version| version != VERSION) {
            return Err(Damage::Version);
        }
        let Some(&[a, b, c, d]) = bytes.get(8..12) else { return Err(Damage::Short(PREFIX)) };
        match u32::from_le_bytes([a, b, c, d]) as usize {
            size @ TEXT..=MAX_HEAD => Ok(size),
            _ => Err(Damage::Damaged),
        }
    }

    /// Checks that the file is the expected one: `offset` is the place of its body, and `length` is the file's. `key`
    /// is the key under which it was found: the key of the text, or the variant's.
    ///
    /// # Errors
    /// The way in which the file differs.
    pub fn verify(&self, offset: usize, length: u64, key: Key) -> Result<(), Damage> {
        if Key::of(&self.key) != key && self.vary.as_ref().is_none_or(|vary| vary.variant != key) {
            return Err(Damage::OtherKey);
        }
        if (offset as u64).checked_add(self.body) == Some(length) { Ok(()) } else { Err(Damage::Length) }
    }

    /// The value of the first field of this name, ignoring case.
    pub fn field(&self, name: &[u8]) -> Option<&Bytes> {
        self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Reads the parts of a head, and never beyond its end.
struct Reader<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, length: usize) -> Option<Bytes> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len())?;
        let part = self.bytes.slice(self.at..end);
        self.at = end;
        Some(part)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let part = self.bytes.get(self.at..self.at + N)?.try_into().ok();
        self.at += N;
        part
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn length(&mut self) -> Option<usize> {
        self.u32().map(|length| length as usize)
    }

    fn head(mut self) -> Option<Head> {
        let (body, created) = (self.u64()?, self.u64()?);
        let (fresh_until, born) = (self.u64()?, self.u64()?);
        let (stale_while_revalidate, stale_if_error) = (self.u32()?, self.u32()?);
        let status = u16::from_le_bytes(self.array()?);
        let [flags, zero] = self.array()?;
        if flags & !(MUST_REVALIDATE | NO_CACHE | HAS_VARY) != 0 || zero != 0 {
            return None;
        }
        let (key, reason, names) = (self.length()?, self.length()?, self.length()?);
        let (fields, tags) = (self.length()?, self.length()?);
        let variant = Key(self.array()?);
        let (key, reason, names) = (self.take(key)?, self.take(reason)?, self.take(names)?);
        let vary = if flags & HAS_VARY != 0 {
            Some(Vary { names, variant })
        } else if names.is_empty() && variant == Key([0; 16]) {
            None
        } else {
            return None;
        };
        let lifetime = Lifetime {
            fresh_until,
            born,
            stale_while_revalidate,
            stale_if_error,
            must_revalidate: flags & MUST_REVALIDATE != 0,
            no_cache: flags & NO_CACHE != 0,
        };
        // A field takes eight bytes at least, and a tag four, so the numbers cannot ask for more memory than the head has.
        let left = self.bytes.len() - self.at;
        if fields > left / 8 || tags > left / 4 {
            return None;
        }
        let mut head = Head {
            key,
            status,
            reason: reason.into(),
            created,
            lifetime,
            vary,
            body,
            fields: Vec::with_capacity(fields),
            tags: Vec::with_capacity(tags),
        };
        for _ in 0..fields {
            let (name, value) = (self.length()?, self.length()?);
            head.fields.push((self.take(name)?, self.take(value)?));
        }
        for _ in 0..tags {
            let length = self.length()?;
            head.tags.push(self.take(length)?);
        }
        (self.at == self.bytes.len()).then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Bytes> {
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from)
    }

    fn head() -> impl Strategy<Value = Head> {
        let vary = (text(), any::<[u8; 16]>()).prop_map(|(names, variant)| Vary { names, variant: Key(variant) });
        let lifetime =
            (any::<[u64; 2]>(), any::<[u32; 2]>(), any::<[bool; 2]>()).prop_map(|(times, stale, flags)| Lifetime {
                fresh_until: times[0],
                born: times[1],
                stale_while_revalidate: stale[0],
                stale_if_error: stale[1],
                must_revalidate: flags[0],
                no_cache: flags[1],
            });
        let fields = proptest::collection::vec((text(), text()), 0..5);
        let tags = proptest::collection::vec(text(), 0..4);
        (text(), any::<(u16, u64, u64)>(), text(), fields, lifetime, proptest::option::of(vary), tags).prop_map(
            |(key, (status, created, body), reason, fields, lifetime, vary, tags)| Head {
                key,
                status,
                reason: reason.into(),
                fields,
                created,
                lifetime,
                vary,
                tags,
                body,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(head in head(), behind in text()) {
            let bytes = head.encode().expect("short");
            prop_assert_eq!(bytes.len(), head.size());
            let mut file = bytes.to_vec();
            file.extend_from_slice(&behind);
            let file = Bytes::from(file);
            prop_assert_eq!(Head::decode(&file), Ok((head.clone(), bytes.len())));
            // The length of the body does not change the size.
            prop_assert_eq!(Head { body: 7, ..head }.encode().expect("short").len(), bytes.len());
        }

        #[test]
        fn a_part_asks_for_more(head in head(), part in 0.0..1.0f64) {
            let bytes = head.encode().expect("short");
            let part = bytes.slice(..(bytes.len() as f64 * part) as usize);
            let needed = if part.len() < 12 { PREFIX } else { bytes.len() };
            prop_assert_eq!(Head::decode(&part), Err(Damage::Short(needed)));
        }

        #[test]
        fn a_changed_byte_is_seen(head in head(), at in any::<prop::sample::Index>(), change in 1u8..) {
            let mut bytes = head.encode().expect("short").to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            let expected = match at {
                0..7 => Damage::Foreign,
                7 => Damage::Version,
                _ => Damage::Damaged,
            };
            match Head::decode(&Bytes::from(bytes)) {
                Err(Damage::Short(_)) if (8..12).contains(&at) => {}
                other => prop_assert_eq!(other, Err(expected)),
            }
        }

        #[test]
        fn garbage_with_a_right_checksum_does_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), TEXT..300)) {
            let size = (bytes.len() as u32).to_le_bytes();
            bytes[..8].copy_from_slice(b"frcache1");
            bytes[8..12].copy_from_slice(&size);
            for at in [58, 59, 63, 62, 67, 66, 71, 70, 75, 74, 79, 78] {
                bytes[at] &= if at == 58 { 7 } else { 0 };
            }
            let sum = crc32fast::hash(&bytes[PREFIX..]).to_le_bytes();
            bytes[12..PREFIX].copy_from_slice(&sum);
            let bytes = Bytes::from(bytes);
            if let Ok((head, _)) = Head::decode(&bytes) {
                prop_assert_eq!(head.encode().expect("short"), bytes);
            }
        }
    }

    #[test]
    fn an_answer_of_this_server_stays_one() {
        let head = Head { key: "text".into(), status: 502, reason: Reason::OwnFailure, ..Head::default() };
        let (read, _) = Head::decode(&head.encode().expect("short")).expect("whole");
        assert_eq!(read, head);
        let sent = Head { reason: "".into(), ..head };
        assert_eq!(
            Head::decode(&sent.encode().expect("short")).map(|(head, _)| head.reason),
            Ok(Reason::Sent(Bytes::new()))
        );
    }

    #[test]
    fn other_files_are_foreign() {
        assert_eq!(Head::decode(&Bytes::new()), Err(Damage::Short(PREFIX)));
        assert_eq!(Head::decode(&Bytes::from_static(b"frc")), Err(Damage::Short(PREFIX)));
        // nginx's files begin with a number.
        assert_eq!(Head::decode(&Bytes::from_static(b"\x05\0\0\0\0\0\0\0")), Err(Damage::Foreign));
        assert_eq!(Head::decode(&Bytes::from_static(b"frcache2")), Err(Damage::Version));
        assert_eq!(Head::decode(&Bytes::from_static(b"frcache1\xff\xff\xff\xff")), Err(Damage::Damaged));
        assert_eq!(Head::decode(&Bytes::from_static(b"frcache1\0\0\0\0")), Err(Damage::Damaged));
    }

    #[test]
    fn files_are_verified() {
        let variant = Key::of(b"variant");
        let vary = Some(Vary { names: Bytes::from("a"), variant });
        let head = Head { key: Bytes::from("text"), body: 10, vary, ..Head::default() };
        assert_eq!(head.verify(100, 110, Key::of(b"text")), Ok(()));
        assert_eq!(head.verify(100, 110, variant), Ok(()));
        assert_eq!(head.verify(100, 110, Key::of(b"other")), Err(Damage::OtherKey));
        assert_eq!(head.verify(100, 109, variant), Err(Damage::Length));
        assert_eq!(Head { body: u64::MAX, ..head }.verify(100, 99, variant), Err(Damage::Length));
        let long = Head { key: Bytes::from(vec![b'a'; MAX_HEAD]), ..Head::default() };
        assert_eq!(long.encode(), Err(TooLong));
    }
}
