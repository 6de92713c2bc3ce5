//! Groups of upstream servers: which server is asked next, the state of each server, and the connections to them.
//!
//! The code that decides is pure: time and randomness come with the query ([`Query`]), so that it can be tested
//! exactly. All loops choose at once and none of them ever waits, because they share only atomics.

//!
//! The modules, from the bottom to the top; each imports only those before it:
//!
//! 1. [`address`], [`clock`], [`failure`], [`method`], [`pool`], [`query`], [`random`], [`sessions`], [`udp`]: leaf types;
//! 2. [`figures`] and `answers`: the counters of a server;
//! 3. [`live`]: the state of a server, independent of the configuration;
//! 4. `carried`, `queue` and [`group_state`]: the state of a group, independent of the configuration;
//! 5. [`health`]: whether a server is healthy;
//! 6. [`peer`]: a server as one configuration describes it;
//! 7. [`lease`]: a server that was chosen for one attempt;
//! 8. [`balance`], [`group`] and `waiting`: the choice;
//! 9. [`place`], [`resolve`], [`connect`], [`exchange`], [`http2`], [`http3`], [`link`]: names, and connections.

pub mod address;
mod answers;
pub mod balance;
pub mod clock;
pub mod connect;
pub mod exchange;
pub mod failure;
pub mod figures;
pub mod group;
pub mod group_state;
pub mod health;
pub mod http2;
pub mod http3;
pub mod lease;
pub mod link;
pub mod live;
pub mod method;
pub mod peer;
pub mod place;
pub mod pool;
pub mod query;
mod queue;
pub mod random;
pub mod resolve;
mod saved_servers;
pub mod sessions;
pub mod udp;
mod waiting;

pub use address::UpstreamAddress;
pub use clock::{Millis, now};
pub use failure::{AttemptFailure, FailureVerdict};
pub use group::{Group, GroupSettings, PeerSpec};
pub use group_state::GroupState;
pub use lease::Lease;
pub use live::Live;
pub use method::Method;
pub use peer::{Peer, PeerSettings};
pub use query::{ClientBinding, NoPeer, Query, TriedServers};
