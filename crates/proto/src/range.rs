//! Byte ranges: RFC 9110 section 14, as nginx answers them.

use std::fmt::Write as _;

use smallvec::SmallVec;

/// Part of a representation, `start..end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte behind the last one; greater than `start`.
    pub end: u64,
}

impl ByteRange {
    /// The number of bytes.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether there are no bytes; never true for a parsed range.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// The answer that a `Range` field asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ranges {
    /// Answer 200 with everything: not byte ranges, more than `max_ranges`, or together more than the whole.
    Whole,
    /// Answer 206 with these parts, in the order asked for; at least one.
    Parts(SmallVec<[ByteRange; 1]>),
    /// Answer 416: bad syntax, or no range that holds a byte.
    Unsatisfiable,
}

/// The most parts of one answer, whatever `max_ranges` allows: a bound for the memory of the parts' heads.
pub const MAX_PARTS: usize = 4096;

/// Parses the value of a `Range` field for a representation of `size` bytes.
///
/// `max_ranges` is nginx's directive, `None` without a limit: if more ranges can be satisfied than that, the field is
/// ignored; with 0 every one is ignored. As in nginx, ranges that hold no byte are passed over, bad syntax anywhere is
/// unsatisfiable, and an empty representation is sent whole.
pub fn parse(value: &[u8], size: u64, max_ranges: Option<u32>) -> Ranges {
    let limit = max_ranges.map_or(MAX_PARTS, |n| (n as usize).min(MAX_PARTS));
    let (Some(unit), Some(list)) = (value.get(..6), value.get(6..)) else { return Ranges::Whole };
    if limit == 0 || list.is_empty() || !unit.eq_ignore_ascii_case(b"bytes=") {
        return Ranges::Whole;
    }
    let mut parts = SmallVec::new();
    let mut sum: u64 = 0;
    let mut whole = false;
    for spec in list.split(|&b| b == b',') {
        let Some(spec) = Spec::parse(spec) else { return Ranges::Unsatisfiable };
        if size == 0 {
            // Errors behind this do not count any more.
            if spec.reaches_empty() {
                return Ranges::Whole;
            }
            continue;
        }
        let Some(range) = spec.resolve(size) else { continue };
        if parts.len() == limit {
            return Ranges::Whole;
        }
        let (total, overflow) = sum.overflowing_add(range.len());
        whole |= overflow;
        sum = total;
        parts.push(range);
    }
    if whole || sum > size {
        Ranges::Whole
    } else if parts.is_empty() {
        Ranges::Unsatisfiable
    } else {
        Ranges::Parts(parts)
    }
}

/// A range as written.
enum Spec {
    /// `first-` or `first-last`.
    From(u64, Option<u64>),
    /// `-length`: the last bytes, with their number.
    Suffix(u64),
    /// `-` alone.
    Nothing,
}

impl Spec {
    /// Parses a range; `None` for bad syntax. Spaces, not tabs, may stand around the numbers, though not before a
    /// suffix's.
    fn parse(text: &[u8]) -> Option<Spec> {
        let text = trim_spaces(text);
        let dash = memchr::memchr(b'-', text)?;
        let (first, last) = (&text[..dash], &text[dash + 1..]);
        if first.is_empty() {
            return Some(if last.is_empty() { Spec::Nothing } else { Spec::Suffix(number(last)?) });
        }
        let first = number(trim_spaces(first))?;
        let last = trim_spaces(last);
        Some(Spec::From(first, if last.is_empty() { None } else { Some(number(last)?) }))
    }

    /// The bytes that the range means; `None` if there are none.
    fn resolve(self, size: u64) -> Option<ByteRange> {
        let range = match self {
            Spec::From(first, last) => {
                ByteRange { start: first, end: last.map_or(size, |last| last.saturating_add(1)).min(size) }
            }
            Spec::Suffix(length) => ByteRange { start: size.saturating_sub(length), end: size },
            Spec::Nothing => return None,
        };
        (!range.is_empty()).then_some(range)
    }

    /// Whether the range begins where an empty representation does, which is at its end.
    fn reaches_empty(&self) -> bool {
        matches!(self, Spec::From(0, _) | Spec::Suffix(_))
    }
}

fn trim_spaces(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}

/// Parses digits, up to the largest file offset.
fn number(digits: &[u8]) -> Option<u64> {
    crate::head::parse_length(digits)
}

/// The `Content-Range` of one part: `bytes 0-4/10`.
pub fn content_range(range: ByteRange, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1))
}

