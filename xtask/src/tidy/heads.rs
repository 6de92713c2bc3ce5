//! Every Rust file begins with a sentence that says what it is, which `cargo xtask map` prints.

use super::{Problem, Tree};

/// Reports files without such a sentence.
pub(crate) fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".rs") && tests_of(path).is_none()) {
        if first_sentence(text).is_none() {
            let fix = "write one sentence in `//!` that says what is in the file; `cargo xtask map` prints it";
            problems.push(Problem::new(path, 1, "the file does not say what it is", fix));
        }
    }
}

/// The subject of a file that holds nothing but unit tests: its name says what it is already.
pub(crate) fn tests_of(path: &str) -> Option<&str> {
    let module = path.strip_suffix(".rs")?;
    let module = module.strip_suffix("/mod").unwrap_or(module);
    let subject = module.strip_suffix("/tests").or_else(|| module.strip_suffix("_tests"))?;
    Some(subject.rsplit('/').next().unwrap_or(subject))
}

/// The first sentence of the comment `//!` that a file begins with, in one line.
pub(crate) fn first_sentence(text: &str) -> Option<String> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!").map(str::trim));
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let sentence = sentence_end(&paragraph).map_or(paragraph.as_str(), |end| &paragraph[..end]);
    (!sentence.is_empty()).then(|| sentence.to_owned())
}

/// The end of the first sentence of a paragraph: at a full stop with a space and no small letter after it, outside of
/// backticks.
fn sentence_end(paragraph: &str) -> Option<usize> {
    let mut is_code = false;
    for (at, letter) in paragraph.char_indices() {
        is_code ^= letter == '`';
        let rest = &paragraph[at..];
        if !is_code && rest.starts_with(". ") && !rest[2..].starts_with(char::is_lowercase) {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_at_its_full_stop() {
        let sentence = |text| first_sentence(text).unwrap();
        assert_eq!(sentence("//! One of two\n//! lines. `a` more.\n"), "One of two lines.");
        assert_eq!(sentence("//! `a. B` i.e. c, RFC 9110\n//!\n//! More.\n"), "`a. B` i.e. c, RFC 9110");
        assert_eq!(first_sentence("//!\n//! Too late.\n"), None);
    }

    #[test]
    fn files_say_what_they_are_and_unit_tests_by_their_names() {
        let mut problems = Vec::new();
        let files =
            ["a/b.rs", "a/tests.rs", "a/b_tests.rs", "c/tests/mod.rs", "c/tests/d.rs"].map(|path| (path, "use x;"));
        check(&Tree::of(&files), &mut problems);
        assert_eq!(
            problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(),
            ["a/b.rs", "c/tests/d.rs"]
        );
        assert_eq!(
            ["x/a/tests.rs", "x/b_tests.rs", "x/c/tests/mod.rs"].map(tests_of),
            [Some("a"), Some("b"), Some("c")]
        );
    }
}
