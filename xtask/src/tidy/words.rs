//! Words that have no place in the repository: paths of one machine, and what a merge leaves behind.

use super::{Problem, Tree};

/// Paths that exist on one machine only, each as two halves so that this file does not contain them.
const MACHINE_PATHS: &[(&str, &str)] =
    &[("/wor", "k/"), ("/tmp/targ", "et-"), ("/tmp/bri", "ef"), ("/tmp/bash_jo", "bs"), ("/ro", "ot/.")];

/// The marks that a merge leaves behind, at the beginning of a line.
const CONFLICTS: &[(&str, &str)] = &[("<<<<<", "<< "), (">>>>>", ">> ")];

/// Reports each line with such a word.
pub(crate) fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for (path, text) in tree.iter() {
        for (index, line) in text.lines().enumerate() {
            for (a, b) in MACHINE_PATHS {
                let word = format!("{a}{b}");
                if line.match_indices(&word).any(|(at, _)| begins_a_path(line, at)) {
                    let fix = "write the path from the repository's root, or make it an argument";
                    problems.push(Problem::new(path, index + 1, format!("{word} is a path of one machine"), fix));
                }
            }
            if CONFLICTS.iter().any(|(a, b)| line.strip_prefix(a).is_some_and(|rest| rest.starts_with(b))) {
                problems.push(Problem::new(path, index + 1, "a mark of an unfinished merge", "finish the merge"));
            }
        }
    }
}

/// Whether the path at this byte begins there, instead of being the tail of a longer one such as `/var/…`.
fn begins_a_path(line: &str, at: usize) -> bool {
    let before = line[..at].chars().next_back();
    !before.is_some_and(|last| last.is_alphanumeric() || "._-})/*".contains(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        let mut problems = Vec::new();
        check(&Tree::of(&[("a.md", text)]), &mut problems);
        problems.iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn each_line_with_such_a_word_is_reported() {
        for (a, b) in MACHINE_PATHS {
            assert_eq!(found(&format!("fine\nsee \"{a}{b}x\"\n")), [2], "{a}{b}");
        }
        for (a, b) in CONFLICTS {
            assert_eq!(found(&format!("{a}{b}HEAD\n")), [1]);
        }
    }

    #[test]
    fn longer_paths_are_other_paths() {
        let (a, b) = MACHINE_PATHS[0];
        assert!(found(&format!("/var{a}{b}x ${{dir}}{a}{b} tests{a}{b}")).is_empty());
        assert!(found("a >>>>>>> b\n=======\n").is_empty());
    }
}
