//! Which of the strings that are searched for may have begun at the end of a text that goes on.
//!
//! A string has begun where the text ends with a beginning of it. The places where one string may have begun follow
//! from its borders, as in the search by Knuth, Morris and Pratt. Borders are the beginnings of the string that are
//! also ends of it. So each byte of the strings is looked at once for a piece of text, whatever the text is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A string in lower case, and of each of its beginnings the longest border.
#[derive(Debug)]
pub struct Borders {
    lower: Box<[u8]>,
    /// At `n - 1`: the length of the longest border of the first `n` bytes, which is shorter than these.
    lengths: Box<[u32]>,
}

impl Borders {
    /// The borders of a string, which is not empty.
    pub fn of(string: &[u8]) -> Borders {
        let mut borders = Borders { lower: string.to_ascii_lowercase().into(), lengths: vec![0; string.len()].into() };
        let mut length = 0;
        for at in 1..string.len() {
            length = borders.longer(length, borders.lower[at]);
            // The strings of a response are far shorter than 4 GB.
            borders.lengths[at] = length as u32;
        }
        borders
    }

    /// The length of the longest beginning that a text ends with when `byte` follows a text that ends with the first
    /// `length` bytes.
    fn longer(&self, mut length: usize, byte: u8) -> usize {
        loop {
            if self.lower.get(length) == Some(&byte) {
                return length + 1;
            }
            if length == 0 {
                return 0;
            }
            length = self.shorter(length);
        }
    }

    /// The next shorter beginning that a text ends with which ends with the first `length` bytes.
    fn shorter(&self, length: usize) -> usize {
        self.lengths[length - 1] as usize
    }

    /// The length of the longest beginning of the string, but not the whole of it, that the text ends with.
    fn at_end_of(&self, text: &[u8]) -> usize {
        let most = text.len().min(self.lower.len() - 1);
        let last = &text[text.len() - most..];
        last.iter().fold(0, |length, byte| self.longer(length, byte.to_ascii_lowercase()))
    }
}

/// The places where strings may have begun, each with the index of its string; the first place first.
#[derive(Debug, Default)]
pub struct Beginnings {
    places: BinaryHeap<Reverse<(usize, usize)>>,
    len: usize,
}

impl Beginnings {
    /// The places in a text.
    pub fn at_end_of<'s>(text: &[u8], strings: impl Iterator<Item = (usize, &'s Borders)>) -> Beginnings {
        let len = text.len();
        let begun = strings.filter_map(|(index, borders)| {
            let length = borders.at_end_of(text);
            (length > 0).then(|| Reverse((len - length, index)))
        });
        Beginnings { places: begun.collect(), len }
    }

    /// The first place from `from` on, and the first string that may have begun there. A string without borders is not
    /// searched for any more. `from` is never smaller than before.
    pub fn first<'s>(&mut self, from: usize, borders: impl Fn(usize) -> Option<&'s Borders>) -> Option<(usize, usize)> {
        loop {
            let Reverse((start, index)) = *self.places.peek()?;
            let known = borders(index);
            if start >= from && known.is_some() {
                return Some((start, index));
            }
            self.places.pop();
            let Some(borders) = known else { continue };
            let mut length = self.len - start;
            while length > 0 && self.len - length < from {
                length = borders.shorter(length);
            }
            if length > 0 {
                self.places.push(Reverse((self.len - length, index)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first place from `from` on, found by trying each.
    fn tried(text: &str, strings: &[&str], from: usize) -> Option<(usize, usize)> {
        let begins = |at: usize, string: &str| {
            let rest = &text[at..];
            rest.len() < string.len() && string[..rest.len()].eq_ignore_ascii_case(rest)
        };
        let places = (from..text.len()).flat_map(|at| (0..strings.len()).map(move |index| (at, index)));
        places.into_iter().find(|(at, index)| begins(*at, strings[*index]))
    }

    #[test]
    fn the_first_place_is_found_from_anywhere_on() {
        let strings = ["aabaaab", "Abab", "b", "ba", "aaaaaaaa", "xyz"];
        let all: Vec<Borders> = strings.iter().map(|string| Borders::of(string.as_bytes())).collect();
        for text in ["", "a", "aabaa", "aabaaab", "AABAAA", "xxababa", "bababab", "aaaaaaaaaa", "zzxY", "nothing"] {
            let mut beginnings = Beginnings::at_end_of(text.as_bytes(), all.iter().enumerate());
            for from in 0..=text.len() {
                let first = beginnings.first(from, |index| all.get(index));
                assert_eq!(first, tried(text, &strings, from), "{text} from {from}");
            }
        }
    }

    #[test]
    fn a_string_that_is_not_searched_for_any_more_has_begun_nowhere() {
        let all = [Borders::of(b"abc"), Borders::of(b"bx")];
        let mut beginnings = Beginnings::at_end_of(b"ab", all.iter().enumerate());
        assert_eq!(beginnings.first(0, |index| all.get(index)), Some((0, 0)));
        assert_eq!(beginnings.first(0, |index| all.get(index).filter(|_| index == 1)), Some((1, 1)));
        assert_eq!(beginnings.first(2, |index| all.get(index)), None);
    }
}
