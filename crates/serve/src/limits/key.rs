//! The common parts of the limits: keys, and the levels at which refusals are logged.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

use freerun_conf::{Cx, Problem, Word, keyword_enum, text_of};
use freerun_runtime::log::Level;
use siphasher::sip::SipHasher13;

use crate::values::Template;
use crate::values::subject::Subject;

/// A key longer than this many bytes is not counted, as in nginx.
const MAX_KEY: usize = 65_535;

/// The key of a zone, as one configuration defines it.
pub struct LimitKey<S> {
    text: String,
    template: Template<S>,
}

impl<S> std::fmt::Debug for LimitKey<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "key {:?}", self.text)
    }
}

impl<S: Subject> LimitKey<S> {
    /// Reads the key of a zone.
    ///
    /// # Errors
    /// The errors of any text with variables.
    pub fn parse(word: &Word, cx: &mut Cx) -> Result<LimitKey<S>, Problem> {
        Ok(LimitKey { text: word.text.clone(), template: Template::parse(word, cx)? })
    }

    /// The key as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The key of a subject; `None` if it is not to be counted.
    pub fn of<'r>(&'r self, subject: &'r S) -> Option<Cow<'r, [u8]>> {
        let key = self.template.render(subject);
        if key.len() > MAX_KEY {
            let shown = text_of(&key[..256]);
            let message = format_args!("the value of the \"{}\" key is more than 65535 bytes: \"{shown}\"", self.text);
            subject.log(Level::Error, message);
            return None;
        }
        (!key.is_empty()).then_some(key)
    }
}

/// Makes the fingerprint of a key in a zone: the set of places that its state is in, and a tag that tells it from
/// others there. It uses secrets of the zone, so that no client can search for keys that collide. They are known here,
/// unlike the secrets of std's hashers, because a state is of use to another process only together with them.
pub struct Hasher([u64; SECRETS]);

/// Number of the secrets of a [`Hasher`].
pub const SECRETS: usize = 4;

impl Default for Hasher {
    fn default() -> Hasher {
        // Each of these has a random key of its own.
        Hasher([(); SECRETS].map(|()| RandomState::new().hash_one(())))
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Hasher")
    }
}

/// The two numbers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyFingerprint {
    /// A number that is spread evenly over all values, which chooses the set.
    spread: u64,
    /// The tag that is kept with the state.
    pub tag: u64,
}

impl Hasher {
    /// A hasher with these secrets of an earlier one: the same keys have the same fingerprints.
    pub fn with(secrets: [u64; SECRETS]) -> Hasher {
        Hasher(secrets)
    }

    /// The secrets, for [`Hasher::with`].
    pub fn secrets(&self) -> [u64; SECRETS] {
        self.0
    }

    /// The fingerprint of a key.
    pub fn of(&self, key: &[u8]) -> KeyFingerprint {
        let [a, b, c, d] = self.0;
        let hash = |one, other| SipHasher13::new_with_keys(one, other).hash(key);
        KeyFingerprint { spread: hash(a, b), tag: hash(c, d) }
    }
}

impl KeyFingerprint {
    /// The index of the key's set, out of `sets`.
    pub fn set(self, sets: usize) -> usize {
        // The high half of a product with a number of sets is below that number.
        usize::try_from((u128::from(self.spread) * sets as u128) >> 64).unwrap_or(0)
    }
}

keyword_enum! {
    /// The level at which refusals are logged.
    pub enum RefusalLevel {
        /// `info`.
        Info = "info",
        /// `notice`.
        Notice = "notice",
        /// `warn`.
        Warn = "warn",
        /// `error`.
        Error = "error",
    }
}

impl RefusalLevel {
    /// The level of the log.
    pub fn level(self) -> Level {
        match self {
            RefusalLevel::Info => Level::Info,
            RefusalLevel::Notice => Level::Notice,
            RefusalLevel::Warn => Level::Warn,
            RefusalLevel::Error => Level::Error,
        }
    }

    /// The level for messages that are milder than a refusal.
    pub fn milder(self) -> Level {
        match self {
            RefusalLevel::Info | RefusalLevel::Notice => Level::Info,
            RefusalLevel::Warn => Level::Notice,
            RefusalLevel::Error => Level::Warn,
        }
    }
}
