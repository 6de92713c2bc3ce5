//! What is kept of sessions, so that later ones need no full handshake.

mod peers;

pub use peers::{ClientSessions, PeerSessions};
