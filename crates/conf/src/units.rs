//! The types of values that many directives have: flags, numbers, sizes, offsets, times, strings.

use std::time::Duration;

use crate::cx::Cx;
use crate::directive::Shape;
use crate::node::{Node, Word};
use crate::problem::Problem;
use crate::value::Value;

/// A number of bytes with nginx's units `k` and `m` (in either case): a size, in nginx's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Size(pub u64);

impl Size {
    /// The size as a length in memory.
    pub fn in_memory(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A number of bytes with nginx's units `k`, `m` and `g` (in either case): an offset, in nginx's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(pub u64);

/// A number of seconds, with nginx's units `y`, `M`, `w`, `d`, `h`, `m`, `s`: a time in seconds, in nginx's terms.
/// Times to the millisecond are [`Duration`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seconds(pub u64);

/// A number of buffers and the size of each, in bytes: `buffers 4 8k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// The number of buffers; at least 1.
    pub count: u32,
    /// The size of each, in bytes; at least 1.
    pub size: u64,
}

/// The largest size, offset or number: nginx's types are signed.
const MAX: u64 = i64::MAX as u64;

/// Parses a number: decimal digits without a sign, at most `i64::MAX`. `None` for anything else.
pub fn parse_number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|number| *number <= MAX)
}

fn scaled(text: &str, giga: bool) -> Option<u64> {
    let shift = match text.bytes().last()? {
        b'k' | b'K' => 10,
        b'm' | b'M' => 20,
        b'g' | b'G' if giga => 30,
        _ => 0,
    };
    let number = parse_number(if shift == 0 { text } else { &text[..text.len() - 1] })?;
    number.checked_mul(1 << shift).filter(|number| *number <= MAX)
}

/// Parses a size: bytes, or with `k` or `m`. `None` for anything else.
pub fn parse_size(text: &str) -> Option<u64> {
    scaled(text, false)
}

/// Parses an offset: bytes, or with `k`, `m` or `g`. `None` for anything else.
pub fn parse_offset(text: &str) -> Option<u64> {
    scaled(text, true)
}

/// Parses a time to the millisecond: units `w`, `d`, `h`, `m`, `s`, `ms` from large to small, each once, with spaces
/// between allowed. A number without unit is seconds and comes last. `None` for anything else, and for more than
/// `i64::MAX` ms.
pub fn parse_time(text: &str) -> Option<Duration> {
    time(text, true).map(Duration::from_millis)
}

/// Parses a time to the second: like [`parse_time`] with `y` (365 days) and `M` (30 days), without `ms`.
pub fn parse_seconds(text: &str) -> Option<u64> {
    time(text, false)
}

/// The sum of a time in milliseconds (`fine`) or seconds.
fn time(text: &str, fine: bool) -> Option<u64> {
    const UNITLESS: u8 = 9;
    let second = if fine { 1000 } else { 1 };
    let bytes = text.as_bytes();
    let (mut total, mut at, mut last) = (0u64, 0, 0);
    while at < bytes.len() {
        if bytes[at] == b' ' && last > 0 {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            at += 1;
        }
        let number = parse_number(&text[start..at])?;
        let (step, scale, width) = match (bytes.get(at), bytes.get(at + 1)) {
            (Some(b'y'), _) if !fine => (1, 365 * 86_400, 1),
            (Some(b'M'), _) if !fine => (2, 30 * 86_400, 1),
            (Some(b'w'), _) => (3, 7 * 86_400 * second, 1),
            (Some(b'd'), _) => (4, 86_400 * second, 1),
            (Some(b'h'), _) => (5, 3_600 * second, 1),
            (Some(b'm'), Some(b's')) if fine => (8, 1, 2),
            (Some(b'm'), Some(b's')) => return None,
            (Some(b'm'), _) => (6, 60 * second, 1),
            (Some(b's'), _) => (7, second, 1),
            (Some(b' ') | None, _) => (UNITLESS, second, 0),
            _ => return None,
        };
        if step < last || step == last && step != UNITLESS {
            return None;
        }
        last = step;
        at += width;
        total = number.checked_mul(scale).and_then(|part| total.checked_add(part)).filter(|sum| *sum <= MAX)?;
    }
    (last > 0).then_some(total)
}

fn first(node: &Node) -> Result<&Word, Problem> {
    node.args.first().ok_or_else(|| Problem::wrong_count(node))
}

/// A flag: `on` or `off`.
impl Value for bool {
    const SHAPE: Shape = Shape::exactly(1, "on | off");

    fn parse(node: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
        let word = first(node)?;
        if word.text.eq_ignore_ascii_case("on") {
            Ok(true)
        } else if word.text.eq_ignore_ascii_case("off") {
            Ok(false)
        } else {
            let name = &node.name.text;
            let message =
                format!("invalid value \"{}\" in \"{name}\" directive, it must be \"on\" or \"off\"", word.text);
            Err(Problem::new(message).at_node(node).at(word.place))
        }
    }
}

impl Value for Size {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(node: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
        let word = first(node)?;
        parse_size(&word.text).map(Size).ok_or_else(|| Problem::invalid_value(node, word))
    }
}

impl Value for Offset {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(node: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
        let word = first(node)?;
        parse_offset(&word.text).map(Offset).ok_or_else(|| Problem::invalid_value(node, word))
    }
}

impl Value for Seconds {
    const SHAPE: Shape = Shape::exactly(1, "time");

    fn parse(node: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
        let word = first(node)?;
        parse_seconds(&word.text).map(Seconds).ok_or_else(|| Problem::invalid_value(node, word))
    }
}

/// A time to the millisecond, units `w` to `ms`.
impl Value for Duration {
    const SHAPE: Shape = Shape::exactly(1, "time");

    fn parse(node: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
        let word = first(node)?;
        parse_time(&word.text).ok_or_else(|| Problem::invalid_value(node, word))
    }
}

impl Value for Buffers {
    const SHAPE: Shape = Shape::exactly(2, "number size");

    fn parse(node: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
        let [count, size] = node.args.as_slice() else { return Err(Problem::wrong_count(node)) };
        let number = parse_number(&count.text).and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
        let bytes = parse_size(&size.text).filter(|size| *size > 0);
        match (number, bytes) {
            (Some(count), Some(size)) => Ok(Buffers { count, size }),
            (None, _) => Err(Problem::invalid_value(node, count)),
            (_, None) => Err(Problem::invalid_value(node, size)),
        }
    }
}

macro_rules! number {
    ($($type:ty),*) => {$(
        /// A decimal number without sign.
        impl Value for $type {
            const SHAPE: Shape = Shape::exactly(1, "number");

            fn parse(node: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
                let word = first(node)?;
                let number = parse_number(&word.text).and_then(|number| <$type>::try_from(number).ok());
                number.ok_or_else(|| Problem::directive(node, "invalid number").at(word.place))
            }
        }
    )*};
}

number!(u16, u32, u64, usize, i64);

/// Any one word.
impl Value for String {
    const SHAPE: Shape = Shape::exactly(1, "string");

    fn parse(node: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
        Ok(first(node)?.text.clone())
    }
}

/// At least one word.
impl Value for Vec<String> {
    const SHAPE: Shape = Shape::at_least(1, "string ...");

    fn parse(node: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
        Ok(node.args.iter().map(|word| word.text.clone()).collect())
    }
}
