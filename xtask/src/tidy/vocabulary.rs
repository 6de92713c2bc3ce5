//! The list of words that names and comments do not use, `xtask/words.toml`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::tree::line_of;
use super::{Problem, Tree};

/// The path of the words.
pub(crate) const FILE: &str = "xtask/words.toml";

/// The words, each with its replacement where there is one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vocabulary {
    /// Words in -ed and -ing that are nouns.
    #[serde(default)]
    nouns: BTreeSet<String>,
    /// Words that name no type by themselves.
    #[serde(default)]
    no_names: BTreeSet<String>,
    /// Names that no file or folder has.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// Names that no function has.
    #[serde(default)]
    pub(crate) functions: BTreeMap<String, String>,
    /// Words that no doc comment begins with.
    #[serde(default)]
    pub(crate) first_words: BTreeMap<String, String>,
    /// Phrases that no comment contains.
    #[serde(default)]
    pub(crate) phrases: BTreeMap<String, String>,
}

impl Vocabulary {
    /// Reads [`FILE`]. A mistake in it is a problem, and then there are no words.
    pub(crate) fn read(tree: &Tree, problems: &mut Vec<Problem>) -> Vocabulary {
        let text = tree.get(FILE).unwrap_or_default();
        toml::from_str(text).unwrap_or_else(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            problems.push(Problem::new(FILE, line, error.message(), "see the entries above it for the form"));
            Vocabulary::default()
        })
    }

    /// Whether the name of a type is nothing but a participle, a pronoun or a question word.
    pub(crate) fn lacks_noun(&self, name: &str) -> bool {
        let is_one_word = name.chars().filter(char::is_ascii_uppercase).count() == 1;
        let is_participle = (name.ends_with("ed") || name.ends_with("ing")) && !self.nouns.contains(name);
        is_one_word && !self.no_names.is_empty() && (is_participle || self.no_names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_noun() {
        let tree = Tree::of(&[(FILE, "nouns = [\"Seed\"]\nno_names = [\"Kept\", \"What\"]\n")]);
        let words = Vocabulary::read(&tree, &mut Vec::new());
        assert_eq!(["Kept", "What", "Asked", "Waiting"].map(|name| words.lacks_noun(name)), [true; 4]);
        assert_eq!(["Seed", "KeptBody", "WhatElse", "Body"].map(|name| words.lacks_noun(name)), [false; 4]);
    }

    #[test]
    fn a_mistake_in_the_list_is_reported_with_its_line() {
        let mut problems = Vec::new();
        Vocabulary::read(&Tree::of(&[(FILE, "nouns = []\n\nverbs = []\n")]), &mut problems);
        assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [3]);
    }
}
