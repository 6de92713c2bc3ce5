//! Names of what is in the engine. All begin with the prefix in braces, so that an engine of several servers keeps them on one
//! of them.

/// Makes names of what is in the engine.
#[derive(Debug, Clone)]
pub(crate) struct EngineNames(String);

impl EngineNames {
    /// The names of a cluster with this prefix.
    pub(crate) fn new(prefix: &str) -> EngineNames {
        EngineNames(format!("{{{prefix}}}"))
    }

    fn below(&self, rest: &str) -> String {
        format!("{}:{rest}", self.0)
    }

    /// The mark: it is another one when the engine has lost everything.
    pub(crate) fn mark(&self) -> String {
        self.below("mark")
    }

    /// The check of the secret.
    pub(crate) fn check(&self) -> String {
        self.below("check")
    }

    /// The list of nodes.
    pub(crate) fn nodes(&self) -> String {
        self.below("nodes")
    }

    /// The table of a node; of no node, the beginning of such names.
    pub(crate) fn node(&self, node: &str) -> String {
        self.below(&format!("node:{node}"))
    }

    /// The table of a zone of pairs.
    pub(crate) fn pairs(&self, zone: &str) -> String {
        self.below(&format!("kv:{zone}"))
    }

    /// The log of a zone of pairs.
    pub(crate) fn pairs_log(&self, zone: &str) -> String {
        self.below(&format!("kv:{zone}:log"))
    }

    /// The right to remove pairs of a zone whose time is over.
    pub(crate) fn sweep(&self, zone: &str) -> String {
        self.below(&format!("kv:{zone}:sweep"))
    }

    /// The log of the purges of a cache.
    pub(crate) fn purges_log(&self, cache: &str) -> String {
        self.below(&format!("purge:{cache}"))
    }

    /// The list of ticket keys with this period in seconds.
    pub(crate) fn tickets(&self, period: u64) -> String {
        self.below(&format!("tickets:{period}"))
    }

    /// The beginning of the names of the tables with the buckets of a zone. They are made anew after each of these times, so that
    /// nodes with another rate have others.
    pub(crate) fn buckets(&self, zone: &str, window: u64) -> String {
        self.below(&format!("limit:{zone}:{window}:"))
    }
}
