//! Limits for the names and sentences of each crate that are still against the rules: the numbers only fall.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::allow::{self, Exceptions};
use super::names::{self, package};
use super::source::Source;
use super::vocabulary::Vocabulary;
use super::{Problem, Tree, sentences};

/// The percentage that a number may be above the count, so that not every commit that mends a sentence changes it.
const SLACK: usize = 5;

/// The numbers of one crate, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordingLimit {
    /// The crate's folder: `crates/http/`.
    pub(crate) folder: String,
    /// The line of the entry.
    pub(crate) line: usize,
    /// The most names of types, functions and files.
    pub(crate) names: usize,
    /// The most sentences of comments.
    pub(crate) sentences: usize,
}

/// Everything that is against the rules for words.
#[derive(Debug)]
struct Offences {
    names: Vec<Problem>,
    sentences: Vec<Problem>,
}

impl Offences {
    fn find(tree: &Tree, sources: &[Source], problems: &mut Vec<Problem>) -> Offences {
        let words = Vocabulary::read(tree, problems);
        Offences { names: names::find(tree, sources, &words), sentences: sentences::find(tree, &words) }
    }

    /// The numbers of names and of sentences by crates.
    fn counts(&self) -> BTreeMap<&str, (usize, usize)> {
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for problem in &self.names {
            counts.entry(package(&problem.path)).or_default().0 += 1;
        }
        for problem in &self.sentences {
            counts.entry(package(&problem.path)).or_default().1 += 1;
        }
        counts
    }
}

/// Reports crates with more than they may have, and numbers that are too large.
pub(crate) fn check(tree: &Tree, sources: &[Source], exceptions: &Exceptions, problems: &mut Vec<Problem>) {
    let offences = Offences::find(tree, sources, problems);
    let counts = offences.counts();
    for (folder, (names, sentences)) in &counts {
        let limit = exceptions.wording().iter().find(|limit| limit.folder == *folder);
        let line = limit.map_or(1, |limit| limit.line);
        let allowed = limit.map_or((0, 0), |limit| (limit.names, limit.sentences));
        for (count, most, what) in [(*names, allowed.0, "names"), (*sentences, allowed.1, "sentences")] {
            if count > most {
                let message = format!("{folder}: {count} {what} are against the rules for words, more than {most}");
                problems.push(Problem::new(
                    allow::FILE,
                    line,
                    message,
                    format!("see `cargo xtask tidy --words {folder}`"),
                ));
            }
        }
    }
    for limit in exceptions.wording() {
        let (names, sentences) = counts.get(limit.folder.as_str()).copied().unwrap_or_default();
        if is_loose(names, limit.names) || is_loose(sentences, limit.sentences) {
            let message = format!("{}: only {names} names and {sentences} sentences are left", limit.folder);
            problems.push(Problem::new(allow::FILE, limit.line, message, "lower it: `cargo xtask tidy --record`"));
        }
    }
}

/// Whether a number is further above the count than it may be.
fn is_loose(count: usize, limit: usize) -> bool {
    limit > count + limit * SLACK / 100
}

/// Everything below a path that is against the rules for words, for somebody who works it down.
pub(crate) fn show(tree: &Tree, sources: &[Source], below: &str) -> String {
    let mut problems = Vec::new();
    let offences = Offences::find(tree, sources, &mut problems);
    problems.extend(offences.names);
    problems.extend(offences.sentences);
    problems.retain(|problem| problem.path.starts_with(below));
    problems.sort();
    let mut out = String::new();
    for problem in &problems {
        let _ = writeln!(out, "{}:{}: {}; {}", problem.path, problem.line, problem.message, problem.fix);
    }
    let _ = writeln!(out, "{} names and sentences", problems.len());
    out
}

/// The text of `xtask/tidy.toml` with the numbers that have fallen. Numbers that would rise stay.
pub(crate) fn record(text: &str, tree: &Tree, sources: &[Source], exceptions: &Exceptions) -> String {
    let offences = Offences::find(tree, sources, &mut Vec::new());
    let counts = offences.counts();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for limit in exceptions.wording() {
        let (names, sentences) = counts.get(limit.folder.as_str()).copied().unwrap_or_default();
        for line in lines.iter_mut().skip(limit.line).take_while(|line| !line.starts_with("[[")) {
            if line.starts_with("names = ") {
                *line = format!("names = {}", names.min(limit.names));
            } else if line.starts_with("sentences = ") {
                *line = format!("sentences = {}", sentences.min(limit.sentences));
            }
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{source, vocabulary};

    fn run(names: usize, sentences: usize) -> (Vec<String>, String) {
        let toml = format!("[[words]]\nfolder = \"crates/a/\"\nnames = {names}\nsentences = {sentences}\n");
        let text = "//! What this is.\npub struct Asked;\npub struct Refused;\n";
        let words = "no_names = [\"What\"]\n[first_words]\nWhat = \"a noun\"\n";
        let tree = Tree::of(&[(allow::FILE, &toml), (vocabulary::FILE, words), ("crates/a/src/x.rs", text)]);
        let mut problems = Vec::new();
        let exceptions = Exceptions::read(&tree, &mut problems);
        let sources = source::read_all(&tree, &mut problems);
        check(&tree, &sources, &exceptions, &mut problems);
        let messages = problems.into_iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect();
        (messages, record(&toml, &tree, &sources, &exceptions))
    }

    #[test]
    fn numbers_are_kept_and_only_fall() {
        assert_eq!(run(2, 1).0, Vec::<String>::new());
        assert_eq!(run(1, 1).0, ["2: crates/a/: 2 names are against the rules for words, more than 1"]);
        assert_eq!(run(2, 0).0, ["2: crates/a/: 1 sentences are against the rules for words, more than 0"]);
        let (problems, recorded) = run(9, 0);
        assert_eq!(problems.len(), 2);
        assert!(recorded.ends_with("names = 2\nsentences = 0\n"), "{recorded}");
    }

    #[test]
    fn a_number_has_a_little_slack() {
        assert!(!is_loose(95, 100) && is_loose(94, 100) && !is_loose(0, 0) && is_loose(0, 1));
    }
}
