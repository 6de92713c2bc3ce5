//! The exceptions: `xtask/tidy.toml`.

use serde::Deserialize;
use toml::Spanned;

use super::order::FolderOrder;
use super::rules::Sort;
use super::tree::line_of;
use super::wording::WordingLimit;
use super::{Problem, Tree};

/// The path of the list of exceptions.
pub(crate) const FILE: &str = "xtask/tidy.toml";

/// A reason shorter than this explains nothing. Characters.
const MIN_REASON: usize = 15;

/// The word that stands for every sort of waiting.
const ANY: &str = "any";

/// The file, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowFile {
    #[serde(default)]
    blocking: Vec<WrittenBlocking>,
    #[serde(default)]
    long: Vec<WrittenLong>,
    #[serde(default)]
    folder_style: Vec<WrittenLong>,
    #[serde(default)]
    order: Vec<WrittenOrder>,
    #[serde(default)]
    words: Vec<WrittenWording>,
    #[serde(default)]
    assertions: WrittenAssertions,
}

/// The numbers of names and sentences of a crate that may still be against the rules for words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenWording {
    folder: Spanned<String>,
    names: usize,
    sentences: usize,
}

/// The least number of assertions in the product.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAssertions {
    /// For ten thousand lines.
    least: usize,
}

/// A crate's folders from the bottom to the top, with what may still be against it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOrder {
    folder: Spanned<String>,
    steps: Vec<String>,
    arrows: usize,
    circles: Vec<usize>,
}

/// A place that may wait.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBlocking {
    path: Spanned<String>,
    sorts: Vec<String>,
    reason: String,
}

/// A file that may be long, or a folder whose coordinator may stand beside it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLong {
    path: Spanned<String>,
    reason: String,
}

/// An exception, and whether it was needed.
#[derive(Debug)]
struct AllowEntry<T> {
    /// A file, or a folder with `/` at its end.
    path: String,
    /// The line of the path in [`FILE`].
    line: usize,
    /// The place that is excused.
    what: T,
    used: bool,
}

impl<T> AllowEntry<T> {
    fn covers(&self, path: &str) -> bool {
        if self.path.ends_with('/') { path.starts_with(&self.path) } else { path == self.path }
    }
}

/// All exceptions.
#[derive(Debug, Default)]
pub(crate) struct Exceptions {
    /// `None` stands for every sort.
    blocking: Vec<AllowEntry<Option<Sort>>>,
    long: Vec<AllowEntry<()>>,
    folder_style: Vec<AllowEntry<()>>,
    orders: Vec<FolderOrder>,
    wording: Vec<WordingLimit>,
    least_assertions: usize,
}

