//! A file has one subject; a file that grows past a limit is asking to be split.

use super::allow::Exceptions;
use super::{Problem, Tree};

/// The most lines a Rust file has.
const MAX_LINES: usize = 600;

/// A file with this word in its first lines is written by a program.
const GENERATED: &str = concat!("@", "generated");

/// The number of lines at the top that may carry [`GENERATED`].
const GENERATED_LINES: usize = 5;

/// Reports files that are too long.
pub(crate) fn check(tree: &Tree, exceptions: &mut Exceptions, problems: &mut Vec<Problem>) {
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let lines = text.lines().count();
        let generated = text.lines().take(GENERATED_LINES).any(|line| line.contains(GENERATED));
        if lines > MAX_LINES && !generated && !exceptions.long(path) {
            let fix = "split it by subject (its tests can be a file of their own), or give the reason under [[long]] in \
                       xtask/tidy.toml";
            problems.push(Problem::new(path, MAX_LINES + 1, format!("{lines} lines, more than {MAX_LINES}"), fix));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::allow;

    fn found(allow: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(allow::FILE, allow), ("a.rs", text)]);
        let mut problems = Vec::new();
        let mut exceptions = Exceptions::read(&tree, &mut problems);
        check(&tree, &mut exceptions, &mut problems);
        exceptions.unused(&mut problems);
        problems.into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn the_limit_is_the_last_line_allowed() {
        assert!(found("", &"//\n".repeat(MAX_LINES)).is_empty());
        assert_eq!(found("", &"//\n".repeat(MAX_LINES + 1)), ["601 lines, more than 600"]);
    }

    #[test]
    fn generated_and_excused_files_are_left_alone() {
        let long = "//\n".repeat(MAX_LINES + 1);
        assert!(found("", &format!("// {GENERATED}\n{long}")).is_empty());
        let allow = "[[long]]\npath = \"a.rs\"\nreason = \"One table, no logic.\"\n";
        assert!(found(allow, &long).is_empty());
        assert_eq!(found(allow, "//\n"), ["the exception \"long\" for a.rs excuses nothing"]);
    }
}
