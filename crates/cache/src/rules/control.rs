//! `Cache-Control` of responses and requests: RFC 9111 section 5.2.
//!
//! Names ignore case. Arguments are taken as tokens and as quoted strings, whichever form the RFC prefers for a
//! directive. An unknown directive is skipped, and so is text that is no directive at all, up to the next comma that is
//! not quoted. If a time is given twice, the first one counts. A time that cannot be read is [`Time::Unreadable`],
//! never a guess.

use smallvec::SmallVec;

use super::headers::{members, seconds, trim};
use freerun_proto::ascii::{TOKEN, class};

/// A directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directive<'a> {
    /// The name, as written.
    pub name: &'a [u8],
    /// The text behind the `=`, without quotes; escapes are left as they are.
    pub argument: Option<&'a [u8]>,
    /// There was text behind the argument that does not belong there, or a quote was not closed.
    pub garbled: bool,
}

/// The directives of one field line.
#[derive(Debug, Clone)]
pub struct Directives<'a> {
    rest: &'a [u8],
}

impl<'a> Directives<'a> {
    /// The directives of a field's value.
    pub fn of(value: &'a [u8]) -> Directives<'a> {
        Directives { rest: value }
    }

    /// Takes the bytes of a token.
    fn token(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|&b| class(b) & TOKEN == 0).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        token
    }

    /// Takes a quoted string, whose first quote is the next byte; `None` if it does not end.
    fn quoted(&mut self) -> Option<&'a [u8]> {
        let text = &self.rest[1..];
        let end = closing_quote(text)?;
        self.rest = &text[end + 1..];
        Some(&text[..end])
    }

    /// Takes everything up to the next comma that is not quoted, and the comma; returns whether there was anything.
    fn skip(&mut self) -> bool {
        let mut at = 0;
        while at < self.rest.len() && self.rest[at] != b',' {
            if self.rest[at] == b'"' {
                match closing_quote(&self.rest[at + 1..]) {
                    Some(end) => at += end + 1,
                    None => at = self.rest.len() - 1,
                }
            }
            at += 1;
        }
        let skipped = &self.rest[..at];
        self.rest = self.rest.get(at + 1..).unwrap_or_default();
        !trim(skipped).is_empty()
    }
}

/// The place of the quote that ends a quoted string.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

impl<'a> Iterator for Directives<'a> {
    type Item = Directive<'a>;

    fn next(&mut self) -> Option<Directive<'a>> {
        loop {
            let start = self.rest.iter().position(|&b| !matches!(b, b' ' | b'\t' | b','))?;
            self.rest = &self.rest[start..];
            let name = self.token();
            if name.is_empty() {
                self.skip();
                continue;
            }
            let mut unclosed = false;
            let argument = match self.rest.first() {
                Some(b'=') => {
                    self.rest = &self.rest[1..];
                    match self.rest.first() {
                        Some(b'"') => {
                            let text = self.quoted();
                            unclosed = text.is_none();
                            text
                        }
                        _ => Some(self.token()),
                    }
                }
                _ => None,
            };
            let garbled = self.skip() | unclosed;
            return Some(Directive { name, argument, garbled });
        }
    }
}

/// A number of seconds that a directive may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Time {
    /// The directive is not there.
    #[default]
    Absent,
    /// A number of seconds.
    Is(u64),
    /// The directive has an argument that is not a number of seconds.
    Unreadable,
}

impl Time {
    /// Takes the value of a directive, unless there is a value already.
    fn set(&mut self, directive: &Directive<'_>) {
        if *self == Time::Absent {
            *self = match directive.argument.and_then(seconds) {
                Some(number) if !directive.garbled => Time::Is(number),
                _ => Time::Unreadable,
            };
        }
    }

    /// The seconds, if they can be read.
    pub fn seconds(self) -> Option<u64> {
        match self {
            Time::Is(seconds) => Some(seconds),
            Time::Absent | Time::Unreadable => None,
        }
    }
}

