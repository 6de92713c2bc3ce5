//! What stands for a location in this configuration and in the next one.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use freerun_conf::Node;

/// Gives each location of a configuration a number of its own; lives in the configuration's context. It comes from where the
/// location's server listens, from the names of both, and from how many alike came before, so that it stays the same when
/// something else changes.
#[derive(Default)]
pub(super) struct Identities {
    server: u64,
    seen: HashMap<u64, u32>,
}

fn of(parts: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(parts)
}

impl Identities {
    /// The locations that follow are those of this server.
    pub(super) fn enter(&mut self, server: &Node) {
        let telling = server.children().iter().filter(|node| matches!(&*node.name.text, "listen" | "server_name"));
        let words: Vec<Vec<&str>> =
            telling.map(|node| node.args.iter().map(|word| word.text.as_str()).collect()).collect();
        self.server = of(words);
    }

    /// The number of the next location of that name.
    pub(super) fn next(&mut self, name: &str) -> u64 {
        let alike = of((self.server, name));
        let before = self.seen.entry(alike).or_default();
        *before += 1;
        of((alike, *before))
    }
}
