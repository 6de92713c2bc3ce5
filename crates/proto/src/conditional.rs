//! Entity tags and conditional requests: RFC 9110 section 13, as nginx evaluates them.

use crate::date::parse_http_date;

/// The longest entity tag: two quotes, 16 hexadecimal digits for the time, a dash, 16 for the size.
const LONGEST: usize = 36;

/// An entity tag without an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ETag {
    bytes: [u8; LONGEST],
    len: u8,
}

impl ETag {
    /// The tag with its quotes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The tag with its quotes.
    pub fn as_str(&self) -> &str {
        // Quotes, digits and a dash are ASCII.
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    fn push(&mut self, b: u8) {
        self.bytes[usize::from(self.len)] = b;
        self.len += 1;
    }

    fn push_hex(&mut self, n: u64) {
        let digits = (64 - n.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let nibble = (n >> (digit * 4)) as u8 & 15;
            self.push(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
        }
    }
}

impl std::fmt::Debug for ETag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// nginx's tag of a file: seconds of its modification and its size, in hexadecimal.
pub fn etag(mtime: i64, size: u64) -> ETag {
    let mut tag = ETag { bytes: [0; LONGEST], len: 0 };
    tag.push(b'"');
    if mtime < 0 {
        tag.push(b'-');
    }
    tag.push_hex(mtime.unsigned_abs());
    tag.push(b'-');
    tag.push_hex(size);
    tag.push(b'"');
    tag
}

/// Comparison of `If-Modified-Since`: the directive `if_modified_since`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModifiedSinceMode {
    /// `off`: the answer always counts as modified.
    Off,
    /// `exact`: unmodified only at the very second.
    Exact,
    /// `before`: unmodified if not later than the field's time.
    Before,
}

/// The condition fields of a request, as sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Conditions<'a> {
    /// The value of the field `If-Match`.
    pub if_match: Option<&'a [u8]>,
    /// The value of the field `If-None-Match`.
    pub if_none_match: Option<&'a [u8]>,
    /// The value of the field `If-Modified-Since`.
    pub if_modified_since: Option<&'a [u8]>,
    /// The value of the field `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a [u8]>,
}

/// The effect of the conditions on a 200.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Answer as if there were no conditions.
    Proceed,
    /// Answer 304.
    NotModified,
    /// Answer 412.
    PreconditionFailed,
}

impl Conditions<'_> {
    /// Whether there is no condition at all.
    pub fn is_empty(&self) -> bool {
        *self == Conditions::default()
    }

    /// The conditions that count by RFC 9110 section 13.2.2: if there is an entity tag, the date beside it is ignored.
    pub fn by_precedence(mut self) -> Self {
        if self.if_match.is_some() {
            self.if_unmodified_since = None;
        }
        if self.if_none_match.is_some() {
            self.if_modified_since = None;
        }
        self
    }

    /// Evaluates the conditions for an answer with this entity tag and modification time (seconds since the epoch).
    ///
    /// As in nginx, and unlike RFC 9110, `If-Unmodified-Since` counts beside `If-Match`, and `If-Modified-Since` beside
    /// `If-None-Match` (both must call the answer unmodified). A date that cannot be read fails `If-Unmodified-Since`,
    /// as does an answer without a modification time.
    pub fn evaluate(&self, etag: Option<&[u8]>, last_modified: Option<i64>, mode: ModifiedSinceMode) -> Verdict {
        if let Some(text) = self.if_unmodified_since
            && last_modified.is_none_or(|modified| parse_http_date(text).is_none_or(|date| date < modified))
        {
            return Verdict::PreconditionFailed;
        }
        if let Some(list) = self.if_match
            && !matches(list, etag, false)
        {
            return Verdict::PreconditionFailed;
        }
        if self.if_modified_since.is_none() && self.if_none_match.is_none() {
            return Verdict::Proceed;
        }
        if let Some(text) = self.if_modified_since
            && !unmodified(text, last_modified, mode)
        {
            return Verdict::Proceed;
        }
        if let Some(list) = self.if_none_match
            && !matches(list, etag, true)
        {
            return Verdict::Proceed;
        }
        Verdict::NotModified
    }
}

