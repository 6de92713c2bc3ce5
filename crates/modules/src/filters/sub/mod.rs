//! `sub_filter`: replaces strings in bodies.

mod partial_matches;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;

use aho_corasick::automaton::OverlappingState;
use aho_corasick::{AhoCorasick, AhoCorasickKind, Match, MatchKind};
use bytes::Bytes;
use freerun_conf::{Cx, Many, Node, Problem, SettingsSet, Shape, Value, group, settings};
use freerun_http::content::pull::{PIECE, Transform, TransformedBody};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::representation::Change;
use freerun_http::request::response::{Body, Response};
use freerun_http::template::Template;
use freerun_http::values::media_types::MediaTypes;

use partial_matches::{Beginnings, Borders};

settings! {
    /// Replacement of strings in responses.
    #[module = "sub"]
    pub struct SubSettings {
        /// Replaces a string, ignoring case, by another. Both may contain variables.
        ///
        /// The string that begins first is replaced; if several begin at the same place, the first in the
        /// configuration.
        sub_filter: Many<Substitution>, in HTTP | SERVER | LOCATION,
            fidelity = Differs("the strings searched for in one response have at most 64 KB together");
        /// Whether each string is replaced only once, or at every place.
        sub_filter_once: bool = "on", in HTTP | SERVER | LOCATION;
        /// Whether `Last-Modified` and, made weak, `ETag` are kept.
        sub_filter_last_modified: bool = "off", in HTTP | SERVER | LOCATION;
        /// Media types, besides `text/html`, of the responses that are changed; `*` is all.
        sub_filter_types: MediaTypes, in HTTP | SERVER | LOCATION;
    }
}

/// A string and its replacement.
#[derive(Debug, Clone)]
pub struct Substitution {
    pattern: Template,
    replacement: Template,
}

/// The most bytes of all strings searched for in one response. The search needs some ten times as much memory. It holds
/// back as much of the body as the longest string, where the body goes on like that string.
const MAX_PATTERNS: usize = 64 * 1024;

impl Value for Substitution {
    const SHAPE: Shape = Shape::exactly(2, "string replacement");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Substitution, Problem> {
        let word = &directive.args[0];
        if word.text.is_empty() {
            return Err(Problem::new("empty search pattern").at(word.place));
        }
        if word.text.len() > MAX_PATTERNS {
            return Err(Problem::new("too long search pattern").at(word.place));
        }
        let pattern = Template::parse(word, cx)?;
        Ok(Substitution { pattern, replacement: Template::parse(&directive.args[1], cx)? })
    }
}

