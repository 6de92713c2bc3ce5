//! The structure of a regular expression, as far as rules ask for it. An expression that is not understood has none, and no rule
//! speaks of it.

mod byte_set;

use crate::octets::text_of;

pub use self::byte_set::ByteSet;

/// A part of an expression.
#[derive(Clone, Debug)]
pub enum ExpressionPart {
    /// A byte of a set, and whether it was written as a dot.
    Bytes(ByteSet, bool),
    /// A group: its alternatives, each a sequence.
    Group(ExpressionGroup),
    /// A part that is repeated.
    Repeat {
        /// The part.
        part: Box<ExpressionPart>,
        /// The fewest times.
        min: u32,
        /// The most times; none is without a limit.
        max: Option<u32>,
        /// Whether nothing that it has matched is given back.
        is_possessive: bool,
    },
    /// The beginning of the text.
    Start,
    /// The end of the text.
    End,
    /// Something that takes no byte: a look around, the border of a word.
    Nothing,
}

/// A group.
#[derive(Clone, Debug)]
pub struct ExpressionGroup {
    /// The alternatives.
    pub alternatives: Vec<Vec<ExpressionPart>>,
    /// The number of the group, if it has one.
    number: Option<u32>,
    /// The name of the group.
    name: Option<String>,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The alternatives at the outermost level.
    pub alternatives: Vec<Vec<ExpressionPart>>,
}

/// The deepest nesting of groups that is looked at.
const MAX_NESTING: usize = 30;

/// The number of repetitions from which a limit is as good as none.
const MANY: u32 = 12;

impl Expression {
    /// Reads an expression; `any_case`: letters stand for both cases.
    pub fn parse(text: &str, any_case: bool) -> Option<Expression> {
        let mut parser = ExpressionParser { text: text.as_bytes(), at: 0, groups: 0, any_case, depth: 0 };
        let alternatives = parser.alternatives()?;
        (parser.at == parser.text.len()).then_some(Expression { alternatives })
    }

    /// The bytes that the group with a number or a name may match; none for a group of one byte, with which nobody says much.
    pub fn group(&self, name: &str) -> Option<ByteSet> {
        fn find(alternatives: &[Vec<ExpressionPart>], name: &str) -> Option<ByteSet> {
            alternatives.iter().flatten().find_map(|part| match part {
                ExpressionPart::Group(group) => {
                    let is_it = group.name.as_deref() == Some(name)
                        || group.number.is_some_and(|number| number.to_string() == name);
                    if is_it
                        && group
                            .alternatives
                            .iter()
                            .all(|one| matches!(one.as_slice(), [] | [ExpressionPart::Bytes(..)]))
                    {
                        return Some(ByteSet::default());
                    }
                    if is_it {
                        return Some(
                            group
                                .alternatives
                                .iter()
                                .flatten()
                                .fold(ByteSet::default(), |set, part| set.with(bytes(part))),
                        );
                    }
                    find(&group.alternatives, name)
                }
                ExpressionPart::Repeat { part, .. } => find(&[vec![(**part).clone()]], name),
                _ => None,
            })
        }
        find(&self.alternatives, name)
    }

    /// Whether the time for a text that does not match may double with each byte.
    ///
    /// This is a repetition of something that is itself repeated, so that the same bytes can be divided in many ways. Behind it
    /// stands something that may fail, or all of these ways would not be tried.
    pub fn is_exponential(&self) -> bool {
        self.alternatives.iter().any(|sequence| is_exponential(sequence, false))
    }
}

/// The bytes that a part may match.
pub fn bytes(part: &ExpressionPart) -> ByteSet {
    match part {
        ExpressionPart::Bytes(set, _) => *set,
        ExpressionPart::Group(group) => {
            group.alternatives.iter().flatten().fold(ByteSet::default(), |set, part| set.with(bytes(part)))
        }
        ExpressionPart::Repeat { part, .. } => bytes(part),
        ExpressionPart::Start | ExpressionPart::End | ExpressionPart::Nothing => ByteSet::default(),
    }
}

