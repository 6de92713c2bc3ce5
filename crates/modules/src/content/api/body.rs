//! Bodies of requests, which have to be JSON.

use freerun_http::body::{self, BodyError};
use freerun_http::request::Request;
use freerun_proto::Status;
use freerun_runtime::timer::Timer;
use serde_json::Value;

/// The largest number of bytes of a body that are read at a time.
const PIECE: usize = 64 << 10;

/// The reason that a body is not used.
pub enum BodyRefused {
    /// The body is too long.
    TooLong,
    /// The body does not come, or not completely.
    Unread,
    /// The body is not JSON, with the reason.
    NoJson(String),
    /// The server answers with this status.
    Status(Status),
}

/// Reads the body, of at most `most` bytes.
///
/// # Errors
/// It cannot be used.
pub async fn json(request: &mut Request, most: usize) -> Result<Value, BodyRefused> {
    if request.body.declared_length().is_some_and(|length| length > most as u64) {
        return Err(BodyRefused::TooLong);
    }
    let (mut text, mut timer) = (Vec::new(), Timer::default());
    loop {
        match body::next_piece(request, &mut timer, PIECE).await {
            Ok(Some(piece)) if text.len() + piece.len() > most => return Err(BodyRefused::TooLong),
            Ok(Some(piece)) => text.extend_from_slice(&piece),
            Ok(None) => break,
            Err(BodyError::Status(Status::CONTENT_TOO_LARGE)) => return Err(BodyRefused::TooLong),
            Err(BodyError::TimedOut | BodyError::Broken) => return Err(BodyRefused::Unread),
            Err(error) => return Err(BodyRefused::Status(error.status())),
        }
    }
    serde_json::from_slice(&text).map_err(|error| BodyRefused::NoJson(error.to_string()))
}