/// Whether the answer is unmodified by `If-Modified-Since`.
fn unmodified(text: &[u8], last_modified: Option<i64>, mode: ModifiedSinceMode) -> bool {
    let (Some(modified), Some(date)) = (last_modified, parse_http_date(text)) else { return false };
    match mode {
        ModifiedSinceMode::Off => false,
        ModifiedSinceMode::Exact => date == modified,
        ModifiedSinceMode::Before => date >= modified,
    }
}

/// Whether a list of entity tags, or `*`, contains `etag`. With `weak`, `W/` on either side is ignored (RFC 9110
/// section 8.8.3.2); without it a weak tag never matches. The list ends at the first syntax error.
pub fn matches(list: &[u8], etag: Option<&[u8]>, weak: bool) -> bool {
    if list == b"*" {
        return true;
    }
    let Some(etag) = etag else { return false };
    let own = etag.strip_prefix(b"W/");
    if own.is_some() && !weak {
        return false;
    }
    let etag = own.unwrap_or(etag);
    let mut rest = list;
    loop {
        while let [b' ' | b'\t' | b',', tail @ ..] = rest {
            rest = tail;
        }
        let theirs = rest.strip_prefix(b"W/");
        let tag = theirs.unwrap_or(rest);
        let Some(close) = tag.strip_prefix(b"\"").and_then(|inner| memchr::memchr(b'"', inner)) else { return false };
        let (tag, tail) = tag.split_at(close + 2);
        let tail = tail.trim_ascii_start();
        if !tail.is_empty() && tail[0] != b',' {
            return false;
        }
        if tag == etag && (weak || theirs.is_none()) {
            return true;
        }
        rest = tail;
    }
}

