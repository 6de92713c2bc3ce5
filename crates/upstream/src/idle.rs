//! Idle connections of a peer, shared by all loops.

/// The idle connections of a peer.
#[derive(Debug, Default)]
pub struct Idle {}