impl Exceptions {
    /// Reads [`FILE`]; mistakes in it become problems.
    pub(crate) fn read(tree: &Tree, problems: &mut Vec<Problem>) -> Self {
        let text = tree.get(FILE).unwrap_or_default();
        let written: AllowFile = match toml::from_str(text) {
            Ok(written) => written,
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(text, span.start));
                problems.push(Problem::new(FILE, line, error.message(), "see the entries above it for the form"));
                return Self::default();
            }
        };
        let mut all = Self::default();
        for entry in &written.blocking {
            let line = line_of(text, entry.path.span().start);
            let path = entry.path.get_ref();
            check_entry(tree, path, &entry.reason, line, problems);
            if entry.sorts.is_empty() {
                problems.push(Problem::new(FILE, line, format!("{path}: no sorts"), "name what the place may do"));
            }
            for word in &entry.sorts {
                let sort = Sort::ALL.into_iter().find(|sort| sort.word() == word);
                if sort.is_none() && word != ANY {
                    let known = Sort::ALL.map(Sort::word).join(", ");
                    let fix = format!("use one of: {known}, {ANY}");
                    problems.push(Problem::new(FILE, line, format!("unknown sort \"{word}\""), fix));
                    continue;
                }
                all.blocking.push(AllowEntry { path: path.clone(), line, what: sort, used: false });
            }
        }
        for entry in &written.long {
            let line = line_of(text, entry.path.span().start);
            check_entry(tree, entry.path.get_ref(), &entry.reason, line, problems);
            all.long.push(AllowEntry { path: entry.path.get_ref().clone(), line, what: (), used: false });
        }
        for entry in &written.folder_style {
            let line = line_of(text, entry.path.span().start);
            check_entry(tree, entry.path.get_ref(), &entry.reason, line, problems);
            all.folder_style.push(AllowEntry { path: entry.path.get_ref().clone(), line, what: (), used: false });
        }
        for entry in written.order {
            let line = line_of(text, entry.folder.span().start);
            let steps = entry.steps.iter().map(|step| step.split_whitespace().map(str::to_owned).collect()).collect();
            let folder = entry.folder.into_inner();
            all.orders.push(FolderOrder { folder, line, steps, arrows: entry.arrows, circles: entry.circles });
        }
        for WrittenWording { folder, names, sentences } in written.words {
            let line = line_of(text, folder.span().start);
            all.wording.push(WordingLimit { folder: folder.into_inner(), line, names, sentences });
        }
        all.least_assertions = written.assertions.least;
        all
    }

    /// The least number of assertions in ten thousand lines of the product.
    pub(crate) fn least_assertions(&self) -> usize {
        self.least_assertions
    }

    /// The orders of folders.
    pub(crate) fn orders(&self) -> &[FolderOrder] {
        &self.orders
    }

    /// The numbers of names and sentences of each crate that may be against the rules for words.
    pub(crate) fn wording(&self) -> &[WordingLimit] {
        &self.wording
    }

    /// Whether the coordinator of a folder may stand beside it (`x.rs` and `x/`).
    pub(crate) fn beside(&mut self, path: &str) -> bool {
        self.folder_style.iter_mut().filter(|entry| entry.covers(path)).map(|entry| entry.used = true).count() > 0
    }

    /// Whether a file may wait in this way.
    pub(crate) fn blocking(&mut self, path: &str, sort: Sort) -> bool {
        let covers =
            |entry: &&mut AllowEntry<Option<Sort>>| entry.covers(path) && entry.what.is_none_or(|own| own == sort);
        self.blocking.iter_mut().filter(covers).map(|entry| entry.used = true).count() > 0
    }

    /// Whether a file may be long.
    pub(crate) fn long(&mut self, path: &str) -> bool {
        self.long.iter_mut().filter(|entry| entry.covers(path)).map(|entry| entry.used = true).count() > 0
    }

    /// Reports the exceptions that excused nothing.
    pub(crate) fn unused(&self, problems: &mut Vec<Problem>) {
        let blocking =
            self.blocking.iter().map(|entry| (entry.used, entry.line, &entry.path, entry.what.map_or(ANY, Sort::word)));
        let long = self.long.iter().map(|entry| (entry.used, entry.line, &entry.path, "long"));
        let style = self.folder_style.iter().map(|entry| (entry.used, entry.line, &entry.path, "folder_style"));
        for (_, line, path, what) in blocking.chain(long).chain(style).filter(|(used, ..)| !used) {
            let message = format!("the exception \"{what}\" for {path} excuses nothing");
            problems.push(Problem::new(FILE, line, message, "remove it"));
        }
    }
}

/// The mistakes an entry of any sort can have.
fn check_entry(tree: &Tree, path: &str, reason: &str, line: usize, problems: &mut Vec<Problem>) {
    if !tree.exists(path) {
        problems.push(Problem::new(FILE, line, format!("{path} does not exist"), "remove the exception"));
    }
    if reason.trim().chars().count() < MIN_REASON {
        problems.push(Problem::new(FILE, line, format!("{path}: no reason"), "say why this place may do it"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        Exceptions::read(&Tree::of(&[(FILE, text), ("a.rs", "")]), &mut problems);
        problems.iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect()
    }

    #[test]
    fn entries_are_checked() {
        let entry = |path: &str, sort: &str, reason: &str| {
            messages(&format!("\n[[blocking]]\npath = \"{path}\"\nsorts = [\"{sort}\"]\nreason = \"{reason}\"\n"))
        };
        let reason = "Runs before the loops.";
        assert!(entry("a.rs", "files", reason).is_empty());
        assert!(entry("a.rs", "any", reason).is_empty());
        assert_eq!(entry("b.rs", "files", reason), ["3: b.rs does not exist"]);
        assert_eq!(entry("a.rs", "disks", reason), ["3: unknown sort \"disks\""]);
        assert_eq!(entry("a.rs", "files", "because"), ["3: a.rs: no reason"]);
    }

    #[test]
    fn a_broken_file_is_reported_with_its_line() {
        let found = messages("[[long]]\npath = \"a.rs\"\nreson = \"typing\"\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("3: unknown field `reson`"), "{found:?}");
    }

    #[test]
    fn folders_need_a_slash() {
        let text = "[[long]]\npath = \"crates/a\"\nreason = \"One table, no logic.\"\n";
        let mut problems = Vec::new();
        let tree = Tree::of(&[(FILE, text), ("crates/a/b.rs", ""), ("crates/ab.rs", "")]);
        let mut exceptions = Exceptions::read(&tree, &mut problems);
        assert!(!exceptions.long("crates/a/b.rs") && !exceptions.long("crates/ab.rs"));
    }
}
