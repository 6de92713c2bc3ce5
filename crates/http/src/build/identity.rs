//! Numbers that identify a location in this configuration and in the next one.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use freerun_conf::Node;

/// Gives each location of a configuration a number of its own; lives in the configuration's context. The number is made
/// of the addresses that the location's server listens on, the names of both, and how many locations with these came
/// before. So it stays the same when another part of the configuration changes.
#[derive(Default)]
pub(super) struct Identities {
    server: u64,
    seen: HashMap<u64, u32>,
}

fn of(parts: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(parts)
}

impl Identities {
    /// Enters a server: the locations that follow belong to it.
    pub(super) fn enter(&mut self, server: &Node) {
        let telling = server.children().iter().filter(|node| matches!(&*node.name.text, "listen" | "server_name"));
        let words: Vec<Vec<&str>> =
            telling.map(|node| node.args.iter().map(|word| word.text.as_str()).collect()).collect();
        self.server = of(words);
    }

    /// The number of the next location with this name.
    pub(super) fn next(&mut self, name: &str) -> u64 {
        let alike = of((self.server, name));
        let before = self.seen.entry(alike).or_default();
        *before += 1;
        of((alike, *before))
    }
}
