//! Sentences of comments: the first word, the length, relative clauses, and phrases that hide their noun.

use super::vocabulary::Vocabulary;
use super::{Problem, Tree};

/// The most words of a sentence.
const MAX_WORDS: usize = 30;

/// The words that begin a relative clause, and no other.
const RELATIVES: &[&str] = &["which", "who", "whom", "whose"];

/// The most relative clauses of a sentence.
const MAX_RELATIVES: usize = 1;

/// The comments of one kind on lines that follow each other.
#[derive(Debug, Default)]
struct Comment {
    /// The line of the first of them, from 1.
    line: usize,
    /// Whether it documents an item or a file.
    is_doc: bool,
    lines: Vec<String>,
}

/// All sentences that are hard to read.
pub(crate) fn find(tree: &Tree, words: &Vocabulary) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| is_product(path)) {
        for comment in comments(text) {
            check(path, &comment, words, &mut problems);
        }
    }
    problems
}

/// Whether the comments of a file are read by those who change the product.
fn is_product(path: &str) -> bool {
    path.ends_with(".rs") && path.contains("src/") && !path.contains("/tests/") && !path.ends_with("tests.rs")
}

fn comments(text: &str) -> Vec<Comment> {
    let mut all: Vec<Comment> = Vec::new();
    let mut mark_before = "";
    for (index, line) in text.lines().take_while(|line| !line.starts_with("mod tests {")).enumerate() {
        let line = line.trim_start();
        let mark = ["///", "//!", "//"].into_iter().find(|mark| line.starts_with(mark)).unwrap_or_default();
        if !mark.is_empty() {
            if mark != mark_before {
                all.push(Comment { line: index + 1, is_doc: mark.len() > 2, lines: Vec::new() });
            }
            if let Some(comment) = all.last_mut() {
                comment.lines.push(line[mark.len()..].trim().to_owned());
            }
        }
        mark_before = mark;
    }
    all
}

fn check(path: &str, comment: &Comment, words: &Vocabulary, problems: &mut Vec<Problem>) {
    let mut report = |line: usize, message: String, fix: &str| problems.push(Problem::new(path, line, message, fix));
    if comment.is_doc
        && let Some((word, instead)) = comment.lines.first().and_then(|first| first_word(first, words))
    {
        report(comment.line, format!("a doc comment begins with \"{word}\""), instead);
    }
    for (line, paragraph) in paragraphs(comment) {
        let lower = format!(" {} ", paragraph.to_lowercase());
        for (phrase, instead) in &words.phrases {
            for _ in 0..lower.matches(&format!(" {phrase} ")).count() {
                report(line, format!("\"{phrase}\" hides its noun"), instead);
            }
        }
        for sentence in sentences(&paragraph) {
            let count = sentence.split_whitespace().count();
            if count > MAX_WORDS {
                let begin = begin_of(sentence);
                report(
                    line,
                    format!("a sentence of {count} words, more than {MAX_WORDS}: \"{begin} …\""),
                    "make two of it",
                );
            }
            let word = |word: &str| word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
            let clauses = sentence.split_whitespace().filter(|own| RELATIVES.contains(&word(own).as_str())).count();
            if clauses > MAX_RELATIVES {
                let begin = begin_of(sentence);
                report(line, format!("a sentence with {clauses} relative clauses: \"{begin} …\""), "make two of it");
            }
        }
    }
}

/// The word that a comment begins with, if none begins with it, and what to write instead.
fn first_word<'w>(line: &str, words: &'w Vocabulary) -> Option<(&'w str, &'w str)> {
    let first = line.split_whitespace().next()?.trim_end_matches([',', ':', '.']);
    words.first_words.get_key_value(first).map(|(word, instead)| (word.as_str(), instead.as_str()))
}

/// The paragraphs and entries of lists, each in one line, with the number of its first line. Code and tables are none.
fn paragraphs(comment: &Comment) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let (mut is_code, mut goes_on) = (false, false);
    for (index, line) in comment.lines.iter().enumerate() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence || line.is_empty() || line.starts_with('|') {
            goes_on = false;
            continue;
        }
        let is_entry = ["- ", "* "].iter().any(|mark| line.starts_with(mark))
            || line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        match all.last_mut().filter(|_| goes_on && !is_entry) {
            Some((_, text)) => {
                text.push(' ');
                text.push_str(line);
            }
            None => all.push((comment.line + index, line.clone())),
        }
        goes_on = true;
    }
    all
}

/// The sentences of a paragraph: each ends with a full stop, a question mark, an exclamation mark, or with the paragraph.
fn sentences(paragraph: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut start = 0;
    for (at, _) in paragraph.match_indices(['.', '?', '!']) {
        if paragraph[at + 1..].starts_with(' ') {
            all.push(&paragraph[start..=at]);
            start = at + 2;
        }
    }
    all.push(paragraph.get(start..).unwrap_or_default());
    all
}

fn begin_of(sentence: &str) -> String {
    sentence.split_whitespace().take(6).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::vocabulary;

    const WORDS: &str = "[first_words]\nWhat = \"a noun\"\n[phrases]\n\"that of\" = \"the noun\"\n";

    fn found(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/a/src/x.rs", text), (vocabulary::FILE, WORDS)]);
        let words = Vocabulary::read(&tree, &mut Vec::new());
        find(&tree, &words).into_iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect()
    }

    #[test]
    fn doc_comments_begin_with_a_noun_or_a_verb() {
        assert_eq!(
            found("/// What is kept.\nfn a() {}\n// What follows.\n"),
            ["1: a doc comment begins with \"What\""]
        );
        assert!(found("/// The body.\n/// What else.\nfn a() {}").is_empty());
    }

    #[test]
    fn phrases_are_found_over_the_ends_of_lines() {
        assert_eq!(found("fn a() {\n    // The end is that\n    // of a file.\n}"), ["2: \"that of\" hides its noun"]);
    }

    #[test]
    fn long_sentences_and_those_with_two_relative_clauses() {
        let words = vec!["word"; MAX_WORDS].join(" ");
        assert!(found(&format!("// {words}. {words}? {words}\n")).is_empty());
        assert_eq!(found(&format!("// {words} more.")).len(), 1);
        assert!(found("// A file which is open. A client whose name is known.").is_empty());
        assert_eq!(found("// A file, which a client has whose name is known.").len(), 1);
    }

    #[test]
    fn code_tables_and_tests_are_left_out() {
        let code = "/// A.\n///\n/// ```\n/// that of x\n/// ```\n///\n/// | that of x |\nfn a() {}\n";
        assert!(found(code).is_empty());
        assert!(found("#[cfg(test)]\nmod tests {\n    // This is that of x.\n}\n").is_empty());
    }
}
