//! The contexts in which a directive may be written.

use std::ops::{BitOr, BitOrAssign};

/// A set of contexts. `apply_block` takes exactly one; a [`crate::Directive`] has any number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Contexts(u32);

macro_rules! contexts {
    ($($(#[doc = $doc:literal])* $name:ident = $bit:literal, $text:literal;)*) => {
        impl Contexts {
            $($(#[doc = $doc])* pub const $name: Contexts = Contexts(1 << $bit);)*

            const NAMES: &'static [(Contexts, &'static str)] = &[$((Contexts::$name, $text)),*];
        }
    };
}

contexts! {
    /// Outside every block.
    MAIN = 0, "main";
    /// `events {}`.
    EVENTS = 1, "events";
    /// `http {}`.
    HTTP = 2, "http";
    /// `server {}` in `http {}`.
    SERVER = 3, "server";
    /// `location {}`.
    LOCATION = 4, "location";
    /// `if {}` in `server {}`.
    SERVER_IF = 5, "if in server";
    /// `if {}` in `location {}`.
    LOCATION_IF = 6, "if in location";
    /// `limit_except {}`.
    LIMIT_EXCEPT = 7, "limit_except";
    /// `upstream {}` in `http {}`.
    UPSTREAM = 8, "upstream";
    /// `stream {}`.
    STREAM = 9, "stream";
    /// `server {}` in `stream {}`.
    STREAM_SERVER = 10, "server in stream";
    /// `upstream {}` in `stream {}`.
    STREAM_UPSTREAM = 11, "upstream in stream";
    /// `mail {}`.
    MAIL = 12, "mail";
    /// `server {}` in `mail {}`.
    MAIL_SERVER = 13, "server in mail";
    /// `acme_issuer {}` in `http {}`.
    ACME_ISSUER = 14, "acme_issuer";
    /// `otel_exporter {}` in `http {}`.
    OTEL_EXPORTER = 15, "otel_exporter";
}

impl Contexts {
    /// No context.
    pub const NONE: Contexts = Contexts(0);
    /// Every context.
    pub const ANY: Contexts = Contexts(u32::MAX);

    /// Both sets together; usable in constants, where `|` is not.
    #[must_use]
    pub const fn union(self, other: Contexts) -> Contexts {
        Contexts(self.0 | other.0)
    }

    /// Whether the two sets have a context in common.
    pub const fn intersects(self, other: Contexts) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of `other` is in `self`.
    pub const fn contains(self, other: Contexts) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names as nginx's documentation writes them, in a fixed order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(context, _)| self.contains(*context)).map(|(_, name)| *name)
    }
}

impl BitOr for Contexts {
    type Output = Contexts;
    fn bitor(self, other: Contexts) -> Contexts {
        self.union(other)
    }
}

impl BitOrAssign for Contexts {
    fn bitor_assign(&mut self, other: Contexts) {
        *self = self.union(other);
    }
}

impl std::fmt::Debug for Contexts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.names()).finish()
    }
}
