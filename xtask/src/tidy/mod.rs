//! The rules of the repository that the compiler and clippy cannot check.
//!
//! Every check is a function from a [`Tree`] (texts by path, held in memory) to a list of [`Problem`]s. So the tests of
//! a check are small trees written in the test itself. Exceptions are in one place, `xtask/tidy.toml`, each with its
//! reason. An exception that no longer excuses anything is itself a problem, so the list can only shrink to what is
//! true.

mod allow;
mod assertions;
mod blocking;
mod error;
mod folders;
pub(crate) mod heads;
mod imports;
mod layers;
mod links;
mod lossy;
mod manifests;
mod markdown;
mod names;
mod order;
mod paths;
mod problem;
mod rules;
mod sentences;
mod size;
mod source;
mod tree;
mod unsafe_code;
mod vocabulary;
mod wording;
mod words;

use std::path::Path;

pub(crate) use error::TidyError;
pub(crate) use links::{all as links, resolve};
pub(crate) use problem::Problem;
pub(crate) use tree::Tree;

/// The result of a run.
#[derive(Debug)]
pub(crate) struct TidyReport {
    /// The number of text files that were looked at.
    pub(crate) files: usize,
    /// The problems, in the order of paths and lines.
    pub(crate) problems: Vec<Problem>,
    /// The number of assertions in the product.
    pub(crate) assertions: assertions::AssertionCounts,
}

/// Checks the repository in a folder.
pub(crate) fn check_folder(root: &Path) -> Result<TidyReport, TidyError> {
    Ok(check(&Tree::read(root)?))
}

/// The imports against the orders of folders, one line each, in the repository in a folder.
pub(crate) fn show_layers(root: &Path) -> Result<String, TidyError> {
    let tree = Tree::read(root)?;
    let (sources, exceptions) = for_orders(&tree);
    Ok(order::show(&sources, &exceptions))
}

/// The names and sentences below a path that are against the rules for words, one line each.
pub(crate) fn show_words(root: &Path, below: &str) -> Result<String, TidyError> {
    let tree = Tree::read(root)?;
    let (sources, _) = for_orders(&tree);
    Ok(wording::show(&tree, &sources, below))
}

/// Lowers the numbers in `xtask/tidy.toml` that are larger than what is there.
pub(crate) fn record(root: &Path) -> Result<(), TidyError> {
    let tree = Tree::read(root)?;
    let (sources, exceptions) = for_orders(&tree);
    let text = order::record(tree.get(allow::FILE).unwrap_or_default(), &sources, &exceptions);
    let text = wording::record(&text, &tree, &sources, &exceptions);
    let written = std::fs::write(root.join(allow::FILE), text);
    written.map_err(|source| TidyError::Write { path: allow::FILE.to_owned(), source })
}

fn for_orders(tree: &Tree) -> (Vec<source::Source>, allow::Exceptions) {
    let mut problems = Vec::new();
    (source::read_all(tree, &mut problems), allow::Exceptions::read(tree, &mut problems))
}

/// Checks a tree that is already in memory.
pub(crate) fn check(tree: &Tree) -> TidyReport {
    let mut problems = Vec::new();
    let mut exceptions = allow::Exceptions::read(tree, &mut problems);
    let sources = source::read_all(tree, &mut problems);
    layers::check(tree, &mut problems);
    order::check(tree, &sources, &exceptions, &mut problems);
    manifests::check(tree, &mut problems);
    unsafe_code::check(&sources, &mut problems);
    lossy::check(&sources, &mut problems);
    blocking::check(&sources, &mut exceptions, &mut problems);
    folders::check(tree, &mut exceptions, &mut problems);
    heads::check(tree, &mut problems);
    assertions::check(tree, &sources, &exceptions, &mut problems);
    size::check(tree, &mut exceptions, &mut problems);
    words::check(tree, &mut problems);
    wording::check(tree, &sources, &exceptions, &mut problems);
    links::check(tree, &mut problems);
    paths::check(tree, &mut problems);
    markdown::check(tree, &mut problems);
    exceptions.unused(&mut problems);
    problems.sort();
    problems.dedup();
    TidyReport { files: tree.len(), problems, assertions: assertions::AssertionCounts::of(&sources) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gate itself: this repository keeps its own rules.
    #[test]
    fn the_repository_is_tidy() {
        let report = check_folder(&crate::repository()).unwrap();
        let found: Vec<String> = report.problems.iter().map(Problem::to_string).collect();
        assert!(found.is_empty(), "\n{}\n", found.join("\n"));
        assert!(report.files > 10, "the walk over the repository found only {} files", report.files);
    }

    #[test]
    fn a_problem_is_reported_once_and_in_order() {
        let tree = Tree::of(&[("crates/x/src/b.rs", "//! B.\nunsafe fn a() { unsafe {} }"), ("a.md", "[a](b.md)")]);
        let found = check(&tree).problems;
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].path, "a.md");
    }
}
