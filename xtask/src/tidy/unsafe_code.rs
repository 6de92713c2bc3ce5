//! `unsafe` belongs to `crates/sys` alone.
//!
//! The compiler forbids it too (`unsafe_code = "forbid"` in the workspace's lints), but only where a crate inherits the
//! lints and the code is compiled. This check sees tests, benchmarks, fuzz targets and code behind `cfg` as well.

use super::Problem;
use super::source::Source;

/// The one folder that may hold `unsafe`.
const ALLOWED: &str = "crates/sys/";

/// Reports a problem for each line with `unsafe` outside [`ALLOWED`].
pub(crate) fn check(sources: &[Source], problems: &mut Vec<Problem>) {
    for source in sources.iter().filter(|source| !source.path.starts_with(ALLOWED)) {
        for token in source.tokens.iter().filter(|token| token.is_word("unsafe")) {
            let fix = "put the call behind a safe function in crates/sys, with a SAFETY comment and a test";
            problems.push(Problem::new(&source.path, token.line, "unsafe outside crates/sys", fix));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    fn found(path: &str, text: &str) -> Vec<usize> {
        source::lines_found(check, path, text)
    }

    #[test]
    fn blocks_functions_and_attributes_are_seen() {
        let text = "fn a() {\n unsafe { b() }\n}\nunsafe fn b() {}\n#[unsafe(no_mangle)]\nfn c() {}\n";
        assert_eq!(found("crates/http/src/a.rs", text), [2, 4, 5]);
        assert_eq!(found("crates/sys/src/a.rs", text), [0_usize; 0]);
    }

    #[test]
    fn tests_and_macros_are_no_excuse() {
        assert_eq!(found("crates/http/src/a.rs", "#[cfg(test)]\nmod tests { fn a() { unsafe {} } }"), [2]);
        assert_eq!(found("tests/suite/a.rs", "m! { unsafe { a() } }"), [1]);
    }

    #[test]
    fn the_word_alone_is_fine() {
        assert_eq!(found("crates/http/src/a.rs", "// unsafe\nfn a() { \"unsafe\"; unsafe_code(); }"), [0_usize; 0]);
    }
}