/// The bytes with which what a part matches may end.
pub fn last_bytes(part: &ExpressionPart) -> ByteSet {
    match part {
        ExpressionPart::Bytes(set, _) => *set,
        ExpressionPart::Group(group) => group.alternatives.iter().fold(ByteSet::default(), |mut set, sequence| {
            for part in sequence.iter().rev() {
                set = set.with(last_bytes(part));
                if !is_optional(part) {
                    break;
                }
            }
            set
        }),
        ExpressionPart::Repeat { part, .. } => last_bytes(part),
        ExpressionPart::Start | ExpressionPart::End | ExpressionPart::Nothing => ByteSet::default(),
    }
}

/// Whether a part matches the empty text.
fn is_optional(part: &ExpressionPart) -> bool {
    match part {
        ExpressionPart::Bytes(..) => false,
        ExpressionPart::Group(group) => group.alternatives.iter().any(|sequence| sequence.iter().all(is_optional)),
        ExpressionPart::Repeat { part, min, .. } => *min == 0 || is_optional(part),
        ExpressionPart::Start | ExpressionPart::End | ExpressionPart::Nothing => true,
    }
}

fn is_unlimited(max: Option<u32>) -> bool {
    max.is_none_or(|max| max >= MANY)
}

/// Whether a sequence is; `fails`: something behind it may fail.
fn is_exponential(sequence: &[ExpressionPart], fails: bool) -> bool {
    sequence.iter().enumerate().any(|(at, part)| {
        let fails =
            fails || sequence[at + 1..].iter().any(|next| !is_optional(next) || matches!(next, ExpressionPart::End));
        match part {
            ExpressionPart::Group(group) => group.alternatives.iter().any(|inner| is_exponential(inner, fails)),
            ExpressionPart::Repeat { part, max, is_possessive: false, .. } => {
                let ExpressionPart::Group(group) = &**part else { return false };
                fails
                    && is_unlimited(*max)
                    && (is_ambiguous(group) || group.alternatives.iter().any(|inner| is_exponential(inner, true)))
                    || group.alternatives.iter().any(|inner| is_exponential(inner, fails))
            }
            _ => false,
        }
    })
}

/// Whether what the group matches several times in a row can be divided between the times in several ways.
fn is_ambiguous(group: &ExpressionGroup) -> bool {
    let swallows = |sequence: &[ExpressionPart]| {
        sequence.iter().enumerate().any(|(at, part)| {
            let (inner, max) = match part {
                ExpressionPart::Repeat { part, max, is_possessive: false, .. } => (part, max),
                // A group that is not repeated itself, and alone: (?:(a+))+
                ExpressionPart::Group(inner) => return sequence.len() == 1 && is_ambiguous(inner),
                _ => return false,
            };
            let set = bytes(inner);
            let others = sequence.iter().enumerate().filter(|(other, part)| *other != at && !is_optional(part));
            is_unlimited(*max) && !set.is_empty() && others.map(|(_, part)| bytes(part)).all(|other| other.meets(set))
        })
    };
    let single: Vec<ByteSet> = group
        .alternatives
        .iter()
        .filter_map(|sequence| match sequence.as_slice() {
            [part @ ExpressionPart::Bytes(..)] => Some(bytes(part)),
            _ => None,
        })
        .collect();
    let overlap = single.iter().enumerate().any(|(at, set)| single[at + 1..].iter().any(|other| set.meets(*other)));
    overlap || group.alternatives.iter().any(|sequence| swallows(sequence))
}

struct ExpressionParser<'p> {
    text: &'p [u8],
    at: usize,
    groups: u32,
    any_case: bool,
    depth: usize,
}