/// The `Content-Range` of a 416: `bytes */10`.
pub fn content_range_unsatisfied(size: u64) -> String {
    format!("bytes */{size}")
}

/// The framing of a `multipart/byteranges` body.
#[derive(Clone, Debug)]
pub struct Multipart {
    boundary: u64,
    /// All part heads in a row.
    heads: String,
    /// The end of each head.
    ends: Vec<usize>,
    tail: String,
    total: u64,
}

impl Multipart {
    /// Frames `parts` of a representation of `size` bytes. `boundary` is any number that differs from answer to answer.
    /// `content_type` is the type of the whole, which is written into each part if it is known.
    pub fn new(boundary: u64, content_type: Option<&str>, size: u64, parts: &[ByteRange]) -> Multipart {
        let mut heads = String::with_capacity(parts.len() * 128);
        let mut ends = Vec::with_capacity(parts.len());
        let mut total: u64 = 0;
        for part in parts {
            // Writing to a string cannot fail.
            let _ = write!(heads, "\r\n--{boundary:020}\r\n");
            if let Some(content_type) = content_type {
                let _ = write!(heads, "Content-Type: {content_type}\r\n");
            }
            let _ = write!(heads, "Content-Range: {}\r\n\r\n", content_range(*part, size));
            ends.push(heads.len());
            total = total.saturating_add(part.len());
        }
        let tail = format!("\r\n--{boundary:020}--\r\n");
        let total = total.saturating_add((heads.len() + tail.len()) as u64);
        Multipart { boundary, heads, ends, tail, total }
    }

