//! The links of a page, as they are in the book.

use std::collections::BTreeSet;

use super::pages::Pages;
use crate::tidy::{self, Tree};

/// The text of a page as it is in the book, and the files that it shows or links to.
///
/// A link to a part of the repository that is not in the book becomes plain text: the book stands alone.
pub(super) fn for_book(path: &str, text: &str, pages: &Pages, tree: &Tree) -> (String, BTreeSet<String>) {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut files = BTreeSet::new();
    let mut out = String::with_capacity(text.len());
    let mut fenced = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let mut rest = line;
        while !fenced && let Some(at) = rest.find("](") {
            let (before, link) = rest.split_at(at);
            out.push_str(before);
            let Some(end) = link.find(')') else { break };
            let target = link.get(2..end).unwrap_or_default();
            rest = link.get(end + 1..).unwrap_or_default();
            match place(folder, target, pages, tree) {
                LinkTarget::Same => out.push_str(link.get(..=end).unwrap_or_default()),
                LinkTarget::File(file) => {
                    files.insert(file);
                    out.push_str(link.get(..=end).unwrap_or_default());
                }
                LinkTarget::Page(target) => {
                    out.push_str("](");
                    out.push_str(&target);
                    out.push(')');
                }
                LinkTarget::Outside => unlink(&mut out),
            }
        }
        out.push_str(rest);
    }
    (out, files)
}

/// The target of a link.
enum LinkTarget {
    /// An address of the web, a place in the same page, or a page of the book.
    Same,
    /// The page of a folder, by this link.
    Page(String),
    /// A file that is no page, by its path from the root.
    File(String),
    /// A target outside of the book.
    Outside,
}

fn place(folder: &str, target: &str, pages: &Pages, tree: &Tree) -> LinkTarget {
    let (file, part) = target.find('#').map_or((target, ""), |at| target.split_at(at));
    if file.is_empty() || file.contains(':') {
        return LinkTarget::Same;
    }
    match tidy::resolve(folder, file) {
        Some(path) if pages.has(&path) => LinkTarget::Same,
        Some(path) if pages.has(&format!("{path}/README.md")) => {
            LinkTarget::Page(format!("{}/README.md{part}", file.trim_end_matches('/')))
        }
        Some(path) if tree.is_file(&path) && !path.ends_with(".md") => LinkTarget::File(path),
        _ => LinkTarget::Outside,
    }
}

/// Takes away the opening bracket of a link whose text ends here.
fn unlink(out: &mut String) {
    let mut inner = 0_usize;
    for (at, mark) in out.char_indices().rev() {
        match mark {
            ']' => inner += 1,
            '[' if inner == 0 => {
                out.remove(at);
                return;
            }
            '[' => inner -= 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(text: &str) -> (String, Vec<String>) {
        let tree = Tree::of(&[
            ("README.md", ""),
            ("ARCHITECTURE.md", ""),
            ("docs/guide/SUMMARY.md", ""),
            ("docs/guide/a.md", ""),
            ("docs/reference/README.md", ""),
            ("packaging/unit.service", ""),
            ("crates/http/Cargo.toml", ""),
        ]);
        let (text, files) = for_book("docs/guide/a.md", text, &Pages::of(&tree), &tree);
        (text, files.into_iter().collect())
    }

    #[test]
    fn links_to_pages_lead_to_pages() {
        let same = "[w](https://x.example/y) [s](#here) [a](a.md#b)\n";
        assert_eq!(book(same).0, same);
        assert_eq!(
            book("[r](../../README.md#top), [f](../reference/)").0,
            "[r](../../README.md#top), [f](../reference/README.md)"
        );
        assert_eq!(
            book("[the\nreference](../reference/README.md).\n").0,
            "[the\nreference](../reference/README.md).\n"
        );
    }

    #[test]
    fn files_come_into_the_book() {
        let unit = "![x](../../packaging/unit.service)";
        assert_eq!(book(unit), (unit.to_owned(), vec!["packaging/unit.service".to_owned()]));
    }

    #[test]
    fn what_is_not_in_the_book_is_plain_text() {
        assert_eq!(book("see [the `[x]`\npage](../../ARCHITECTURE.md), [b](a.md)").0, "see the `[x]`\npage, [b](a.md)");
        assert_eq!(book("[http](../../crates/http/)").0, "http");
    }

    #[test]
    fn code_is_left_alone() {
        let code = "```\n[x](../../ARCHITECTURE.md)\n```\n";
        assert_eq!(book(code).0, code);
    }
}
