//! `split_clients`: a variable with one of several values, by shares, for A/B tests.

use freerun_conf::{Cx, Node, Problem, Shape, bytes_of};

use super::blocks::{Blocks, Lookup, looked_up};
use crate::values::subject::Subject;
use crate::values::{Compute, ComputeResult, Template};

/// The sum of all shares, in hundredths of a percent.
const WHOLE: u64 = 10_000;

/// The value of `split_clients`.
pub type Splits<S> = Blocks<Split<S>>;

/// A `split_clients` block: the values, each with the end of its range of hashes.
pub struct Split<S> {
    source: Template<S>,
    parts: Vec<(Option<u32>, Box<[u8]>)>,
}

impl<S: Subject> Lookup for Split<S> {
    type Subject = S;

    const SHAPE: Shape = Shape::exactly(2, "string $variable { share value; … }").with_raw_block();

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Split<S>, Problem> {
        let source = looked_up(directive, cx)?;
        let mut parts = Vec::new();
        let mut sum = 0;
        for entry in directive.children() {
            let text = entry.name.as_str();
            let value = bytes_of(entry.arg(0).unwrap_or_default()).into();
            if text == "*" {
                sum = WHOLE;
                parts.push((None, value));
                continue;
            }
            let share = share(text).ok_or_else(|| {
                Problem::new(format!("invalid percent value \"{text}\"")).at_node(entry).at(entry.name.place)
            })?;
            sum += share;
            if sum > WHOLE {
                return Err(Problem::new("percent total is greater than 100%").at_node(entry));
            }
            let end = sum * u64::from(u32::MAX) / WHOLE;
            parts.push((Some(u32::try_from(end).unwrap_or(u32::MAX)), value));
        }
        Ok(Split { source, parts })
    }
}

/// A share in hundredths of a percent.
fn share(text: &str) -> Option<u64> {
    let number = text.strip_suffix('%')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > 2 || !digits(whole) || !digits(part) {
        return None;
    }
    let part: u64 = format!("{part:0<2}").parse().ok()?;
    let share = whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(part)?;
    (share > 0).then_some(share)
}

impl<S: Subject> Compute<S> for Split<S> {
    fn find(&self, subject: &S) -> ComputeResult {
        let hash = murmur2(&self.source.render(subject));
        let part = self.parts.iter().position(|(end, _)| end.is_none_or(|end| hash < end));
        match part.and_then(|part| u32::try_from(part).ok()) {
            Some(part) => ComputeResult::Entry(part),
            None => ComputeResult::Text(Vec::new()),
        }
    }

    fn entry(&self, number: u32) -> &[u8] {
        self.parts.get(number as usize).map_or(b"", |(_, value)| value)
    }
}

/// MurmurHash2 by Austin Appleby, 32 bits, with the seed 0 mixed with the length.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mix = |word: u32| {
        let word = word.wrapping_mul(M);
        (word ^ word >> 24).wrapping_mul(M)
    };
    let mut hash = u32::try_from(data.len() & 0xffff_ffff).unwrap_or(0);
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        hash = hash.wrapping_mul(M) ^ mix(word);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash = (hash ^ word).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_at_most_two_decimals_and_are_not_nothing() {
        for (text, wanted) in [("0.5%", Some(50)), ("33.33%", Some(3333)), ("100%", Some(10_000)), ("1.%", Some(100))] {
            assert_eq!(share(text), wanted, "{text}");
        }
        for text in ["50", "0%", "0.00%", "50.123%", "x%", "-1%", "%", "+1%", ".5%", "99999999999999999999%"] {
            assert_eq!(share(text), None, "{text}");
        }
    }

    #[test]
    fn the_hash_is_the_known_one() {
        // The values are from the published reference implementation, with seed 0.
        assert_eq!(murmur2(b""), 0);
        let mut differ: Vec<u32> = [&b"a"[..], b"ab", b"abc", b"abcd", b"abcde"].map(murmur2).into();
        differ.dedup();
        assert_eq!(differ.len(), 5);
    }
}
