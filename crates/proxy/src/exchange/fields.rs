//! The fields of an upstream server's head. Most of them are looked at, and not passed on, so parsed fields stay as
//! offsets into the head's text until one is kept.

use std::cell::RefCell;

use bytes::Bytes;
use freerun_http::request::response::Field;
use freerun_proto::HeaderId;
use freerun_proto::response::ResponseField;

/// The fields, in the order they came, including those about the connection.
#[derive(Debug, Clone)]
pub enum HeadFields {
    /// Offsets into the text that the fields were parsed from.
    Parsed(Bytes, Places),
    /// Fields that were kept, or made.
    Made(Vec<Field>),
}

impl Default for HeadFields {
    fn default() -> Self {
        HeadFields::Made(Vec::new())
    }
}

/// The offsets of fields. Their memory is used again by another head.
#[derive(Debug, Clone)]
pub struct Places(Vec<ResponseField>);

/// The number of unused lists of offsets that a loop keeps, and the largest capacity of such a list.
const SPARE: (usize, usize) = (16, 64);

thread_local! {
    static SPARES: RefCell<Vec<Vec<ResponseField>>> = const { RefCell::new(Vec::new()) };
}

impl Places {
    /// A list of these offsets.
    pub fn new(places: Vec<ResponseField>) -> Places {
        Places(places)
    }

    /// An unused list, which is empty.
    pub fn spare() -> Vec<ResponseField> {
        let mut places = SPARES.with_borrow_mut(Vec::pop).unwrap_or_default();
        places.clear();
        places
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        if (1..=SPARE.1).contains(&self.0.capacity()) {
            let places = std::mem::take(&mut self.0);
            // At the end of a thread the spare list may be gone.
            let _ = SPARES.try_with(|spares| {
                let mut spares = spares.borrow_mut();
                if spares.len() < SPARE.0 {
                    spares.push(places);
                }
            });
        }
    }
}

/// A field of a head.
#[derive(Debug, Clone, Copy)]
pub struct HeadField<'h> {
    /// The identifier of the name.
    pub id: HeaderId,
    from: From<'h>,
}

/// The source of a field; a field that is kept shares this memory.
#[derive(Debug, Clone, Copy)]
enum From<'h> {
    /// The field is in the head's text.
    Text(&'h Bytes, &'h ResponseField),
    /// The field was made.
    Field(&'h Field),
}

impl<'h> HeadField<'h> {
    /// The name as sent.
    #[inline]
    pub fn name(&self) -> &'h [u8] {
        match self.from {
            From::Text(text, place) => place.name.of(text),
            From::Field((name, _)) => name,
        }
    }

    /// The value without surrounding spaces.
    #[inline]
    pub fn value(&self) -> &'h [u8] {
        match self.from {
            From::Text(text, place) => place.value.of(text),
            From::Field((_, value)) => value,
        }
    }

    /// The name as a value that can be kept.
    #[inline]
    pub fn keep_name(&self) -> Bytes {
        match self.from {
            // A name with the usual spelling needs no share of the text.
            From::Text(_, place) if place.usual => Bytes::from_static(self.id.name().as_bytes()),
            From::Text(text, place) => text.slice(place.name.range()),
            From::Field((name, _)) => name.clone(),
        }
    }

    /// The value as a value that can be kept.
    pub fn keep_value(&self) -> Bytes {
        match self.from {
            From::Text(text, place) => match usual_value(self.id, self.value()) {
                Some(usual) => Bytes::from_static(usual),
                None => text.slice(place.value.range()),
            },
            From::Field((_, value)) => value.clone(),
        }
    }

    /// The name and the value as values that can be kept.
    pub fn keep(&self) -> Field {
        (self.keep_name(), self.keep_value())
    }
}

