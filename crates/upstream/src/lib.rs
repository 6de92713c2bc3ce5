//! Groups of upstream servers: which server is asked next, what is known of each, and the connections to them.
//!
//! What decides is pure: time and randomness come with the question ([`Query`]), so that it can be tested exactly. All loops ask
//! at once and none of them ever waits: what they share is atomics.

//!
//! The modules, from the bottom to the top; each imports only those before it:
//!
//! 1. [`address`], [`clock`], [`failure`], [`method`], [`pool`], [`query`], [`random`], [`sessions`]: leaf types;
//! 2. [`figures`] and `answers`: what is counted of a server;
//! 3. [`live`]: what is known of a server, whatever the configuration;
//! 4. `queue` and [`group_state`]: what is known of a group, whatever the configuration;
//! 5. [`health`]: whether a server is well;
//! 6. [`peer`]: a server as one configuration has it;
//! 7. [`lease`]: a server that was chosen for one attempt;
//! 8. [`balance`], [`group`] and `waiting`: the choice;
//! 9. [`place`], [`resolve`], [`connect`]: names, and connections.

pub mod address;
mod answers;
pub mod balance;
pub mod clock;
pub mod connect;
pub mod failure;
pub mod figures;
pub mod group;
pub mod group_state;
pub mod health;
pub mod lease;
pub mod live;
pub mod method;
pub mod peer;
pub mod place;
pub mod pool;
pub mod query;
mod queue;
pub mod random;
pub mod resolve;
pub mod sessions;
mod waiting;

pub use address::UpstreamAddress;
pub use clock::{Millis, now};
pub use failure::{Failure, Verdict};
pub use group::{Group, GroupSettings, PeerSpec};
pub use group_state::GroupState;
pub use lease::Lease;
pub use live::Live;
pub use method::Method;
pub use peer::{Peer, PeerSettings};
pub use query::{Bound, NoPeer, Query, Tried};
