//! Links in Markdown lead to files that exist, and to headings that these have.

use std::collections::{BTreeMap, BTreeSet};

use super::{Problem, Tree};

/// Reports links to files of the repository, and to headings in them, that are not there. Addresses of the web are not looked
/// at.
pub(crate) fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    let pages = || tree.iter().filter(|(path, _)| path.ends_with(".md"));
    let headings: BTreeMap<&str, BTreeSet<String>> = pages().map(|(path, text)| (path, headings(text))).collect();
    for (path, text) in pages() {
        let folder = folder(path);
        for (line, target) in targets(text) {
            let (file, part) = target.split_once('#').unwrap_or((target, ""));
            let there = if file.is_empty() { Some(path.to_owned()) } else { resolve(folder, file) };
            let mut report = |message, fix| problems.push(Problem::new(path, line, message, fix));
            match there.filter(|there| tree.exists(there)) {
                None => report(format!("the link to {file} leads nowhere"), "correct the path, or remove the link"),
                Some(there) => {
                    let known = headings.get(there.as_str()).is_none_or(|known| known.contains(part));
                    if !part.is_empty() && !known {
                        let message = format!("{there} has no heading for the link to #{part}");
                        report(message, "correct the link, or name the page alone");
                    }
                }
            }
        }
    }
}

/// The files that a page of the repository links to, by their paths from the root, in the order of the links.
pub(crate) fn all(path: &str, text: &str) -> Vec<String> {
    let files = targets(text).filter_map(|(_, target)| target.split('#').next());
    files.filter(|file| !file.is_empty()).filter_map(|file| resolve(folder(path), file)).collect()
}

/// The folder of a file.
fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The lines of a page that are not in blocks of code, with their numbers.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// The targets of the links `[…](path)` of a page, with their lines: all but addresses with a scheme.
fn targets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text).flat_map(|(line, text)| text.split("](").skip(1).map(move |rest| (line, rest))).filter_map(
        |(line, rest)| {
            let target = rest.split([')', ' ']).next()?;
            (!target.is_empty() && !target.contains(':')).then_some((line, target))
        },
    )
}

/// The anchors of a page's headings: in lower case, with hyphens for spaces. They have only letters, digits, `-` and
/// `_`. The second heading of a name has `-1` at its end.
fn headings(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some(heading) = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')) else {
            continue;
        };
        let kept = |mark: char| match mark {
            ' ' => Some('-'),
            '-' | '_' => Some(mark),
            _ => mark.is_alphanumeric().then_some(mark),
        };
        let name: String = heading.trim().to_lowercase().chars().filter_map(kept).collect();
        let others = (1..).map(|number| format!("{name}-{number}"));
        names.extend(std::iter::once(name.clone()).chain(others).find(|name| !names.contains(name)));
    }
    names
}

/// The path from the root that a relative link means; `None` where it leaves the repository.
pub(crate) fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# Top\n## The `same`, again\n## The same again\n```\n# no heading\n```\n";

    fn found(text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        check(&Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("README.md", README)]), &mut problems);
        problems.into_iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect()
    }

    #[test]
    fn links_that_lead_somewhere() {
        let text = "# Here\n[b](b.md), [r](../README.md#top), [d](../docs/), [w](https://x.example/y), [s](#here)";
        assert!(found(text).is_empty());
        assert!(found("[r](../README.md#the-same-again), [s](../README.md#the-same-again-1)").is_empty());
        assert!(found("```\n[x](y)\n```\n").is_empty());
    }

    #[test]
    fn links_that_do_not() {
        assert_eq!(found("\n[b](c.md)"), ["2: the link to c.md leads nowhere"]);
        assert_eq!(found("[b](../../x)"), ["1: the link to ../../x leads nowhere"]);
        assert_eq!(found("[s](#here)"), ["1: docs/a.md has no heading for the link to #here"]);
        let code = found("[r](../README.md#no-heading)");
        assert_eq!(code, ["1: README.md has no heading for the link to #no-heading"]);
    }

    #[test]
    fn the_files_that_a_page_links_to() {
        assert_eq!(all("docs/a.md", "[b](b.md#x) [s](#s)\n[r](../README.md)"), ["docs/b.md", "README.md"]);
    }
}