/// Whether `If-Range` allows the ranges of the request: its entity tag is the answer's, both strong, or its date is
/// exactly the modification time.
pub fn if_range(value: &[u8], etag: Option<&[u8]>, last_modified: Option<i64>) -> bool {
    if value.ends_with(b"\"") {
        return value.starts_with(b"\"") && etag == Some(value);
    }
    last_modified.is_some() && parse_http_date(value) == last_modified
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TAG: &str = "\"6553f100-a\"";
    const TIME: i64 = 1_700_000_000;
    const AT: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
    const OLD: &str = "Tue, 14 Nov 2023 22:13:19 GMT";
    const NEW: &str = "Tue, 14 Nov 2023 22:13:21 GMT";

    #[test]
    fn tags() {
        assert_eq!(etag(TIME, 10).as_str(), TAG);
        assert_eq!(etag(0, 0).as_str(), "\"0-0\"");
        assert_eq!(etag(-3600, 2).as_str(), "\"-e10-2\"");
        assert_eq!(etag(i64::MIN, u64::MAX).as_str(), "\"-8000000000000000-ffffffffffffffff\"");
    }

    fn verdict(fields: &[(&str, &str)], etag: Option<&str>, mode: ModifiedSinceMode) -> Verdict {
        let get = |name: &str| fields.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_bytes());
        let conditions = Conditions {
            if_match: get("im"),
            if_none_match: get("inm"),
            if_modified_since: get("ims"),
            if_unmodified_since: get("ius"),
        };
        conditions.evaluate(etag.map(str::as_bytes), Some(TIME), mode)
    }

    /// Answers of nginx.
    #[test]
    fn as_nginx() {
        use Verdict::{NotModified, PreconditionFailed, Proceed};
        let with = |pattern: &str| pattern.replace('T', TAG);
        for (list, weak, strong) in [
            ("T", true, true),
            ("W/T", true, false),
            ("*", true, true),
            ("\"x\"", false, false),
            ("\"x\", T", true, true),
            ("\"x\",T", true, true),
            ("\"x\" T", false, false),
            ("W/\"x\", W/T", true, false),
            ("", false, false),
            ("Tx", false, false),
            ("T , \"y\"", true, true),
            ("*, \"y\"", false, false),
            (",T", true, true),
            ("\"x\"\t,\tT", true, true),
            ("6553f100-a", false, false),
            ("\"", false, false),
            ("W/", false, false),
        ] {
            let list = with(list);
            let none = verdict(&[("inm", &list)], Some(TAG), ModifiedSinceMode::Exact);
            assert_eq!(none, if weak { NotModified } else { Proceed }, "If-None-Match: {list}");
            let some = verdict(&[("im", &list)], Some(TAG), ModifiedSinceMode::Exact);
            assert_eq!(some, if strong { Proceed } else { PreconditionFailed }, "If-Match: {list}");
        }
        let x = "\"x\"";
        for (fields, expected) in [
            (&[("ims", AT)][..], NotModified),
            (&[("ims", OLD)], Proceed),
            (&[("ims", NEW)], Proceed),
            (&[("ims", "junk")], Proceed),
            (&[("ius", AT)], Proceed),
            (&[("ius", OLD)], PreconditionFailed),
            (&[("ius", NEW)], Proceed),
            (&[("ius", "junk")], PreconditionFailed),
            (&[("inm", x), ("ims", AT)], Proceed),
            (&[("inm", TAG), ("ims", OLD)], Proceed),
            (&[("inm", TAG), ("ims", AT)], NotModified),
            (&[("im", TAG), ("ius", OLD)], PreconditionFailed),
            (&[("im", x), ("ius", NEW)], PreconditionFailed),
            (&[("im", x), ("inm", TAG)], PreconditionFailed),
            (&[("ius", OLD), ("inm", TAG)], PreconditionFailed),
            (&[], Proceed),
        ] {
            assert_eq!(verdict(fields, Some(TAG), ModifiedSinceMode::Exact), expected, "{fields:?}");
        }
        for (fields, expected) in [
            (&[("ims", AT)][..], NotModified),
            (&[("ims", OLD)], Proceed),
            (&[("ims", NEW)], NotModified),
            (&[("inm", x), ("ims", NEW)], Proceed),
            (&[("inm", TAG), ("ims", OLD)], Proceed),
        ] {
            assert_eq!(verdict(fields, Some(TAG), ModifiedSinceMode::Before), expected, "before {fields:?}");
        }
        for (fields, expected) in
            [(&[("ims", AT)][..], Proceed), (&[("inm", TAG)], NotModified), (&[("inm", TAG), ("ims", AT)], Proceed)]
        {
            assert_eq!(verdict(fields, Some(TAG), ModifiedSinceMode::Off), expected, "off {fields:?}");
        }
        for (fields, expected) in [
            (&[("inm", TAG)][..], Proceed),
            (&[("inm", "*")], NotModified),
            (&[("im", "*")], Proceed),
            (&[("im", TAG)], PreconditionFailed),
        ] {
            assert_eq!(verdict(fields, None, ModifiedSinceMode::Exact), expected, "no tag {fields:?}");
        }
    }

    #[test]
    fn weak_own_tag() {
        assert!(matches(TAG.as_bytes(), Some(format!("W/{TAG}").as_bytes()), true));
        assert!(!matches(TAG.as_bytes(), Some(format!("W/{TAG}").as_bytes()), false));
    }

    #[test]
    fn if_range_as_nginx() {
        let ask = |value: &str, etag| if_range(value.as_bytes(), etag, Some(TIME));
        let tag = Some(TAG.as_bytes());
        assert!(ask(TAG, tag) && ask(AT, tag) && ask("Tue Nov 14 22:13:20 2023", tag) && ask(AT, None));
        for value in ["W/\"6553f100-a\"", "\"x\"", OLD, NEW, "junk", "", "\"6553f100-a\",\"x\"", "*", "\""] {
            assert!(!ask(value, tag), "{value}");
        }
        assert!(!ask(TAG, None) && !if_range(AT.as_bytes(), None, None));
    }

    proptest! {
        #[test]
        fn any_bytes(list in prop::collection::vec(prop::sample::select(b"W/\"a, \t*".to_vec()), 0..30), weak: bool) {
            let _ = matches(&list, Some(b"\"a\""), weak);
            let _ = if_range(&list, Some(b"\"a\""), Some(0));
        }
    }

    #[test]
    fn tags_count_before_dates_by_the_rfc() {
        let date: &[u8] = b"Thu, 01 Jan 1970 00:00:01 GMT";
        let both = Conditions {
            if_match: Some(b"\"a\""),
            if_unmodified_since: Some(date),
            if_none_match: Some(b"\"a\""),
            if_modified_since: Some(date),
        };
        assert_eq!(both.evaluate(Some(b"\"a\""), Some(50), ModifiedSinceMode::Exact), Verdict::PreconditionFailed);
        assert_eq!(
            both.by_precedence().evaluate(Some(b"\"a\""), Some(50), ModifiedSinceMode::Exact),
            Verdict::NotModified
        );
        let dates = Conditions { if_match: None, if_none_match: None, ..both };
        assert_eq!(dates.by_precedence(), dates);
    }
}
