//! Markdown is read as text too, and in diffs: its lines are short. And a folder's list of pages has all of them.

use super::{Problem, Tree};

/// The longest line of prose. Characters.
const MAX_LINE: usize = 120;

/// The longest row of a table, which cannot be broken: what needs more than a glance is no cell. Characters.
const MAX_ROW: usize = 400;

/// Pages that a program writes.
const GENERATED: &[&str] = &["bench/RESULTS.md", "docs/reference/"];

/// Folders, and the page of each that lists all the others.
const LISTED: &[(&str, &str)] = &[("docs/design/", "README.md"), ("docs/guide/", "SUMMARY.md")];

/// Reports long lines, and pages that the list of their folder lacks.
pub(crate) fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    let generated = |path: &str| GENERATED.iter().any(|own| path.starts_with(own));
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".md") && !generated(path)) {
        let mut fenced = false;
        for (index, line) in text.lines().enumerate() {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            let (most, fix) = if line.trim_start().starts_with('|') {
                (MAX_ROW, "say it in fewer words, in two rows, or below the table")
            } else {
                (MAX_LINE, "break the line")
            };
            let length = line.chars().count();
            if !fenced && !fence && length > most && can_be_broken(line) {
                problems.push(Problem::new(path, index + 1, format!("{length} characters, more than {most}"), fix));
            }
        }
    }
    for (folder, list) in LISTED {
        let list = format!("{folder}{list}");
        let Some(text) = tree.get(&list) else { continue };
        for (path, _) in tree.iter().filter(|(path, _)| path.ends_with(".md") && **path != list) {
            if let Some(page) = path.strip_prefix(folder)
                && !text.contains(&format!("]({page})"))
            {
                problems.push(Problem::new(&list, 1, format!("{page} is not in the list"), "add a row for it"));
            }
        }
    }
}

/// Whether there is a space in the line at which it could end: not so if all of it is one link, with its bullet.
fn can_be_broken(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['-', '*', '>', ' ']);
    text.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut problems = Vec::new();
        check(&Tree::of(files), &mut problems);
        problems.into_iter().map(|problem| format!("{}:{}: {}", problem.path, problem.line, problem.message)).collect()
    }

    #[test]
    fn lines_of_prose_are_short() {
        let long = "a ".repeat(MAX_LINE / 2) + "b";
        assert!(found(&[("a.md", &long[..MAX_LINE])]).is_empty());
        assert_eq!(found(&[("a.md", &format!("x\n{long}\n"))]), ["a.md:2: 121 characters, more than 120"]);
        assert!(found(&[("a.md", &"ä ".repeat(MAX_LINE / 2))]).is_empty());
    }

    #[test]
    fn what_cannot_be_broken_is_left_alone() {
        let long = "a ".repeat(MAX_LINE);
        let row = "| a ".repeat(MAX_ROW / 4);
        let link = format!("- [a](https://x.example/{})", "y".repeat(MAX_LINE));
        for text in [format!("```\n{long}\n```\n"), row.clone(), link] {
            assert!(found(&[("a.md", &text)]).is_empty(), "{text}");
        }
        assert_eq!(found(&[("a.md", &format!("{row}|"))]), ["a.md:1: 401 characters, more than 400"]);
        assert!(found(&[("bench/RESULTS.md", &long), ("docs/reference/a.md", &long)]).is_empty());
    }

    #[test]
    fn every_page_is_in_its_list() {
        let list = ("docs/design/README.md", "| [0001](0001-a.md) | a |");
        assert!(found(&[list, ("docs/design/0001-a.md", "")]).is_empty());
        assert_eq!(
            found(&[list, ("docs/design/0001-a.md", ""), ("docs/design/0002-b.md", "")]),
            ["docs/design/README.md:1: 0002-b.md is not in the list"]
        );
        let guide = [("docs/guide/SUMMARY.md", "- [a](a.md)"), ("docs/guide/b.md", "")];
        assert_eq!(found(&guide), ["docs/guide/SUMMARY.md:1: b.md is not in the list"]);
    }
}