/// The module `sub`.
pub static MODULE: Module = Module {
    name: "sub",
    groups: &[group::<SubSettings>()],
    filters: &[Filter { slot: Slot::Sub, wanted, run }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<SubSettings>().sub_filter.is_empty()
}

fn run(request: &mut Request, response: &mut Response) {
    let location = request.place.location.clone();
    let settings = &location.settings;
    let settings = settings.get::<SubSettings>();
    // A 304 has no length and no media type, so with `*` it is treated as a page.
    if response.body.is_empty() && !response.no_length || !settings.sub_filter_types.contains(&response.content_type) {
        return;
    }
    // In the replacement `$status` is the status of this response.
    let before = request.sent.status.replace(response.status);
    let pairs: Vec<Pair> = settings
        .sub_filter
        .iter()
        .map(|pair| (pair.pattern.render(request), &pair.replacement))
        .filter(|(pattern, _)| !pattern.is_empty())
        .map(|(pattern, replacement)| Pair {
            pattern: pattern.into(),
            replacement: Bytes::from(replacement.render(request).into_owned()),
        })
        .collect();
    request.sent.status = before;
    if pairs.is_empty() {
        return;
    }
    let Some(substitute) = Substitute::new(pairs, settings.sub_filter_once) else {
        log_error!(request, Error, "too long search pattern");
        return;
    };
    response.content_changes(if settings.sub_filter_last_modified { Change::STRINGS_DATED } else { Change::STRINGS });
    if response.no_length {
        return;
    }
    let source = std::mem::replace(&mut response.body, Body::Empty).into_source(request);
    response.body = Body::Source(Box::new(TransformedBody::new(source, substitute)));
}

/// A string, and its replacement.
#[derive(Debug, Clone)]
struct Pair {
    pattern: Arc<[u8]>,
    replacement: Bytes,
}

/// A string, and its replacements: the same each time, or the next one each time, until there is none.
#[derive(Debug)]
struct SearchString {
    pattern: Arc<[u8]>,
    borders: Borders,
    replacements: Vec<Bytes>,
    /// The index of the next replacement.
    next: usize,
}

impl SearchString {
    fn is_over(&self) -> bool {
        self.next >= self.replacements.len()
    }
}

/// The search in a body.
struct Substitute {
    sought: Vec<SearchString>,
    /// The automaton for all strings, including those that are used up.
    finder: AhoCorasick,
    /// The length of the longest string that is still searched for; 0 if there is none.
    longest: usize,
    once: bool,
    /// The end of the input, where a string may have begun.
    held: Vec<u8>,
    /// Whether enough output was made for now, although the held input gives more.
    full: bool,
}

/// The position of a string.
struct StringMatch {
    index: usize,
    start: usize,
    end: usize,
}

/// Strings that are longer than this in total are searched with less memory, a little slower.
const SMALL: usize = 2048;

impl Substitute {
    fn new(pairs: Vec<Pair>, once: bool) -> Option<Substitute> {
        let mut sought: Vec<SearchString> = Vec::new();
        let mut known = HashMap::new();
        for Pair { pattern, replacement } in pairs {
            match known.entry(pattern.to_ascii_lowercase()) {
                Entry::Vacant(place) => {
                    place.insert(sought.len());
                    let borders = Borders::of(&pattern);
                    sought.push(SearchString { pattern, borders, replacements: vec![replacement], next: 0 });
                }
                // If the same string is given twice, the first replacement is used first.
                Entry::Occupied(place) => sought[*place.get()].replacements.push(replacement),
            }
        }
        let total: usize = sought.iter().map(|sought| sought.pattern.len()).sum();
        if total > MAX_PATTERNS {
            return None;
        }
        // Strings that are used up must not hide others.
        let overlapping = once && sought.len() > 1;
        let finder = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(if overlapping { MatchKind::Standard } else { MatchKind::LeftmostFirst })
            .kind((total > SMALL).then_some(AhoCorasickKind::NoncontiguousNFA))
            .build(sought.iter().map(|sought| &sought.pattern))
            .ok()?;
        let longest = longest(&sought);
        Some(Substitute { sought, finder, longest, once, held: Vec::new(), full: false })
    }

    /// The first position of a string that is still searched for. If several begin there, the first in the
    /// configuration counts.
    fn find(&self, text: &[u8]) -> Option<StringMatch> {
        let found =
            |found: Match| StringMatch { index: found.pattern().as_usize(), start: found.start(), end: found.end() };
        if self.finder.match_kind() != MatchKind::Standard {
            return self.finder.find(text).map(found);
        }
        let mut best: Option<StringMatch> = None;
        let mut state = OverlappingState::start();
        loop {
            self.finder.find_overlapping(text, &mut state);
            let Some(next) = state.get_match().map(found) else { return best };
            // The next match ends there or later, and begins after it.
            if best.as_ref().is_some_and(|best| next.end > best.start + self.longest) {
                return best;
            }
            let is_better = |best: &StringMatch| (next.start, next.index) < (best.start, best.index);
            if !self.sought[next.index].is_over() && best.as_ref().is_none_or(is_better) {
                best = Some(next);
            }
        }
    }

    /// Replaces the strings that are certain, and holds back only the possible beginning of a string. If a string
    /// begins where another may have begun, too, it may turn out to be that other string.
    fn scan(&mut self, last: bool, out: &mut Vec<u8>) {
        let mut at = 0;
        self.full = false;
        let mut beginnings = Beginnings::default();
        if !last {
            let sought = self.sought.iter().enumerate().filter(|(_, sought)| !sought.is_over());
            beginnings = Beginnings::at_end_of(&self.held, sought.map(|(index, sought)| (index, &sought.borders)));
        }
        while self.longest > 0 {
            // The replacement may be very much longer than the string.
            if out.len() >= PIECE {
                self.full = true;
                self.held.drain(..at);
                return;
            }
            let Some(found) = self.find(&self.held[at..]) else { break };
            let live = |index: usize| self.sought.get(index).filter(|one| !one.is_over()).map(|one| &one.borders);
            let open = beginnings.first(at, live);
            // Of strings that begin at the same place, the first in the configuration counts.
            if open.is_some_and(|open| open < (at + found.start, found.index)) {
                break;
            }
            out.extend_from_slice(&self.held[at..at + found.start]);
            at += found.end;
            let sought = &mut self.sought[found.index];
            out.extend_from_slice(&sought.replacements[sought.next]);
            if self.once {
                sought.next += 1;
                if sought.is_over() {
                    self.longest = longest(&self.sought);
                }
            }
        }
        let live = |index: usize| self.sought.get(index).filter(|one| !one.is_over()).map(|one| &one.borders);
        let ready = beginnings.first(at, live).map_or(self.held.len(), |(start, _)| start);
        out.extend_from_slice(&self.held[at..ready]);
        self.held.drain(..ready);
    }
}

fn longest(sought: &[SearchString]) -> usize {
    sought.iter().filter(|sought| !sought.is_over()).map(|sought| sought.pattern.len()).max().unwrap_or(0)
}

impl Transform for Substitute {
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if self.longest == 0 && self.held.is_empty() {
            out.extend_from_slice(piece);
            return Ok(());
        }
        self.held.extend_from_slice(piece);
        self.scan(false, out);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.scan(true, out);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::test_source::Repeated;
    use freerun_http::request::response::BodySource;

    fn substitute(pairs: &[(&str, &str)], once: bool) -> Substitute {
        let pairs = pairs
            .iter()
            .map(|(pattern, replacement)| Pair {
                pattern: pattern.as_bytes().into(),
                replacement: Bytes::copy_from_slice(replacement.as_bytes()),
            })
            .collect();
        Substitute::new(pairs, once).unwrap()
    }

    fn replaced(pairs: &[(&str, &str)], once: bool, pieces: &[&[u8]]) -> String {
        let mut substitute = substitute(pairs, once);
        let mut out = Vec::new();
        for piece in pieces {
            substitute.feed(piece, &mut out).unwrap();
        }
        substitute.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_same_is_replaced_wherever_pieces_end() {
        let text = b"Hello hello HELLO aaab abab ababc abcabcabd x";
        for pairs in [
            &[("hello", "X")][..],
            &[("aab", "Z"), ("ab", "Y")],
            &[("ab", "Y"), ("aab", "Z")],
            &[("abab", "1"), ("ababc", "2")],
            &[("ababc", "2"), ("abab", "1")],
            &[("a", "1"), ("b", "2"), ("ab", "3")],
            &[("ab", "3"), ("a", "1"), ("b", "2")],
            &[("abcabd", "!"), ("x", ""), ("hello", "hello hello")],
        ] {
            for once in [true, false] {
                let whole = replaced(pairs, once, &[text]);
                let singly: Vec<&[u8]> = text.chunks(1).collect();
                assert_eq!(replaced(pairs, once, &singly), whole, "{pairs:?}");
                for at in 0..text.len() {
                    assert_eq!(replaced(pairs, once, &[&text[..at], &text[at..]]), whole, "{pairs:?} {at}");
                }
            }
        }
    }

    #[test]
    fn the_first_place_wins_then_the_first_string() {
        assert_eq!(replaced(&[("ab", "Y"), ("aab", "Z")], false, &[b"aaab"]), "aZ");
        assert_eq!(replaced(&[("abab", "1"), ("ababc", "2")], false, &[b"abab ababc"]), "1 1c");
        assert_eq!(replaced(&[("ababc", "2"), ("abab", "1")], false, &[b"abab ababc"]), "1 2");
        assert_eq!(replaced(&[("hello", "X"), ("hello", "Y")], true, &[b"hello hello hello"]), "X Y hello");
        assert_eq!(replaced(&[("hello", "X"), ("hello", "Y")], false, &[b"hello hello hello"]), "X X X");
    }

    #[test]
    fn what_was_replaced_once_hides_nothing_and_costs_nothing() {
        assert_eq!(replaced(&[("ab", "1"), ("a", "2"), ("b", "3")], true, &[b"ababab"]), "123ab");
        assert_eq!(replaced(&[("aaa", "1"), ("a", "2"), ("aa", "3")], true, &[b"aaaaaaaaa"]), "123aaa");
        assert_eq!(replaced(&[("bc", "1"), ("abcd", "2"), ("c", "3")], true, &[b"abcd abcd abcd"]), "2 a1d ab3d");
        assert_eq!(replaced(&[("A", "1"), ("b", "x"), ("a", "2"), ("a", "3")], true, &[b"aAaA b"]), "123A x");
        // Thousands of strings, each of which is found: with a new search for each this took minutes.
        let names: Vec<String> = (0..4000).map(|number| format!("<{number:04}>")).collect();
        let pairs: Vec<_> = names.iter().map(|name| (&name[..], "!")).collect();
        let text = names.concat();
        assert_eq!(replaced(&pairs, true, &[text.as_bytes()]), "!".repeat(4000));
    }

    #[test]
    fn long_strings_are_found_and_hold_back_no_more_than_themselves() {
        let long = "ab".repeat(5000);
        let mut substitute = Substitute::new(
            vec![Pair { pattern: long.as_bytes().into(), replacement: Bytes::from_static(b"!") }],
            false,
        )
        .unwrap();
        let mut out = Vec::new();
        for _ in 0..50 {
            substitute.feed(&[b'x'; 1000], &mut out).unwrap();
            assert!(substitute.held.len() < long.len());
        }
        substitute.feed(long.as_bytes(), &mut out).unwrap();
        substitute.end(&mut out).unwrap();
        assert_eq!(out.len(), 50_001);
        let endless = Pair { pattern: vec![b'a'; MAX_PATTERNS + 1].into(), replacement: Bytes::new() };
        assert!(Substitute::new(vec![endless], false).is_none());
    }

    #[test]
    fn only_the_beginning_of_a_string_is_held_back() {
        let fed = |pairs: &[(&str, &str)], once: bool, pieces: &[&str]| -> Vec<String> {
            let mut substitute = substitute(pairs, once);
            let feed = |piece: &&str| {
                let mut out = Vec::new();
                substitute.feed(piece.as_bytes(), &mut out).unwrap();
                String::from_utf8(out).unwrap()
            };
            pieces.iter().map(feed).collect()
        };
        let events = &["data: hello\n\n", "data: nee", "dle\n\n", "data: NEEDLE\n\n"];
        assert_eq!(
            fed(&[("needle", "X")], false, events),
            ["data: hello\n\n", "data: ", "X\n\n", "data: X\n\n"],
            "the end of an event is no beginning"
        );
        // A match that may be a longer one, or not.
        assert_eq!(fed(&[("abab", "1"), ("ababc", "2")], false, &["x abab", "c"]), ["x 1", "c"]);
        assert_eq!(fed(&[("ababc", "2"), ("abab", "1")], false, &["x abab", "c", "ababx"]), ["x ", "2", "1x"]);
        // One that has begun earlier than the one that is there, and leads to nothing.
        assert_eq!(fed(&[("b", "1"), ("abc", "2")], false, &["xab", "d"]), ["x", "a1d"]);
        // A string that is used up holds back nothing any more.
        assert_eq!(fed(&[("needle", "X")], true, &["needle need", "need"]), ["X need", "need"]);
        assert_eq!(fed(&[("needle", "X"), ("ab", "Y")], true, &["needle nee a", "a"]), ["X nee ", "a"]);
    }

    #[test]
    fn long_replacements_come_in_bounded_pieces() {
        let replacement = "y".repeat(10_000);
        let pair = Pair { pattern: b"a"[..].into(), replacement: replacement.into() };
        let text = Bytes::from(vec![b'a'; 200_000]);
        let mut source = TransformedBody::new(Box::new(Repeated(text, 1)), Substitute::new(vec![pair], false).unwrap());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut total = 0;
        loop {
            let std::task::Poll::Ready(piece) = source.next().as_mut().poll(&mut context) else { continue };
            let Some(piece) = piece.unwrap() else { break };
            assert!(piece.len() < PIECE + 10_000, "{}", piece.len());
            total += piece.len();
        }
        assert_eq!(total, 200_000 * 10_000);
    }
}
