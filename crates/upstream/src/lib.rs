//! Groups of upstream servers: which server is asked next, what is known of each, and the connections to them.
//!
//! What decides is pure: time and randomness come with the question ([`group::Query`]), so that it can be tested exactly. All loops ask
//! at once and none of them ever waits: what they share is atomics.

pub mod address;
pub mod balance;
pub mod connect;
pub mod figures;
pub mod group;
pub mod health;
pub mod idle;
pub mod lease;
pub mod peer;
pub mod place;
mod queue;
pub mod random;
pub mod resolve;
pub mod sessions;

pub use address::UpstreamAddress;
pub use group::{Group, GroupSettings, NoPeer, PeerSpec, Query, Tried};
pub use lease::{Failure, Lease, Verdict};
pub use peer::{Live, Peer, PeerSettings};

/// Milliseconds of a clock that never goes back; where it begins does not matter.
pub type Millis = u64;

/// The time, as all who share a server have to tell it: since the process began.
pub fn now() -> Millis {
    freerun_runtime::loops::millis()
}