impl ExpressionParser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, text: &[u8]) -> bool {
        let is_here = self.text[self.at..].starts_with(text);
        self.at += if is_here { text.len() } else { 0 };
        is_here
    }

    fn until(&mut self, end: u8) -> Option<&[u8]> {
        let length = self.text[self.at..].iter().position(|byte| *byte == end)?;
        let found = &self.text[self.at..self.at + length];
        self.at += length + 1;
        Some(found)
    }

    fn alternatives(&mut self) -> Option<Vec<Vec<ExpressionPart>>> {
        let mut alternatives = vec![Vec::new()];
        while let Some(byte) = self.peek() {
            match byte {
                b')' => break,
                b'|' => {
                    self.at += 1;
                    alternatives.push(Vec::new());
                }
                _ => {
                    let part = self.part()?;
                    let part = self.repeated(part)?;
                    alternatives.last_mut()?.push(part);
                }
            }
        }
        Some(alternatives)
    }

    fn letter(&self, set: ByteSet) -> ExpressionPart {
        ExpressionPart::Bytes(if self.any_case { set.folded() } else { set }, false)
    }

    fn part(&mut self) -> Option<ExpressionPart> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'^' => ExpressionPart::Start,
            b'$' => ExpressionPart::End,
            b'.' => ExpressionPart::Bytes(ByteSet::of(b"\n").inverse(), true),
            b'[' => {
                let set = self.class()?;
                self.letter(set)
            }
            b'(' => self.group()?,
            b'\\' => match self.escape()? {
                Some(set) => self.letter(set),
                None if matches!(self.text[self.at - 1], b'z' | b'Z') => ExpressionPart::End,
                None if self.text[self.at - 1] == b'A' => ExpressionPart::Start,
                None => ExpressionPart::Nothing,
            },
            byte => self.letter(ByteSet::of(&[byte])),
        })
    }

    /// The set of an escape, behind its backslash; none inside of the answer for an escape that takes no byte.
    fn escape(&mut self) -> Option<Option<ByteSet>> {
        let byte = self.peek()?;
        self.at += 1;
        let mut word = ByteSet::of(b"_");
        word.insert_range(b'0', b'9');
        word.insert_range(b'a', b'z');
        word.insert_range(b'A', b'Z');
        let mut digit = ByteSet::default();
        digit.insert_range(b'0', b'9');
        let space = ByteSet::of(b" \t\n\r\x0b\x0c");
        Some(Some(match byte {
            b'd' => digit,
            b'D' => digit.inverse(),
            b'w' => word,
            b'W' => word.inverse(),
            b's' => space,
            b'S' => space.inverse(),
            b'h' => ByteSet::of(b" \t"),
            b'R' | b'v' => ByteSet::of(b"\r\n"),
            b'N' => ByteSet::of(b"\n").inverse(),
            b'n' => ByteSet::of(b"\n"),
            b'r' => ByteSet::of(b"\r"),
            b't' => ByteSet::of(b"\t"),
            b'x' => {
                let digits = std::str::from_utf8(self.text.get(self.at..self.at + 2)?).ok()?;
                self.at += 2;
                ByteSet::of(&[u8::from_str_radix(digits, 16).ok()?])
            }
            b'b' | b'B' | b'A' | b'z' | b'Z' | b'G' | b'K' => return Some(None),
            // References to groups, properties of Unicode and quotations are left alone.
            byte if byte.is_ascii_alphanumeric() => return None,
            byte => ByteSet::of(&[byte]),
        }))
    }

    fn class(&mut self) -> Option<ByteSet> {
        let is_inverse = self.take(b"^");
        let mut set = ByteSet::default();
        let mut is_first = true;
        loop {
            let byte = self.peek()?;
            self.at += 1;
            let low = match byte {
                b']' if !is_first => break,
                b'[' if self.peek() == Some(b':') => {
                    self.at += 1;
                    let name = self.until(b':')?.to_owned();
                    self.at += 1;
                    set = set.with(posix(&name)?);
                    is_first = false;
                    continue;
                }
                b'\\' => {
                    let at = self.at;
                    match self.escape()? {
                        // In a class, \b is the backspace.
                        None => 8,
                        Some(escaped) if self.text[at].is_ascii_alphanumeric() && self.text[at] != b'x' => {
                            set = set.with(escaped);
                            is_first = false;
                            continue;
                        }
                        Some(escaped) => (0..=u8::MAX).find(|byte| escaped.has(*byte))?,
                    }
                }
                byte => byte,
            };
            is_first = false;
            match (self.peek(), self.text.get(self.at + 1)) {
                (Some(b'-'), Some(high)) if !b"]\\[".contains(high) => {
                    set.insert_range(low, *high);
                    self.at += 2;
                }
                _ => set.insert(low),
            }
        }
        Some(if is_inverse { set.inverse() } else { set })
    }

    fn group(&mut self) -> Option<ExpressionPart> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return None;
        }
        let (mut number, mut name, mut takes, mut is_atomic) = (None, None, true, false);
        if self.take(b"?") {
            if self.take(b"=") || self.take(b"!") || self.take(b"<=") || self.take(b"<!") {
                takes = false;
            } else if self.take(b">") {
                is_atomic = true;
            } else if self.take(b":") || self.take(b"|") {
                // A group without a number.
            } else if self.take(b"P<") || self.take(b"<") {
                name = Some(text_of(self.until(b'>')?).into_owned());
            } else if self.take(b"'") {
                name = Some(text_of(self.until(b'\'')?).into_owned());
            } else {
                // Switches: (?i) or (?i:…)
                let is_off =
                    |flags: &[u8], letter| flags.iter().take_while(|flag| **flag != b'-').any(|flag| *flag == letter);
                let length =
                    self.text[self.at..].iter().take_while(|byte| byte.is_ascii_lowercase() || **byte == b'-').count();
                let flags = &self.text[self.at..self.at + length];
                self.any_case |= is_off(flags, b'i');
                self.at += length;
                if self.take(b")") {
                    self.depth -= 1;
                    return Some(ExpressionPart::Nothing);
                }
                if !self.take(b":") {
                    return None;
                }
            }
        }
        if name.is_some() || self.text[self.at - 1] == b'(' {
            self.groups += 1;
            number = Some(self.groups);
        }
        let alternatives = self.alternatives()?;
        self.depth -= 1;
        if !self.take(b")") {
            return None;
        }
        if !takes {
            return Some(ExpressionPart::Nothing);
        }
        let group = ExpressionPart::Group(ExpressionGroup { alternatives, number, name });
        Some(if is_atomic {
            ExpressionPart::Repeat { part: Box::new(group), min: 1, max: Some(1), is_possessive: true }
        } else {
            group
        })
    }

    fn repeated(&mut self, part: ExpressionPart) -> Option<ExpressionPart> {
        let (min, max) = match self.peek() {
            Some(b'*') => (0, None),
            Some(b'+') => (1, None),
            Some(b'?') => (0, Some(1)),
            Some(b'{') => match limits(&self.text[self.at..]) {
                Some((min, max, length)) => {
                    self.at += length - 1;
                    (min, max)
                }
                None => return Some(part),
            },
            _ => return Some(part),
        };
        self.at += 1;
        let is_possessive = self.take(b"+");
        let _ = !is_possessive && self.take(b"?");
        let part = ExpressionPart::Repeat { part: Box::new(part), min, max, is_possessive };
        // One more repetition behind it is an error of the expression.
        if matches!(self.peek(), Some(b'*' | b'+')) { None } else { Some(part) }
    }
}