/// A directive that is about the response, or only about fields of it: `no-cache`, `private`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DirectiveScope<'a> {
    /// The directive is not there.
    #[default]
    Nothing,
    /// The directive is about the fields of these names.
    Fields(SmallVec<[&'a [u8]; 4]>),
    /// The directive is about all of the response.
    All,
}

impl<'a> DirectiveScope<'a> {
    fn add(&mut self, directive: &Directive<'a>) {
        let named = directive.argument.filter(|_| !directive.garbled).map(members);
        let names: SmallVec<[&'a [u8]; 4]> = named.into_iter().flatten().collect();
        match self {
            _ if names.is_empty() => *self = DirectiveScope::All,
            DirectiveScope::Nothing => *self = DirectiveScope::Fields(names),
            DirectiveScope::Fields(all) => all.extend(names),
            DirectiveScope::All => {}
        }
    }

    /// The names of the fields that the directive is about.
    pub fn fields(&self) -> &[&'a [u8]] {
        match self {
            DirectiveScope::Fields(names) => names,
            DirectiveScope::Nothing | DirectiveScope::All => &[],
        }
    }
}

/// `Cache-Control` of a response: RFC 9111 section 5.2.2, and RFC 5861.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseControl<'a> {
    /// The time that the directive `max-age` gives.
    pub max_age: Time,
    /// The time that the directive `s-maxage` gives.
    pub s_maxage: Time,
    /// The time that the directive `stale-while-revalidate` gives.
    pub stale_while_revalidate: Time,
    /// The time that the directive `stale-if-error` gives.
    pub stale_if_error: Time,
    /// Whether the directive `no-store` is there.
    pub no_store: bool,
    /// The part of the response that the directive `no-cache` is about.
    pub no_cache: DirectiveScope<'a>,
    /// The part of the response that the directive `private` is about.
    pub private: DirectiveScope<'a>,
    /// Whether the directive `public` is there.
    pub public: bool,
    /// Whether the directive `must-revalidate` is there.
    pub must_revalidate: bool,
    /// Whether the directive `proxy-revalidate` is there.
    pub proxy_revalidate: bool,
    /// Whether the directive `must-understand` is there.
    pub must_understand: bool,
}

impl<'a> ResponseControl<'a> {
    /// The directives of all `Cache-Control` lines of a response.
    pub fn of(lines: impl Iterator<Item = &'a [u8]>) -> ResponseControl<'a> {
        let mut control = ResponseControl::default();
        for directive in lines.flat_map(Directives::of) {
            control.add(&directive);
        }
        control
    }

    fn add(&mut self, directive: &Directive<'a>) {
        let is = |name: &str| directive.name.eq_ignore_ascii_case(name.as_bytes());
        if is("max-age") {
            self.max_age.set(directive);
        } else if is("s-maxage") {
            self.s_maxage.set(directive);
        } else if is("stale-while-revalidate") {
            self.stale_while_revalidate.set(directive);
        } else if is("stale-if-error") {
            self.stale_if_error.set(directive);
        } else if is("no-store") {
            self.no_store = true;
        } else if is("no-cache") {
            self.no_cache.add(directive);
        } else if is("private") {
            self.private.add(directive);
        } else if is("public") {
            self.public = true;
        } else if is("must-revalidate") {
            self.must_revalidate = true;
        } else if is("proxy-revalidate") {
            self.proxy_revalidate = true;
        } else if is("must-understand") {
            self.must_understand = true;
        }
    }
}

/// Staleness of a response that a client accepts: `max-stale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaxStale {
    /// The client accepts no stale response.
    #[default]
    No,
    /// The client accepts a response that has been stale for up to this number of seconds.
    Seconds(u64),
    /// The client accepts any stale response.
    Any,
}

/// `Cache-Control` of a request: RFC 9111 section 5.2.1, and RFC 5861.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestControl {
    /// `max-age`; a value that cannot be read means 0.
    pub max_age: Option<u64>,
    /// `min-fresh`; a value that cannot be read means [`MAX_SECONDS`](super::MAX_SECONDS).
    pub min_fresh: Option<u64>,
    /// `max-stale`; a value that cannot be read is ignored.
    pub max_stale: MaxStale,
    /// `stale-if-error`; a value that cannot be read is ignored.
    pub stale_if_error: Option<u64>,
    /// `no-cache`, also from `Pragma` if there is no `Cache-Control`.
    pub no_cache: bool,
    /// Whether the directive `no-store` is there.
    pub no_store: bool,
    /// Whether the directive `only-if-cached` is there.
    pub only_if_cached: bool,
}

