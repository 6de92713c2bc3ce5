//! Objects that are being fetched: one [`Fill`] for a key at a time.
//!
//! A request that finds no object leads a fill ([`Cache::lead`](crate::cache::Cache::lead)) and gives it the bytes that
//! the origin sends ([`FillWriter`]). All other requests follow it, on any loop ([`Follower`]). They get the bytes that
//! have come at once, and the rest as it comes. A waiting task is woken; none looks again and again. A task of a pool
//! writes the same bytes to a file, which gets its name when the body is whole (`write.rs`). `state.rs` says what
//! happens to each of them when something fails.

mod file;
mod fill_role;
mod fill_view;
mod fill_writer;
mod follow;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod waiting_slots;
mod window;
mod write;

pub use fill_role::Lead;
pub use fill_writer::{FillWriter, UnwantedRest};
pub use follow::{FollowError, Follower, Progress};
pub use state::{LINGER, SMALL_WINDOW, WINDOW, WINDOWS, WRITE};
pub(crate) use table::Fills;
pub use table::{Fill, FillFigures, MAX_FILLS};
