//! A response that has come on one stream, and its end.

use super::link::LinkEnd;
use crate::http2::Fields;

/// A response, as far as it has come on its stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct H3Message {
    /// The fields of the head, pseudo-fields first. Heads of interim responses are in `interim`.
    pub fields: Fields,
    /// The heads of interim responses, in their order.
    pub interim: Vec<Fields>,
    /// The part of the body that has come.
    pub body: Vec<u8>,
    /// The fields behind the body.
    pub trailers: Fields,
    /// Whether the response is complete.
    pub whole: bool,
    /// The code of a stream that the server, or the client's machine, has ended early.
    pub reset: Option<u64>,
    /// The code of a server that does not read the rest of the request (STOP_SENDING).
    pub stopped: Option<u64>,
}

impl H3Message {
    /// The first field of the head with this name, which is in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        find(&self.fields, name)
    }

    /// The status; 0 if the head has not come.
    pub fn status(&self) -> u16 {
        self.field(":status").and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// Whether nothing more comes on the stream.
    pub fn is_over(&self) -> bool {
        self.whole || self.reset.is_some()
    }
}

fn find<'f>(fields: &'f Fields, name: &str) -> Option<&'f str> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum H3End {
    /// The response is complete.
    Whole,
    /// The stream was reset with this code.
    Reset(u64),
    /// The server has not looked at the request, as its GOAWAY says.
    Unprocessed,
    /// The connection has ended.
    Gone(LinkEnd),
}

/// A response, as far as it has come, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct H3Response {
    /// The status; 0 if there was no head.
    pub status: u16,
    /// The message that has come.
    pub message: H3Message,
    /// The end of its stream.
    pub end: H3End,
}

impl H3Response {
    /// The first field of the head with this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.message.field(name)
    }

    /// The first field behind the body with this name.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        find(&self.message.trailers, name)
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.message.body
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.message.body).into_owned()
    }
}