/// The static copy of the value, if most fields of this name have it: keeping the copy takes no share of a buffer, and
/// no reference count.
fn usual_value(id: HeaderId, value: &[u8]) -> Option<&'static [u8]> {
    /// The value from this list, if it is in it.
    macro_rules! among {
        ($($text:literal)*) => {
            match value {
                $($text => Some($text),)*
                _ => None,
            }
        };
    }
    match id {
        HeaderId::ContentType => usual_type(value),
        HeaderId::AcceptRanges => among!(b"bytes" b"none"),
        HeaderId::ContentEncoding => among!(b"gzip" b"br" b"zstd" b"deflate"),
        HeaderId::CacheControl => among!(b"no-cache" b"no-store" b"private" b"public"),
        _ => None,
    }
}

/// The static copy of the media type, if most responses have that type.
pub fn usual_type(text: &[u8]) -> Option<&'static [u8]> {
    macro_rules! among {
        ($($text:literal)*) => {
            match text {
                $($text => Some($text),)*
                _ => None,
            }
        };
    }
    among!(
        b"text/html" b"text/plain" b"text/css" b"text/javascript" b"text/xml" b"text/html; charset=utf-8"
        b"text/html; charset=UTF-8" b"application/json" b"application/javascript" b"application/xml"
        b"application/octet-stream" b"application/json; charset=utf-8" b"image/png" b"image/jpeg" b"image/gif"
        b"image/webp" b"image/avif" b"image/svg+xml" b"font/woff2"
    )
}

impl HeadFields {
    #[inline]
    fn at(&self, index: usize) -> Option<HeadField<'_>> {
        match self {
            HeadFields::Parsed(text, places) => {
                places.0.get(index).map(|place| HeadField { id: place.id, from: From::Text(text, place) })
            }
            HeadFields::Made(fields) => {
                fields.get(index).map(|field| HeadField { id: HeaderId::of(&field.0), from: From::Field(field) })
            }
        }
    }

    /// All fields.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = HeadField<'_>> {
        (0..).map_while(|index| self.at(index))
    }

    /// The values of all fields with this name, ignoring case.
    pub fn values(&self, name: &[u8]) -> impl Iterator<Item = Bytes> {
        self.iter().filter(move |field| field.name().eq_ignore_ascii_case(name)).map(|field| field.keep_value())
    }

    /// Whether there is a field with this name, in any case, which is none of the known names.
    pub fn has_other(&self, name: &[u8]) -> bool {
        self.iter().any(|field| field.id == HeaderId::Other && field.name().eq_ignore_ascii_case(name))
    }

    /// All fields as values that can be kept.
    pub fn to_list(&self) -> Vec<Field> {
        self.iter().map(|field| field.keep()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freerun_proto::response::{HeadKind, ResponseParser};

    #[test]
    fn a_list_that_is_used_again_has_nothing_of_before() {
        let text = Bytes::from_static(b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\n\r\n");
        let head = ResponseParser::new(HeadKind::Http, 4096).advance(&text).unwrap().unwrap();
        drop(Places::new(head.fields));
        let spare = Places::spare();
        assert!(spare.is_empty() && spare.capacity() > 0);
    }

    #[test]
    fn parsed_and_made_fields_are_the_same() {
        let text = Bytes::from_static(b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\netag: b\r\nX-Other:\r\n\r\n");
        let head = ResponseParser::new(HeadKind::Http, 4096).advance(&text).unwrap().unwrap();
        let parsed = HeadFields::Parsed(text, Places::new(head.fields));
        let made = HeadFields::Made(parsed.to_list());
        let shown = |fields: &HeadFields| -> Vec<_> {
            fields.iter().map(|field| (field.id, field.keep(), field.name().to_vec(), field.value().to_vec())).collect()
        };
        let field = |id, name: &'static str, value: &'static str| {
            (id, (name.into(), value.into()), name.as_bytes().to_vec(), value.as_bytes().to_vec())
        };
        let expected = [
            field(HeaderId::Etag, "ETag", "\"a\""),
            field(HeaderId::Etag, "etag", "b"),
            field(HeaderId::Other, "X-Other", ""),
        ];
        assert_eq!(shown(&parsed), expected);
        assert_eq!(shown(&made), expected);
        assert_eq!(parsed.values(b"Etag").next(), Some("\"a\"".into()));
        assert_eq!(made.values(b"x-other").next(), Some(Bytes::new()));
        assert_eq!(made.values(b"Tag").next(), None);
    }
}
