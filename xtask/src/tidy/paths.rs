//! Files and folders that the pages for developers name in backticks exist.

use super::{Problem, Tree, links};

/// The pages for developers.
const PAGES: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Endings of names that are files.
const FILES: &[&str] = &[".rs", ".md", ".toml"];

/// Reports names of files and folders that are nowhere in the tree. A name may leave out the folders in front, as far as the
/// sentence says them.
pub(crate) fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for page in PAGES {
        for (line, text) in links::prose(tree.get(page).unwrap_or_default()) {
            for span in text.split('`').skip(1).step_by(2).filter(|span| is_path(span)) {
                if !is_there(tree, span) {
                    let fix = "correct the path; another commit may have moved it";
                    problems.push(Problem::new(page, line, format!("there is no {span}"), fix));
                }
            }
        }
    }
}

/// Whether a span of code is the name of a file or a folder of the repository: not so with a placeholder in it.
fn is_path(span: &str) -> bool {
    let plain = span.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
    let placeholder = span.contains("NNNN") || span.starts_with("x/");
    plain && !placeholder && (span.ends_with('/') || FILES.iter().any(|ending| span.ends_with(ending)))
}

/// Whether a path is there, or a longer path that ends with it.
fn is_there(tree: &Tree, span: &str) -> bool {
    let inside = format!("/{span}");
    tree.exists(span)
        || tree
            .iter()
            .any(|(path, _)| if span.ends_with('/') { path.contains(&inside) } else { path.ends_with(&inside) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_nowhere_is_reported() {
        let page = "`crates/http/src/gone.rs`, `gone.rs`,\n`goners/`, `rs`, `a/b`, `x/mod.rs`\n```\n`no.rs`\n```\n";
        let there = "`crates/http/`, `crates/http/src/body/lent_body.rs`, `lent_body.rs`, `body/`, `target/x.rs y`";
        let tree = Tree::of(&[
            ("ARCHITECTURE.md", page),
            ("CONTRIBUTING.md", there),
            ("README.md", "`gone.rs`"),
            ("crates/http/src/body/lent_body.rs", ""),
        ]);
        let mut problems = Vec::new();
        check(&tree, &mut problems);
        let found: Vec<_> = problems.iter().map(|problem| (problem.line, problem.message.as_str())).collect();
        let expected =
            [(1, "there is no crates/http/src/gone.rs"), (1, "there is no gone.rs"), (2, "there is no goners/")];
        assert_eq!(found, expected);
    }
}
