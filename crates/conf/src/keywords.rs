//! Directives whose arguments are keywords.

use std::marker::PhantomData;

use crate::cx::Cx;
use crate::directive::Shape;
use crate::node::{Node, Word};
use crate::problem::Problem;
use crate::value::Setting;

/// A closed list of words; made by [`crate::keyword_enum!`].
pub trait Keyword: Copy + Send + Sync + 'static {
    /// The words, in the order of the variants.
    const WORDS: &'static [&'static str];
    /// The words with ` | ` between them.
    const SYNTAX: &'static str;

    /// The variant's position in [`Keyword::WORDS`].
    fn index(self) -> usize;

    /// The variant of a word, ignoring case.
    fn from_word(word: &str) -> Option<Self>;
}

/// A set of keywords, one or more arguments: nginx's bit masks such as `proxy_next_upstream`.
/// The directives of one level add up, and a word given twice is a warning, as in nginx.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Flags<K> {
    bits: u64,
    kind: PhantomData<fn() -> K>,
}

impl<K: Keyword> Flags<K> {
    /// Whether the keyword is in the set.
    pub fn contains(&self, keyword: K) -> bool {
        self.bits & bit(keyword) != 0
    }

    /// Puts the keyword into the set.
    pub fn insert(&mut self, keyword: K) {
        self.bits |= bit(keyword);
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }
}

fn bit<K: Keyword>(keyword: K) -> u64 {
    const { assert!(K::WORDS.len() <= 64, "a set of keywords has 64 at most") };
    1 << keyword.index()
}

impl<K> Default for Flags<K> {
    fn default() -> Self {
        Flags { bits: 0, kind: PhantomData }
    }
}

impl<K: Keyword> std::fmt::Debug for Flags<K> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = K::WORDS.iter().enumerate().filter(|(index, _)| self.bits & (1 << index) != 0);
        formatter.debug_set().entries(words.map(|(_, word)| word)).finish()
    }
}

impl<K: Keyword> Setting for Flags<K> {
    const SHAPE: Shape = Shape::at_least(1, K::SYNTAX);

    /// Several directives of one level add up, as in nginx.
    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let mut flags = previous.unwrap_or_default();
        for word in &directive.args {
            let keyword = K::from_word(&word.text).ok_or_else(|| unknown_keyword(directive, word, K::WORDS))?;
            if flags.contains(keyword) {
                cx.warn(
                    Problem::warning(format!("duplicate value \"{}\"", word.text)).at_node(directive).at(word.place),
                );
            }
            flags.insert(keyword);
        }
        Ok(flags)
    }
}

/// nginx's error for a word that is not one of the keywords, with a hint at a similar one. Used by
/// [`crate::keyword_enum!`].
pub fn unknown_keyword(node: &Node, word: &Word, keywords: &[&str]) -> Problem {
    let problem = Problem::new(format!("invalid value \"{}\"", word.text)).at_node(node).at(word.place);
    match crate::near(&word.text, keywords.iter().copied()) {
        Some(near) => problem.hint(format!("did you mean \"{near}\"?")),
        None => problem.hint(format!("it must be one of: {}", keywords.join(", "))),
    }
}
