//! The steps of a request between its phases, and its end.

use bytes::Bytes;
use freerun_proto::Status;

use crate::request::response::Response;

/// The instruction for the connection.
pub enum Answer {
    /// Send this response.
    Response(Box<Response>),
    /// Close the connection without a response.
    Close,
}

/// The place where the request goes on.
pub(super) enum Step {
    /// With the server's own handlers and the choice of a location.
    Route,
    /// With the choice of a location.
    Choose,
    /// With the script and the handlers of its location.
    Location,
    /// Nowhere: it has its response.
    Answer(Box<Response>),
    /// Nowhere: it is answered with the built-in page of this status, and with this `Location`.
    Status(Status, Option<Bytes>),
    /// Nowhere: the connection is closed.
    Close,
}

impl Step {
    /// The end of a request that fails with this status.
    pub(super) fn status(status: Status) -> Step {
        Step::Status(status, None)
    }
}

impl From<Answer> for Step {
    fn from(answer: Answer) -> Step {
        match answer {
            Answer::Response(response) => Step::Answer(response),
            Answer::Close => Step::Close,
        }
    }
}