/// The fewest and the most times of `{n}`, `{n,}` or `{n,m}`, and its length.
fn limits(text: &[u8]) -> Option<(u32, Option<u32>, usize)> {
    let end = text.iter().position(|byte| *byte == b'}')?;
    let inside = std::str::from_utf8(&text[1..end]).ok()?;
    let (min, max) = match inside.split_once(',') {
        Some((min, "")) => (min.parse().ok()?, None),
        Some((min, max)) => (min.parse().ok()?, Some(max.parse().ok()?)),
        None => {
            let times = inside.parse().ok()?;
            (times, Some(times))
        }
    };
    Some((min, max, end + 1))
}

fn posix(name: &[u8]) -> Option<ByteSet> {
    let is_in: fn(&u8) -> bool = match name {
        b"alpha" => u8::is_ascii_alphabetic,
        b"alnum" => u8::is_ascii_alphanumeric,
        b"digit" => u8::is_ascii_digit,
        b"lower" => u8::is_ascii_lowercase,
        b"upper" => u8::is_ascii_uppercase,
        b"space" => u8::is_ascii_whitespace,
        b"punct" => u8::is_ascii_punctuation,
        b"xdigit" => u8::is_ascii_hexdigit,
        b"word" => |byte| byte.is_ascii_alphanumeric() || *byte == b'_',
        _ => return None,
    };
    Some(ByteSet::of(&(0..=u8::MAX).filter(is_in).collect::<Vec<u8>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_repetitions_are_found_and_others_are_not() {
        let is_exponential =
            |text: &str| Expression::parse(text, false).is_some_and(|pattern| pattern.is_exponential());
        for text in [
            "^(a+)+$",
            r"^/(\w+\s?)*$",
            "(.*)*x",
            "^((a+))+b",
            "(a|a)*b",
            r"^/([^/]+/*)*/end$",
            r"(x+x+)+y",
            r"(\d|\w)+!",
            "(?:a+){20,}b",
            r"^(([a-z])+.)+[A-Z]([a-z])+$",
        ] {
            assert!(is_exponential(text), "{text}");
        }
        for text in [
            r"^/(?:/[^/]+)*$",
            r"\.(php|html)$",
            "^(.*)$",
            "(a+)+",
            r"^/(\w+\.)*com$",
            "(?>a+)+b",
            "(a++)+b",
            "(a+)?b",
            r"^/([a-z0-9-]+/)*index\.php$",
            "(a|b)*c",
            r"^(?!/x)(/[a-z]+)+$",
            "(a+){3}b",
        ] {
            assert!(!is_exponential(text), "{text}");
        }
    }

    #[test]
    fn groups_have_their_bytes() {
        let pattern = Expression::parse(r"^/(a|bc)/(?<name>[^/]+)/(?:x)(\d+)(.*)$", false).expect("an expression");
        let group = |name: &str| pattern.group(name).expect("a group");
        assert!(group("1").has(b'a') && !group("1").has(b'd'));
        assert!(group("name").has(b'\n') && group("2").has(b'.') && !group("2").has(b'/'));
        assert!(group("3").has(b'7') && !group("3").has(b'a'));
        assert!(group("4").has(b'/') && !group("4").has(b'\n'));
        assert!(pattern.group("5").is_none());
        for wrong in ["(a", "a)", "[a", r"\p{L}", r"(a)\1", "a**"] {
            assert!(Expression::parse(wrong, false).is_none(), "{wrong}");
        }
        assert!(Expression::parse(r"[[:alpha:]\d\]-]{2}[]a](?i:x)(?i)y\x41\Az\b", false).is_some());
    }

    #[test]
    fn texts_that_are_no_expressions_are_survived() {
        let signs = [
            "a", "\\", "[", "]", "(", ")", "?", "*", "+", "{1,", "}", "|", "^", "$", ".", "<", ">", ":", "-", "x4",
            "[:", "é",
        ];
        let mut seed: u32 = 7;
        let (mut read, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text += signs[(seed >> 16) as usize % signs.len()];
            }
            match Expression::parse(&text, true) {
                Some(pattern) => {
                    let _ = (pattern.is_exponential(), pattern.group("1"));
                    read += 1;
                }
                None => refused += 1,
            }
        }
        assert!(read > 100 && refused > 100, "{read} {refused}");
    }
}
