//! The pages of the book, in their order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::tidy::{self, Tree};

/// The page that the book begins with.
const FIRST: &str = "README.md";

/// Pages that have their place in the list, in its order. One with the name of a page and a folder is the list of the pages of
/// that folder, and they follow it.
const CHAPTERS: &[&str] = &[
    "docs/guide/SUMMARY.md",
    "docs/verdicts.md",
    "docs/reference/README.md",
    "docs/design/README.md",
    "bench/README.md",
    "bench/RESULTS.md",
    "docs/dependencies.md",
    "CHANGELOG.md",
];

/// The folders whose pages are all in the book.
const FOLDERS: &[&str] = &["docs/guide/", "docs/reference/", "docs/design/"];

/// The pages of the book, by their paths from the root of the repository.
#[derive(Debug)]
pub(super) struct Pages {
    titles: BTreeMap<String, String>,
    /// Each chapter, and the pages below it.
    chapters: Vec<(String, Vec<String>)>,
}

impl Pages {
    /// The pages of a repository.
    pub(super) fn of(tree: &Tree) -> Self {
        let chapters: Vec<(String, Vec<String>)> = CHAPTERS
            .iter()
            .filter(|path| tree.get(path).is_some())
            .map(|path| ((*path).to_owned(), below(tree, path)))
            .collect();
        let all = chapters.iter().flat_map(|(chapter, pages)| std::iter::once(chapter).chain(pages));
        let titles = all.map(String::as_str).chain([FIRST]).map(|path| (path.to_owned(), title(tree, path))).collect();
        Self { titles, chapters }
    }

    /// The path of every page.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.titles.keys().map(String::as_str)
    }

    /// Whether a file is a page of the book.
    pub(super) fn has(&self, path: &str) -> bool {
        self.titles.contains_key(path)
    }

    /// mdBook's list of pages.
    pub(super) fn summary(&self) -> String {
        let link = |path: &str| {
            let title = self.titles.get(path).map_or(path, String::as_str);
            format!("[{title}]({path})")
        };
        let mut text = format!("# Summary\n\n{}\n\n", link(FIRST));
        for (chapter, pages) in &self.chapters {
            let _ = writeln!(text, "- {}", link(chapter));
            for page in pages {
                let _ = writeln!(text, "  - {}", link(page));
            }
        }
        text
    }
}

/// The pages of the folder that a chapter lists: those that it links to, in its order, then the others.
fn below(tree: &Tree, chapter: &str) -> Vec<String> {
    let Some(folder) = FOLDERS.iter().find(|folder| chapter.starts_with(**folder)) else { return Vec::new() };
    let inside = |path: &str| {
        path.strip_prefix(folder).is_some_and(|name| name.ends_with(".md") && !name.contains('/')) && path != chapter
    };
    let mut pages: Vec<String> = Vec::new();
    let linked = tidy::links(chapter, tree.get(chapter).unwrap_or_default());
    let others = tree.iter().map(|(path, _)| path.to_owned());
    for path in linked.into_iter().chain(others) {
        if inside(&path) && tree.get(&path).is_some() && !pages.contains(&path) {
            pages.push(path);
        }
    }
    pages
}

/// The title of a page: its first heading.
fn title(tree: &Tree, path: &str) -> String {
    let text = tree.get(path).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(path).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_in_the_order_of_their_list() {
        let tree = Tree::of(&[
            ("README.md", "# The server\n"),
            ("docs/guide/SUMMARY.md", "# Guide\n- [z](z.md)\n- [a](a.md#part)\n- [away](../verdicts.md)\n"),
            ("docs/guide/a.md", "# A\n"),
            ("docs/guide/new.md", "# New\n"),
            ("docs/guide/z.md", "# Z `z`\n"),
            ("docs/verdicts.md", "# Verdicts\n"),
        ]);
        assert_eq!(
            Pages::of(&tree).summary(),
            "# Summary\n\n[The server](README.md)\n\n- [Guide](docs/guide/SUMMARY.md)\n  - [Z `z`](docs/guide/z.md)\n  \
             - [A](docs/guide/a.md)\n  - [New](docs/guide/new.md)\n- [Verdicts](docs/verdicts.md)\n"
        );
    }

    #[test]
    fn every_page_of_the_guide_and_of_the_reference_is_in_the_book() {
        let tree = Tree::read(&crate::repository()).unwrap();
        let summary = Pages::of(&tree).summary();
        let mut pages = 0;
        for (path, _) in tree.iter().filter(|(path, _)| path.ends_with(".md") && path.starts_with("docs/")) {
            assert!(summary.contains(&format!("]({path})")), "{path} is not in the book");
            pages += 1;
        }
        assert!(pages > 100, "{pages}");
        assert!(CHAPTERS.iter().all(|path| tree.get(path).is_some()));
    }
}
