//! The number of assertions in the product: code that says what it relies on fails where it goes wrong.

use super::allow::Exceptions;
use super::source::{Source, Token, TokenKind};
use super::{Problem, Tree, allow};

/// Macros that say what has to hold.
const MACROS: [&str; 7] =
    ["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne", "unreachable"];

/// Crates that are not a part of the product.
const OTHERS: &str = "crates/testkit/";

/// The numbers for code that is not compiled for tests only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AssertionCounts {
    assertions: usize,
    lines: usize,
}

impl AssertionCounts {
    /// AssertionCounts in all crates of the product. A line counts if it has code: comments and documentation do not.
    pub(crate) fn of(sources: &[Source]) -> AssertionCounts {
        let mut counts = AssertionCounts::default();
        let product = |source: &&Source| source.path.starts_with("crates/") && !source.path.starts_with(OTHERS);
        for source in sources.iter().filter(product) {
            let (mut last, mut code) = (0, 0);
            for (index, token) in source.tokens.iter().enumerate().filter(|(_, token)| !token.test) {
                code = code.max(index + length_of_documentation(&source.tokens[index..]));
                if index < code {
                    continue;
                }
                counts.lines += usize::from(token.line != last);
                last = token.line;
                counts.assertions += usize::from(is_assertion(token, &source.tokens[index + 1..]));
            }
        }
        counts
    }

    /// Assertions for each hundred lines, in hundredths.
    fn hundredths(self) -> usize {
        self.assertions * 10_000 / self.lines.max(1)
    }
}

impl std::fmt::Display for AssertionCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, rest) = (self.hundredths() / 100, self.hundredths() % 100);
        write!(f, "{} assertions in {} lines, {whole}.{rest:02} for each hundred", self.assertions, self.lines)
    }
}

/// The length of the doc comment that the tokens begin with, in tokens: it is an attribute with a string.
fn length_of_documentation(tokens: &[Token]) -> usize {
    let inner = usize::from(matches!(tokens, [_, mark, ..] if mark.is_mark('!')));
    let is_doc = match tokens {
        [hash, ..] if hash.is_mark('#') => tokens.get(inner + 2).is_some_and(|word| word.is_word("doc")),
        _ => false,
    };
    // The mark, the bracket, the word, the sign, the string and the bracket.
    if is_doc { inner + 6 } else { 0 }
}

/// Whether the token is the name of a macro that asserts, and what follows calls it.
fn is_assertion(token: &Token, next: &[Token]) -> bool {
    let is_called = matches!(next, [mark, open, ..] if mark.is_mark('!') && matches!(open.kind, TokenKind::Open(_)));
    is_called && token.word().is_some_and(|word| MACROS.contains(&word))
}

/// Reports that there are fewer assertions than `xtask/tidy.toml` says.
pub(crate) fn check(tree: &Tree, sources: &[Source], exceptions: &Exceptions, problems: &mut Vec<Problem>) {
    let (counts, least) = (AssertionCounts::of(sources), exceptions.least_assertions());
    if counts.hundredths() < least {
        let line =
            tree.get(allow::FILE).and_then(|text| text.lines().position(|line| line.starts_with("[assertions]")));
        let (whole, rest) = (least / 100, least % 100);
        let message = format!("{counts}, and there were {whole}.{rest:02}");
        let fix = "say what the new code relies on (CONTRIBUTING.md, \"Assertions\"); the number only rises";
        problems.push(Problem::new(allow::FILE, line.map_or(1, |line| line + 1), message, fix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::read_all;

    fn counts(files: &[(&str, &str)]) -> AssertionCounts {
        AssertionCounts::of(&read_all(&Tree::of(files), &mut Vec::new()))
    }

    #[test]
    fn what_counts_is_a_call_in_the_product() {
        let text = "//! a\n/// b\n#[inline]\nfn a() {\n    assert!(x);\n    debug_assert_eq!(a, b);\n}\nconst _: () = assert!(true);\n\
                    // assert!(x)\n\nfn assert(unreachable: u8) { assert(1); }\n#[cfg(test)]\nmod tests { fn b() { assert!(x) } }";
        let expected = AssertionCounts { assertions: 3, lines: 7 };
        assert_eq!(counts(&[("crates/a/src/lib.rs", text)]), expected);
        assert_eq!(
            counts(&[("crates/testkit/src/lib.rs", text), ("xtask/src/main.rs", text)]),
            AssertionCounts::default()
        );
        assert_eq!(expected.to_string(), "3 assertions in 7 lines, 42.85 for each hundred");
    }

    #[test]
    fn there_must_not_be_fewer() {
        let found = |least: &str| {
            let allow = format!("# first\n[assertions]\nleast = {least}\n");
            let tree =
                Tree::of(&[(allow::FILE, &allow), ("crates/a/src/lib.rs", "fn a() { assert!(x) }\n\nfn b() {}")]);
            let mut problems = Vec::new();
            let exceptions = Exceptions::read(&tree, &mut problems);
            let sources = read_all(&tree, &mut problems);
            check(&tree, &sources, &exceptions, &mut problems);
            problems
        };
        assert_eq!(found("5000"), []);
        assert_eq!((found("5001")[0].line, found("5001").len()), (2, 1));
    }
}
