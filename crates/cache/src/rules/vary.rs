//! Responses that differ by fields of the request: RFC 9111 section 4.1, as nginx does it.
//!
//! The first response of a key is stored under the key itself, together with the names of its `Vary` and the variant that it
//! is for. A request of another variant is looked for under the variant's own key.

use bytes::{Bytes, BytesMut};
use md5::{Digest, Md5};

use super::headers::{Field, members, values};
use crate::key::Key;

/// The variant that a stored response is for, among the variants of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vary {
    /// The names of the selecting fields: lower case, a comma between them.
    pub names: Bytes,
    /// The variant: [`Vary::new`].
    pub variant: Key,
}

/// Fields whose members stand between commas and spaces, so that requests that differ in how many of them there are get
/// the same response. nginx treats these fields so; others may have another syntax.
const LISTS: [&[u8]; 3] = [b"accept-charset", b"accept-encoding", b"accept-language"];

impl Vary {
    /// The variant of a request. `main` is the key without `Vary`. `look` calls its second argument with every value
    /// that the request has of the field of that name (lower case).
    pub fn new(names: Bytes, main: Key, mut look: impl FnMut(&[u8], &mut dyn FnMut(&[u8]))) -> Vary {
        let mut sum = Md5::new_with_prefix(main.0);
        for name in members(&names) {
            sum.update(name);
            sum.update(b":");
            let list = LISTS.contains(&name);
            let mut first = true;
            let mut add = |part: &[u8]| {
                if !std::mem::take(&mut first) {
                    sum.update(b",");
                }
                sum.update(part);
            };
            look(name, &mut |value| {
                if list {
                    value.split(|b| matches!(b, b',' | b' ')).filter(|part| !part.is_empty()).for_each(&mut add)
                } else {
                    add(value)
                }
            });
            // A field's value contains no line end, so one value cannot be mistaken for two.
            sum.update(b"\r\n");
        }
        Vary { names, variant: Key(sum.finalize().into()) }
    }
}

/// The names of all `Vary` fields, lower case, a comma between them; `None` if there are none.
///
/// # Errors
/// One of the names is `*`, or the values have more than `max` bytes together.
pub(super) fn names(fields: &[Field], max: usize) -> Result<Option<Bytes>, ()> {
    let mut names = BytesMut::new();
    let mut length = 0;
    for value in values(fields, b"vary") {
        // nginx counts the text that it makes of several fields, with ", " between them.
        length += value.len() + if length > 0 { 2 } else { 0 };
        if length > max {
            return Err(());
        }
        // White space is not part of a name, and separates two names for nginx.
        let words = members(value).flat_map(|member| member.split(u8::is_ascii_whitespace));
        for name in words.filter(|word| !word.is_empty()) {
            if name == b"*" {
                return Err(());
            }
            if !names.is_empty() {
                names.extend_from_slice(b",");
            }
            names.extend(name.iter().map(u8::to_ascii_lowercase));
        }
    }
    Ok((!names.is_empty()).then(|| names.freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &'static str, value: &'static str) -> Field {
        (Bytes::from(name), Bytes::from(value))
    }

    fn variant(names: &'static str, request: &[(&str, &str)]) -> Key {
        let look = |name: &[u8], found: &mut dyn FnMut(&[u8])| {
            let matching = request.iter().filter(|(field, _)| field.as_bytes() == name);
            matching.for_each(|(_, value)| found(value.as_bytes()));
        };
        Vary::new(Bytes::from(names), Key::of(b"main"), look).variant
    }

    #[test]
    fn names_of_all_fields_count() {
        let of =
            |fields: &[Field]| names(fields, 128).map(|names| names.map(|n| String::from_utf8_lossy(&n).into_owned()));
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[field("Vary", "")]), Ok(None));
        assert_eq!(of(&[field("Vary", ", Foo ,,")]), Ok(Some("foo".into())));
        assert_eq!(of(&[field("Vary", "Foo, BAR"), field("vary", "x")]), Ok(Some("foo,bar,x".into())));
        assert_eq!(of(&[field("Vary", "Foo  Bar ,x")]), Ok(Some("foo,bar,x".into())));
        for star in ["*", " *", ", *", "Foo, *", "*, Foo"] {
            assert_eq!(of(&[field("Vary", star)]), Err(()), "{star}");
        }
        assert_eq!(of(&[field("Vary", "a"), field("Vary", "*")]), Err(()));
        let long = |n: usize| [(Bytes::from("Vary"), Bytes::from("a".repeat(n)))];
        assert!(of(&long(128)).is_ok() && of(&long(129)).is_err());
    }

    #[test]
    fn variants_are_those_that_nginx_tells_apart() {
        let same = |names, a: &[(&str, &str)], b: &[(&str, &str)]| variant(names, a) == variant(names, b);
        assert!(same("foo", &[("foo", "a")], &[("foo", "a"), ("bar", "b")]));
        assert!(same("foo", &[], &[("foo", "")]));
        assert!(same("foo", &[("foo", "a"), ("foo", "b")], &[("foo", "a,b")]));
        assert!(!same("foo", &[("foo", "a, b")], &[("foo", "a,b")]));
        assert!(!same("foo", &[("foo", "a")], &[("foo", "A")]));
        assert!(!same("foo,bar", &[("foo", "a"), ("bar", "b")], &[("foo", "b"), ("bar", "a")]));
        assert!(!same("foo,bar", &[("foo", "a")], &[("bar", "a")]));
        let lists = [("accept-encoding", "gzip, br"), ("accept-encoding", "gzip ,,br,")];
        assert!(same("accept-encoding", &lists[..1], &lists[1..]));
        assert!(!same("accept-encoding", &lists[..1], &[("accept-encoding", "br,gzip")]));
        assert!(same("accept-encoding", &lists[..1], &[("accept-encoding", "gzip br")]));
        assert!(!same("accept", &[("accept", "a, b")], &[("accept", "a,b")]));
        assert_ne!(
            Vary::new(Bytes::from("foo"), Key::of(b"1"), |_, _| {}).variant,
            Vary::new(Bytes::from("foo"), Key::of(b"2"), |_, _| {}).variant
        );
    }
}
