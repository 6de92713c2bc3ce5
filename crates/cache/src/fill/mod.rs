//! Objects that are being fetched: one [`Fill`] for a key at a time.
//!
//! Who finds no object leads a fill ([`Cache::lead`](crate::cache::Cache::lead)) and gives it what the origin sends
//! ([`Filling`]); all others follow it, on whichever loop they are, and get what has come at once and the rest as it comes
//! ([`Follower`]). Nobody polls: who waits is woken. A task of a pool writes the same bytes to a file, which gets its name
//! when the body is whole (`write.rs`). What becomes of whom when something fails is in `state.rs`.

mod file;
mod filling;
mod follow;
mod lead;
mod look;
mod seats;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod window;
mod write;

pub use filling::{Filling, Unwanted};
pub use follow::{Follower, Progress};
pub use lead::Lead;
pub use state::{LINGER, SMALL_WINDOW, WINDOW, WINDOWS, WRITE};
pub(crate) use table::Fills;
pub use table::{Fill, FillFigures, MAX_FILLS};
