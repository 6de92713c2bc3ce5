//! `charset_map`: conversion tables between character sets.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Setting, Shape};
use freerun_http::content::charsets::CharsetNames;
use freerun_http::content::pull::TransformedBody;
use freerun_http::request::response::BodySource;

use super::recode::{FromUtf8, RecodedBody, ToUtf8};

/// The replacement of a byte or character that a character set lacks.
const UNKNOWN: u8 = b'?';

/// A map, for both directions.
#[derive(Debug)]
struct CharsetMap {
    one: Bytes,
    other: Bytes,
    tables: Tables,
}

#[derive(Debug)]
enum Tables {
    /// The tables between two single-byte sets.
    Bytes { there: Arc<[u8; 256]>, back: Arc<[u8; 256]> },
    /// The tables from a single-byte set to UTF-8 and back.
    Utf8 { there: Arc<[Box<[u8]>; 256]>, back: Arc<HashMap<char, u8>> },
}

/// All maps of a configuration.
#[derive(Debug, Clone, Default)]
pub struct CharsetMaps(Arc<Vec<Arc<CharsetMap>>>);

/// A conversion from one character set to another.
pub enum Direction {
    /// From single bytes to single bytes.
    Bytes(Arc<[u8; 256]>),
    /// From single bytes to UTF-8.
    ToUtf8(Arc<[Box<[u8]>; 256]>),
    /// From UTF-8 to single bytes.
    FromUtf8(Arc<HashMap<char, u8>>),
}

impl Direction {
    /// Whether a body may have another length afterwards.
    pub fn changes_length(&self) -> bool {
        !matches!(self, Direction::Bytes(_))
    }

    /// Recodes `body`.
    pub fn recode(self, body: Box<dyn BodySource>) -> Box<dyn BodySource> {
        match self {
            Direction::Bytes(table) => Box::new(RecodedBody::new(body, table)),
            Direction::ToUtf8(table) => Box::new(TransformedBody::new(body, ToUtf8(table))),
            Direction::FromUtf8(table) => Box::new(TransformedBody::new(body, FromUtf8::new(table))),
        }
    }
}

impl CharsetMaps {
    /// Whether there is no map.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds the conversion from one character set to another.
    pub fn find(&self, source: &[u8], target: &[u8]) -> Option<Direction> {
        for map in self.0.iter() {
            let forth = map.one.eq_ignore_ascii_case(source) && map.other.eq_ignore_ascii_case(target);
            let back = map.other.eq_ignore_ascii_case(source) && map.one.eq_ignore_ascii_case(target);
            match &map.tables {
                Tables::Bytes { there, .. } if forth => return Some(Direction::Bytes(there.clone())),
                Tables::Bytes { back: table, .. } if back => return Some(Direction::Bytes(table.clone())),
                Tables::Utf8 { there, .. } if forth => return Some(Direction::ToUtf8(there.clone())),
                Tables::Utf8 { back: table, .. } if back => return Some(Direction::FromUtf8(table.clone())),
                _ => {}
            }
        }
        None
    }
}

impl Setting for CharsetMaps {
    const SHAPE: Shape = Shape::exactly(2, "charset1 charset2 { byte byte; … }").with_raw_block();

    fn set(previous: Option<CharsetMaps>, directive: &Node, cx: &mut Cx) -> Result<CharsetMaps, Problem> {
        let mut maps = previous.unwrap_or_default();
        let [one, other] = directive.args.as_slice() else { return Err(Problem::wrong_count(directive)) };
        let between = || format!("\"{}\" and \"{}\"", one.text, other.text);
        if one.text.eq_ignore_ascii_case(&other.text) {
            let message = format!("\"charset_map\" between the same charsets {}", between());
            return Err(Problem::new(message).reported_at(one.place));
        }
        if maps.find(one.text.as_bytes(), other.text.as_bytes()).is_some() {
            let message = format!("duplicate \"charset_map\" between {}", between());
            return Err(Problem::new(message).reported_at(one.place));
        }
        let names = cx.extensions.get_or_default::<CharsetNames>();
        let (one, other) = (names.spelling(&one.text), names.spelling(&other.text));
        let tables = if other.eq_ignore_ascii_case(b"utf-8") { utf8(directive)? } else { bytes(directive)? };
        Arc::make_mut(&mut maps.0).push(Arc::new(CharsetMap { one, other, tables }));
        Ok(maps)
    }
}

/// The two words of an entry.
fn entry(line: &Node) -> Result<(&str, &str), Problem> {
    match line.args.as_slice() {
        [value] => Ok((&line.name.text, &value.text)),
        _ => Err(Problem::new("invalid parameters number").at_node(line)),
    }
}

fn invalid(line: &Node, text: &str) -> Problem {
    Problem::new(format!("invalid value \"{text}\"")).at_node(line)
}

fn byte(line: &Node, text: &str) -> Result<u8, Problem> {
    let digits = text.len() <= 2 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(text, 16).ok().filter(|_| digits).ok_or_else(|| invalid(line, text))
}

fn bytes(directive: &Node) -> Result<Tables, Problem> {
    let same = std::array::from_fn(|index| u8::try_from(index).ok().filter(u8::is_ascii).unwrap_or(UNKNOWN));
    let (mut there, mut back): ([u8; 256], [u8; 256]) = (same, same);
    for line in directive.children() {
        let (one, other) = entry(line)?;
        let (one, other) = (byte(line, one)?, byte(line, other)?);
        there[usize::from(one)] = other;
        back[usize::from(other)] = one;
    }
    Ok(Tables::Bytes { there: Arc::new(there), back: Arc::new(back) })
}

fn utf8(directive: &Node) -> Result<Tables, Problem> {
    let mut there: [Box<[u8]>; 256] = std::array::from_fn(|index| match u8::try_from(index) {
        Ok(byte @ 0..=0x7f) => [byte].into(),
        _ => [UNKNOWN].into(),
    });
    let mut back = HashMap::new();
    for line in directive.children() {
        let (one, text) = entry(line)?;
        let one = byte(line, one)?;
        let other = hex(text).ok_or_else(|| invalid(line, text))?;
        // Bytes after the character are part of the replacement of the byte.
        let chunk = other.utf8_chunks().next();
        let first = chunk.and_then(|chunk| chunk.valid().chars().next()).filter(|first| !first.is_ascii());
        back.insert(first.ok_or_else(|| invalid(line, text))?, one);
        there[usize::from(one)] = other.into();
    }
    Ok(Tables::Utf8 { there: Arc::new(there), back: Arc::new(back) })
}

/// The longest text that one byte may become.
const MAX_UTF8: usize = 8;

fn hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2)
        || text.len() > 2 * MAX_UTF8
        || !text.bytes().all(|digit| digit.is_ascii_hexdigit())
    {
        return None;
    }
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
