//! No conversion that loses bytes: what is not UTF-8 would go on changed.
//!
//! `freerun_conf::text_of` makes a text of any bytes, and `bytes_of` gives them back; `display_only` is for places that take
//! nothing but UTF-8.

use std::collections::BTreeSet;

use super::Problem;
use super::source::Source;

/// The names of such conversions.
const LOSSY: [&str; 2] = ["from_utf8_lossy", "to_string_lossy"];

/// Folders that are no part of the server: bytes that are lost there are lost for a person who looks at them.
const TOOLS: [&str; 4] = ["xtask/", "bench/", "tests/", "crates/testkit/"];

/// Files that may have one, with the reason.
const ALLOWED: [(&str, &str); 4] = [
    (
        "crates/proto/src/head/field_fault.rs",
        "prints a fault of a field for a log line; the crate has no texts of bytes",
    ),
    ("crates/sys/src/x509/mod.rs", "prints a message of AWS-LC, which is ASCII"),
    ("crates/sys/src/x509/names.rs", "prints a name that AWS-LC has escaped to ASCII"),
    ("crates/sys/src/x509/writer.rs", "prints a text that AWS-LC has escaped to ASCII"),
];

/// Reports each use elsewhere, and files that need no exception any more.
pub(crate) fn check(sources: &[Source], problems: &mut Vec<Problem>) {
    let mut used = BTreeSet::new();
    for source in sources.iter().filter(|source| !TOOLS.iter().any(|folder| source.path.starts_with(folder))) {
        for token in source.tokens.iter().filter(|token| !token.test) {
            let Some(name) = LOSSY.into_iter().find(|name| token.is_word(name)) else { continue };
            match ALLOWED.iter().find(|(path, _)| *path == source.path) {
                Some((path, _)) => drop(used.insert(*path)),
                None => {
                    let fix = "use freerun_conf::text_of and bytes_of, which keep every byte, or display_only for JSON";
                    problems.push(Problem::new(&source.path, token.line, format!("{name} changes bytes"), fix));
                }
            }
        }
    }
    let present = |path: &str| sources.iter().any(|source| source.path == path);
    for (path, _) in ALLOWED.iter().filter(|(path, _)| present(path) && !used.contains(path)) {
        let fix = "remove it from ALLOWED in xtask/src/tidy/lossy.rs";
        problems.push(Problem::new(path, 1, "the exception for lossy conversions excuses nothing", fix));
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
    fn conversions_are_found_but_in_tests_and_tools() {
        let text = "fn a() {\n String::from_utf8_lossy(b);\n c.to_string_lossy();\n}\n#[cfg(test)]\nmod tests { fn d() { \
                    String::from_utf8_lossy(b); } }\n";
        assert_eq!(found("crates/http/src/a.rs", text), [2, 3]);
        assert!(found("xtask/src/a.rs", text).is_empty() && found("tests/suite/a.rs", text).is_empty());
    }

    #[test]
    fn an_exception_has_to_excuse_something() {
        let (path, _) = ALLOWED[0];
        assert!(found(path, "fn a() { String::from_utf8_lossy(b); }").is_empty());
        assert_eq!(found(path, "fn a() {}"), [1]);
    }
}
