//! Recodes bodies.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use freerun_http::content::pull::Transform;
use freerun_http::request::response::{BodySource, LocalBoxFuture, SourceError};

/// Recodes single bytes to single bytes; the length is not changed.
pub struct RecodedBody {
    source: Box<dyn BodySource>,
    table: Arc<[u8; 256]>,
}

impl RecodedBody {
    /// Recodes `source` byte by byte with `table`.
    pub fn new(source: Box<dyn BodySource>, table: Arc<[u8; 256]>) -> RecodedBody {
        RecodedBody { source, table }
    }
}

impl BodySource for RecodedBody {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            let Some(piece) = self.source.next().await? else { return Ok(None) };
            let mut piece = piece.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&*shared));
            for byte in piece.iter_mut() {
                *byte = self.table[usize::from(*byte)];
            }
            Ok(Some(piece.freeze()))
        })
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        self.source.ahead()
    }

    fn is_urgent(&self) -> bool {
        self.source.is_urgent()
    }

    fn remaining(&self) -> Option<u64> {
        self.source.remaining()
    }
}

/// Recodes single bytes to UTF-8.
pub struct ToUtf8(pub Arc<[Box<[u8]>; 256]>);

impl Transform for ToUtf8 {
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        for byte in piece {
            out.extend_from_slice(&self.0[usize::from(*byte)]);
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }
}

/// Recodes UTF-8 to single bytes. Characters that are not in the table become character references, invalid bytes
/// become question marks; an incomplete character at the end is dropped.
pub struct FromUtf8 {
    table: Arc<HashMap<char, u8>>,
    /// The beginning of a character.
    begun: Vec<u8>,
}

impl FromUtf8 {
    /// A transform with this table.
    pub fn new(table: Arc<HashMap<char, u8>>) -> FromUtf8 {
        FromUtf8 { table, begun: Vec::new() }
    }

    fn valid(&self, text: &str, out: &mut Vec<u8>) {
        for character in text.chars() {
            match (u8::try_from(character), self.table.get(&character)) {
                (Ok(ascii @ 0..=0x7f), _) => out.push(ascii),
                (_, Some(byte)) => out.push(*byte),
                // Writing to memory cannot fail.
                (_, None) => drop(write!(out, "&#{};", u32::from(character))),
            }
        }
    }

    /// Recodes the complete characters, and returns how many bytes at the end are the beginning of a character.
    fn take(&self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let mut rest = bytes;
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.valid(text, out);
                    return 0;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    // It was found valid just now.
                    self.valid(std::str::from_utf8(valid).unwrap_or_default(), out);
                    match error.error_len() {
                        None => return after.len(),
                        Some(wrong) => {
                            out.resize(out.len() + wrong, b'?');
                            rest = &after[wrong..];
                        }
                    }
                }
            }
        }
    }
}

impl Transform for FromUtf8 {
    fn feed(&mut self, mut piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        while let Some((first, rest)) = piece.split_first().filter(|_| !self.begun.is_empty()) {
            // At most three times: then the character is complete, or invalid.
            self.begun.push(*first);
            piece = rest;
            let begun = std::mem::take(&mut self.begun);
            let left = self.take(&begun, out);
            self.begun.extend_from_slice(&begun[begun.len() - left..]);
        }
        let left = self.take(piece, out);
        self.begun.extend_from_slice(&piece[piece.len() - left..]);
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recoded(pieces: &[&[u8]]) -> Vec<u8> {
        let mut recoder = FromUtf8::new(Arc::new(HashMap::from([('п', 0xd0), ('€', 0x80)])));
        let mut out = Vec::new();
        for piece in pieces {
            recoder.feed(piece, &mut out).unwrap();
        }
        recoder.end(&mut out).unwrap();
        out
    }

    #[test]
    fn characters_are_recoded_wherever_pieces_end() {
        let text = "aп€é😀!".as_bytes();
        let whole = recoded(&[text]);
        assert_eq!(whole, b"a\xd0\x80&#233;&#128512;!");
        for at in 0..text.len() {
            for second in at..text.len() {
                assert_eq!(recoded(&[&text[..at], &text[at..second], &text[second..]]), whole, "{at} {second}");
            }
        }
    }

    #[test]
    fn what_is_no_utf8_is_marked_and_a_cut_character_is_dropped() {
        for (bytes, want) in [
            (&b"a\x80b"[..], &b"a?b"[..]),
            (b"\xff\xfe", b"??"),
            (b"\xc0\x80", b"??"),
            (b"\xc3A", b"?A"),
            (b"\xe2\x82A", b"??A"),
            (b"\xed\xa0\x80", b"???"),
            (b"x\xe2\x82", b"x"),
            (b"x\xf0", b"x"),
        ] {
            assert_eq!(recoded(&[bytes]), want, "{bytes:x?}");
            let singly: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(recoded(&singly), want, "{bytes:x?}");
        }
    }
}