    /// The `Content-Type` of the answer.
    pub fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={:020}", self.boundary)
    }

    /// The number of parts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no parts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes before the content of part `i`; empty beyond the last part.
    pub fn head(&self, i: usize) -> &[u8] {
        let Some(&end) = self.ends.get(i) else { return b"" };
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.heads.as_bytes()[start..end]
    }

    /// The bytes behind the content of the last part.
    pub fn tail(&self) -> &[u8] {
        self.tail.as_bytes()
    }

    /// The `Content-Length` of the answer.
    pub fn total_len(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ask(value: &str) -> Ranges {
        parse(value.as_bytes(), 10, None)
    }

    #[track_caller]
    fn parts(value: &str, expected: &[(u64, u64)]) {
        let expected = expected.iter().map(|&(start, last)| ByteRange { start, end: last + 1 }).collect();
        assert_eq!(ask(value), Ranges::Parts(expected), "{value}");
    }

    /// Answers of nginx for a file of ten bytes.
    #[test]
    fn satisfied_as_nginx() {
        parts("bytes=0-0", &[(0, 0)]);
        parts("bytes=0-", &[(0, 9)]);
        parts("bytes=-1", &[(9, 9)]);
        parts("bytes=0-9", &[(0, 9)]);
        parts("bytes=0-100", &[(0, 9)]);
        parts("bytes=-100", &[(0, 9)]);
        parts("bytes=-9223372036854775807", &[(0, 9)]);
        parts("bytes=0-9223372036854775807", &[(0, 9)]);
        parts("BYTES=0-0", &[(0, 0)]);
        parts("bytes= 0 - 0 ", &[(0, 0)]);
        parts("bytes=0-0, 2-3", &[(0, 0), (2, 3)]);
        parts("bytes=0-8,0-0", &[(0, 8), (0, 0)]);
        parts("bytes=0-4,5-9", &[(0, 4), (5, 9)]);
        parts("bytes=3-3,1-1", &[(3, 3), (1, 1)]);
        parts("bytes=-5,0-1", &[(5, 9), (0, 1)]);
        parts("bytes=0-0,20-30", &[(0, 0)]);
        parts("bytes=0-0,5-4", &[(0, 0)]);
        parts("bytes=-0,0-1", &[(0, 1)]);
        parts("bytes=0-1,10-10,3-4", &[(0, 1), (3, 4)]);
    }

    #[test]
    fn whole_as_nginx() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes =0-0",
            "octets=0-0",
            "bytes=0-5,3-8",
            "bytes=0-9,0-9",
            "bytes=0-8,0-1",
            "bytes=0-4,0-5",
        ] {
            assert_eq!(ask(value), Ranges::Whole, "{value}");
        }
    }

    #[test]
    fn unsatisfiable_as_nginx() {
        for value in [
            "bytes=-0",
            "bytes=-",
            "bytes=10-",
            "bytes=10-20",
            "bytes=5-4",
            "bytes=0-0,",
            "bytes=,0-0",
            "bytes=0-0,,1-1",
            "bytes=0-0,a",
            "bytes=a",
            "bytes=20-30,40-",
            "bytes=99999999999999999999-",
            "bytes=0-99999999999999999999",
            "bytes=9223372036854775807-",
            "bytes=-9223372036854775808",
            "bytes=0-0\t,1-1",
            "bytes=+1-2",
            "bytes=1-2-3",
            "bytes=0x1-2",
            "bytes=- 1",
            "bytes=1 2-3",
            "bytes=0-0 1",
            "bytes=--1",
            "bytes=0-9,0-9,junk",
            "bytes=0-9223372036854775808",
            "bytes=0-0;",
            "bytes= ",
        ] {
            assert_eq!(ask(value), Ranges::Unsatisfiable, "{value}");
        }
    }

    #[test]
    fn max_ranges() {
        let five = |value: &str| parse(value.as_bytes(), 10, Some(5));
        assert_eq!(five("bytes=0-0,1-1,2-2,3-3,4-4,5-5"), Ranges::Whole);
        assert!(matches!(five("bytes=0-0,1-1,2-2,3-3,4-4,20-,21-"), Ranges::Parts(p) if p.len() == 5));
        assert_eq!(parse(b"bytes=0-0", 10, Some(0)), Ranges::Whole);
        assert_eq!(parse(b"bytes=0-0,1-1,junk", 10, Some(1)), Ranges::Whole);
        let many = format!("bytes=0-0{}", ",0-0".repeat(MAX_PARTS));
        assert_eq!(parse(many.as_bytes(), 1 << 20, None), Ranges::Whole);
    }

    #[test]
    fn empty_representation() {
        for value in ["bytes=0-0", "bytes=0-", "bytes=-1"] {
            assert_eq!(parse(value.as_bytes(), 0, None), Ranges::Whole, "{value}");
        }
        for value in ["bytes=a", "bytes=5-4", "bytes=0-9999999999999999999999"] {
            assert_eq!(parse(value.as_bytes(), 0, None), Ranges::Unsatisfiable, "{value}");
        }
    }

    #[test]
    fn multipart_as_nginx() {
        let Ranges::Parts(parts) = ask("bytes=0-0,2-3") else { panic!("refused") };
        let multipart = Multipart::new(15, Some("text/plain"), 10, &parts);
        assert_eq!(multipart.content_type(), "multipart/byteranges; boundary=00000000000000000015");
        let body = [multipart.head(0), b"0", multipart.head(1), b"23", multipart.tail()].concat();
        assert_eq!(
            String::from_utf8(body.clone()).unwrap(),
            "\r\n--00000000000000000015\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-0/10\r\n\r\n0\
             \r\n--00000000000000000015\r\nContent-Type: text/plain\r\nContent-Range: bytes 2-3/10\r\n\r\n23\
             \r\n--00000000000000000015--\r\n"
        );
        assert_eq!(multipart.total_len(), 197);
        assert_eq!(body.len(), 197);
        assert_eq!(multipart.head(2), b"");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn parts_lie_inside(
            specs in prop::collection::vec(
                prop::sample::select(vec!["0-0", "-1", "5-", " 3 - 8", "9-2", "", "-", "x", "99-", "0-18446744073709551615", "-9223372036854775807", "0-9223372036854775807"]), 0..6),
            size in prop::sample::select(vec![0, 1, 10, 1 << 40, u64::MAX]),
        ) {
            let value = format!("bytes={}", specs.join(","));
            if let Ranges::Parts(parts) = parse(value.as_bytes(), size, None) {
                prop_assert!(!parts.is_empty());
                let mut sum = 0u64;
                for part in &parts {
                    prop_assert!(part.start < part.end && part.end <= size);
                    sum = sum.checked_add(part.len()).unwrap();
                }
                prop_assert!(sum <= size);
                let multipart = Multipart::new(u64::MAX, None, size, &parts);
                let framing: usize = (0..multipart.len()).map(|i| multipart.head(i).len()).sum::<usize>() + multipart.tail().len();
                prop_assert_eq!(multipart.total_len(), sum.saturating_add(framing as u64));
            }
        }

        #[test]
        fn any_bytes(raw: Vec<u8>, size: u64) {
            let _ = parse(&raw, size, None);
            let _ = parse(&[b"bytes=", &raw[..]].concat(), size, Some(3));
        }
    }
}