impl RequestControl {
    /// The directives of all lines of `Cache-Control` of a request; the lines of `Pragma` (RFC 9111 section 5.4) count
    /// if there are none of `Cache-Control`.
    pub fn of<'a>(lines: impl Iterator<Item = &'a [u8]>, mut pragma: impl Iterator<Item = &'a [u8]>) -> RequestControl {
        let mut control = RequestControl::default();
        let mut any = false;
        for line in lines {
            any = true;
            Directives::of(line).for_each(|directive| control.add(&directive));
        }
        if !any {
            control.no_cache =
                pragma.any(|line| Directives::of(line).any(|d| d.name.eq_ignore_ascii_case(b"no-cache")));
        }
        control
    }

    fn add(&mut self, directive: &Directive<'_>) {
        let is = |name: &str| directive.name.eq_ignore_ascii_case(name.as_bytes());
        let number = || directive.argument.filter(|_| !directive.garbled).and_then(seconds);
        if is("max-age") {
            self.max_age.get_or_insert_with(|| number().unwrap_or(0));
        } else if is("min-fresh") {
            self.min_fresh.get_or_insert_with(|| number().unwrap_or(super::MAX_SECONDS));
        } else if is("max-stale") && self.max_stale == MaxStale::No {
            self.max_stale = match directive.argument {
                None if !directive.garbled => MaxStale::Any,
                _ => number().map_or(MaxStale::No, MaxStale::Seconds),
            };
        } else if is("stale-if-error") {
            self.stale_if_error = self.stale_if_error.or_else(number);
        } else if is("no-cache") {
            self.no_cache = true;
        } else if is("no-store") {
            self.no_store = true;
        } else if is("only-if-cached") {
            self.only_if_cached = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn response(text: &str) -> ResponseControl<'_> {
        ResponseControl::of(text.split('|').map(str::as_bytes))
    }

    fn request(text: &str) -> RequestControl {
        RequestControl::of(text.split('|').map(str::as_bytes), std::iter::empty())
    }

    #[test]
    fn directives_are_parted_at_commas_that_are_not_quoted() {
        let all = |text: &'static str| {
            Directives::of(text.as_bytes())
                .map(|d| {
                    let text = |t: &[u8]| String::from_utf8_lossy(t).into_owned();
                    let argument = d.argument.map_or_else(String::new, |a| format!("={}", text(a)));
                    format!("{}{}{}", text(d.name), argument, if d.garbled { "!" } else { "" })
                })
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (text, expected) in [
            ("", ""),
            (" , ,\t,", ""),
            ("a", "a"),
            ("a,b , c", "a b c"),
            ("a=1, b=\"x, y\",c", "a=1 b=x, y c"),
            ("a=\"x\\\", b\", c", "a=x\\\", b c"),
            ("a=", "a="),
            ("a=,b", "a= b"),
            ("a =1", "a!"),
            ("a= 1", "a=!"),
            ("a=1 b, c", "a=1! c"),
            ("a=1;b, c", "a=1! c"),
            ("a=\"x\"y, c", "a=x! c"),
            ("a=\"x, b", "a!"),
            ("a=1.5, =3, \"q, r\", (x, b", "a=1.5 b"),
            ("a='1'", "a='1'"),
        ] {
            assert_eq!(all(text), expected, "{text}");
        }
    }

    #[test]
    fn times_of_a_response() {
        use Time::{Absent, Is, Unreadable};
        for (text, expected) in [
            ("", Absent),
            ("max-age=100", Is(100)),
            ("MAX-age=\"100\"", Is(100)),
            ("max-age=00100", Is(100)),
            ("max-age=0", Is(0)),
            ("max-age", Unreadable),
            ("max-age=", Unreadable),
            ("max-age=\"\"", Unreadable),
            ("max-age='100'", Unreadable),
            ("max-age=-1", Unreadable),
            ("max-age=+1", Unreadable),
            ("max-age=1.5", Unreadable),
            ("max-age=1a", Unreadable),
            ("max-age =1", Unreadable),
            ("max-age= 1", Unreadable),
            ("max-age=1 2", Unreadable),
            ("max-age=\"1", Unreadable),
            ("max-age=2147483649", Is(2_147_483_648)),
            ("max-age=99999999999999999999999999", Is(2_147_483_648)),
            ("max-age=1, max-age=2", Is(1)),
            ("max-age=1|max-age=2", Is(1)),
            ("max-age=x|max-age=2", Unreadable),
            ("extension=\"max-age=100\"", Absent),
            ("extension=\"a, max-age=100\", max-age=1", Is(1)),
            ("xmax-age=100", Absent),
        ] {
            assert_eq!(response(text).max_age, expected, "{text}");
        }
        let all = response("s-maxage=1, stale-while-revalidate=2|stale-if-error=3");
        assert_eq!((all.s_maxage, all.stale_while_revalidate, all.stale_if_error), (Is(1), Is(2), Is(3)));
    }

    #[test]
    fn flags_and_fields_of_a_response() {
        let all = response("No-Store, PUBLIC, must-revalidate, proxy-revalidate, must-understand");
        assert!(all.no_store && all.public && all.must_revalidate && all.proxy_revalidate && all.must_understand);
        let fields = |text| response(text).no_cache.fields().join(&b' ');
        for (text, expected) in [
            ("no-cache=\"a\"", "a"),
            ("no-cache=\"a, b,, \"", "a b"),
            ("no-cache=a", "a"),
            ("no-cache=\"a\"|no-cache=\"b\"", "a b"),
            ("no-cache", ""),
        ] {
            assert_eq!(fields(text), expected.as_bytes(), "{text}");
        }
        for text in [
            "no-cache",
            "no-cache=\"\"",
            "no-cache=",
            "no-cache=\"a",
            "no-cache=\"a\", no-cache",
            "no-cache,no-cache=a",
        ] {
            assert_eq!(response(text).no_cache, DirectiveScope::All, "{text}");
        }
        assert_eq!(response("private=\"x\"").private.fields(), [b"x"]);
        assert_eq!(response("no-storex, xprivate").private, DirectiveScope::Nothing);
        assert!(!response("no-storex").no_store);
    }

    #[test]
    fn requests() {
        let all = request("max-age=1, min-fresh=2, max-stale=3, stale-if-error=4|no-cache|no-store, only-if-cached");
        assert_eq!((all.max_age, all.min_fresh, all.max_stale), (Some(1), Some(2), MaxStale::Seconds(3)));
        assert!(all.no_cache && all.no_store && all.only_if_cached && all.stale_if_error == Some(4));
        assert_eq!(request("max-stale").max_stale, MaxStale::Any);
        assert_eq!(request("max-stale=x").max_stale, MaxStale::No);
        assert_eq!(request("max-stale x").max_stale, MaxStale::No);
        assert_eq!(request("max-age=x").max_age, Some(0));
        assert_eq!(request("min-fresh").min_fresh, Some(super::super::MAX_SECONDS));
        assert_eq!(request("foo"), RequestControl::default());
        let pragma = |control: &[&'static str]| {
            let lines = control.iter().map(|text| text.as_bytes());
            RequestControl::of(lines, [&b"x, No-Cache"[..]].into_iter()).no_cache
        };
        assert!(pragma(&[]) && !pragma(&["max-age=1"]) && !pragma(&[""]));
    }

    proptest! {
        #[test]
        fn garbage_does_no_harm_and_every_directive_ends(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(Directives::of(&bytes).count() <= bytes.len());
            let _ = ResponseControl::of(std::iter::once(&bytes[..]));
            let _ = RequestControl::of(std::iter::once(&bytes[..]), std::iter::once(&bytes[..]));
        }

        #[test]
        fn what_stands_around_a_directive_does_not_change_it(
            before in "[a-z]{1,4}(=([a-z0-9]{0,3}|\"[a-z ,=\\\\]{0,5}x\"))?",
            after in "[a-z]{1,4}(=([a-z0-9]{0,3}|\"[a-z ,=]{0,5}\"))?",
            seconds in 0u32..1_000_000,
        ) {
            let text = format!("{before},max-age={seconds} ,\t{after}");
            prop_assert_eq!(response(&text).max_age, Time::Is(seconds.into()), "{}", text);
        }
    }
}
