//! A message that has come on one stream, and its end.

use super::block::Fields;
use crate::ConnectionEnd;

/// A message: a response if this side is the client, a request if it is the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The fields of its head, pseudo-fields first. Fields of an interim response (1xx) are in `interim`.
    pub fields: Fields,
    /// The heads of interim responses, in their order.
    pub interim: Vec<Fields>,
    /// The part of the body that has come.
    pub body: Vec<u8>,
    /// The fields behind the body.
    pub trailers: Fields,
    /// The bytes of the last head's block, as they came.
    pub block: Vec<u8>,
    /// Whether END_STREAM has come.
    pub whole: bool,
    /// The code of the RST_STREAM that has come.
    pub reset: Option<u32>,
    /// Whether this side has sent RST_STREAM.
    pub given_up: bool,
}

/// The first field of this name.
pub(super) fn find<'f>(fields: &'f Fields, name: &str) -> Option<&'f str> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

impl Message {
    /// The first field of the head with this name, which is in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        find(&self.fields, name)
    }

    /// All fields of the head with this name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The status of a response; 0 if its head has not come.
    pub fn status(&self) -> u16 {
        self.field(":status").and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether nothing more comes on the stream.
    pub fn is_over(&self) -> bool {
        self.whole || self.reset.is_some()
    }
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// By END_STREAM.
    Whole,
    /// By RST_STREAM with this code, before END_STREAM.
    Reset(u32),
    /// The stream will not be served: a GOAWAY with this code named an earlier stream as the last one.
    Away(u32),
    /// With the connection, after a GOAWAY with this code if there was one.
    Gone(ConnectionEnd, Option<u32>),
}

/// A response, as far as it has come, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamResponse {
    /// The stream.
    pub stream: u32,
    /// The status; 0 if there was no head.
    pub status: u16,
    /// The message that has come.
    pub message: Message,
    /// The end of its stream.
    pub end: StreamEnd,
}

impl StreamResponse {
    /// The first field of the head with this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.message.field(name)
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.message.body
    }

    /// The body as text.
    pub fn text(&self) -> String {
        self.message.text()
    }

    /// The first trailer field with this name, which is in lower case.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        find(&self.message.trailers, name)
    }

    /// Whether it ended by END_STREAM.
    pub fn is_whole(&self) -> bool {
        self.end == StreamEnd::Whole
    }
}

/// A GOAWAY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// The last stream that the other side may have done something for.
    pub last: u32,
    /// The error code.
    pub code: u32,
    /// The text behind them.
    pub text: String,
}
