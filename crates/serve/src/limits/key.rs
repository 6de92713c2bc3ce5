//! What the limits have in common: keys, and the levels that refusals are logged at.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

use freerun_conf::{Cx, Problem, Word, keyword_enum};
use freerun_runtime::log::Level;

use crate::subject::Subject;
use crate::values::Template;

/// A key longer than this many bytes is not counted, as in nginx.
const MAX_KEY: usize = 65_535;

/// The key of a zone, as one configuration has it.
pub struct Key<S> {
    text: String,
    template: Template<S>,
}

impl<S> std::fmt::Debug for Key<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "key {:?}", self.text)
    }
}

impl<S: Subject> Key<S> {
    /// Reads the key of a zone.
    ///
    /// # Errors
    /// As for any text with variables.
    pub fn parse(word: &Word, cx: &mut Cx) -> Result<Key<S>, Problem> {
        Ok(Key { text: word.text.clone(), template: Template::parse(word, cx)? })
    }

    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The key of a subject; `None` if it is not to be counted.
    pub fn of<'r>(&'r self, subject: &'r S) -> Option<Cow<'r, [u8]>> {
        let key = self.template.render(subject);
        if key.len() > MAX_KEY {
            let shown = String::from_utf8_lossy(&key[..256]);
            let message = format_args!("the value of the \"{}\" key is more than 65535 bytes: \"{shown}\"", self.text);
            subject.log(Level::Error, message);
            return None;
        }
        (!key.is_empty()).then_some(key)
    }
}

/// Stands for a key in a zone: what tells in which set of places its state is, and what tells it from others there. Keyed
/// with secrets of the zone, so that nobody can look for keys that meet.
#[derive(Debug, Default)]
pub struct Hasher(RandomState, RandomState);

/// The two numbers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// Spread evenly over all numbers: gives the set.
    spread: u64,
    /// What is kept with the state.
    pub tag: u64,
}

impl Hasher {
    /// The fingerprint of a key.
    pub fn of(&self, key: &[u8]) -> Fingerprint {
        Fingerprint { spread: self.0.hash_one(key), tag: self.1.hash_one(key) }
    }
}

impl Fingerprint {
    /// Which one of so many sets.
    pub fn set(self, sets: usize) -> usize {
        // The high half of a product with a number of sets is below that number.
        usize::try_from((u128::from(self.spread) * sets as u128) >> 64).unwrap_or(0)
    }
}

keyword_enum! {
    /// The level at which refusals are logged.
    pub enum RefusalLevel {
        /// `info`
        Info = "info",
        /// `notice`
        Notice = "notice",
        /// `warn`
        Warn = "warn",
        /// `error`
        Error = "error",
    }
}

impl RefusalLevel {
    /// The log's level.
    pub fn level(self) -> Level {
        match self {
            RefusalLevel::Info => Level::Info,
            RefusalLevel::Notice => Level::Notice,
            RefusalLevel::Warn => Level::Warn,
            RefusalLevel::Error => Level::Error,
        }
    }

    /// The level for what is less than a refusal.
    pub fn milder(self) -> Level {
        match self {
            RefusalLevel::Info | RefusalLevel::Notice => Level::Info,
            RefusalLevel::Warn => Level::Notice,
            RefusalLevel::Error => Level::Warn,
        }
    }
}
