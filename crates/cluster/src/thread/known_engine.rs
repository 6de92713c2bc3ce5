//! The memory of a node: the marks of its engine, and a time.

use std::time::Duration;

use freerun_runtime::log::clock;

/// The time for which a node remembers its own messages, to send them again to an engine that may have lost them. Its knowledge
/// of the engine counts as present for as long.
pub(super) const REMEMBERED: Duration = Duration::from_secs(60);

/// The marks of the engine that this node has followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KnownEngine {
    /// The address and the prefix that the configuration has.
    pub(super) name: String,
    /// The mark: another one when the engine has lost everything.
    pub(super) mark: Vec<u8>,
    /// The name of its history: another one when a replica has become the primary.
    pub(super) history: String,
}

/// The present time in milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    u64::try_from(clock::since_1970().as_millis()).unwrap_or(u64::MAX)
}
