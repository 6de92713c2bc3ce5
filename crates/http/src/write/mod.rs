//! The parts of writing a response that are the same for every protocol: the contents of its head, the pace of its
//! body, and whether the client is still there.

pub mod decide;
pub mod fields;
pub mod file;
pub mod interim;
pub mod pace;
pub mod source_progress;
pub mod text;

use std::io;
use std::time::Duration;

use freerun_proto::Status;

use crate::connection::stream::StreamError;

/// The time for which held bytes wait for a source to give more.
pub const PAUSE: Duration = Duration::from_millis(10);

/// The reason why a response was not written completely. The connection is closed then: a response is cut short, never
/// padded or ended as if it were complete.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The client went away, or its connection broke.
    #[error("{0}")]
    Client(#[from] io::Error),
    /// The client's stream takes nothing more.
    #[error("{0}")]
    Stream(#[from] StreamError),
    /// The client took no bytes for `send_timeout`.
    #[error("client timed out")]
    TimedOut,
    /// The body could not be made or read, which is logged already.
    #[error("the body could not be completed")]
    Body,
    /// The body could not be made, and nothing was sent: this status is the response.
    #[error("the body could not be begun")]
    Unsent(Status),
}
