//! Framing of a response's body: RFC 9112 section 6.3.

use crate::body::BodyDecoder;
use crate::{Method, Version};

use super::parser::ResponseHead;

/// The kind of the request, as far as it decides how the response is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RequestKind {
    /// HEAD: no body, whatever the head says.
    Head,
    /// CONNECT: a success is a tunnel.
    Connect,
    /// Any other method.
    #[default]
    Other,
}

impl RequestKind {
    /// The kind of a request with that method (of the request to the upstream, which is not always the client's).
    pub const fn by(method: Method) -> RequestKind {
        match method {
            Method::Head => RequestKind::Head,
            Method::Connect => RequestKind::Connect,
            _ => RequestKind::Other,
        }
    }
}

/// Framing of a response's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// There is no body.
    None,
    /// The body has this many bytes.
    Length(u64),
    /// The body is in the chunked coding.
    Chunked,
    /// The body is all bytes until the upstream closes.
    UntilClose,
    /// There is no body: the connection is no longer HTTP (101, or a success of CONNECT).
    Tunnel,
}

impl Framing {
    /// The framing of the body behind a head.
    pub const fn of(head: &ResponseHead, asked: RequestKind) -> Framing {
        match (head.status, asked) {
            (101, _) | (200..=299, RequestKind::Connect) => Framing::Tunnel,
            (100..=199 | 204 | 304, _) | (_, RequestKind::Head) => Framing::None,
            _ if head.chunked => Framing::Chunked,
            _ => match head.content_length {
                Some(length) => Framing::Length(length),
                None => Framing::UntilClose,
            },
        }
    }

    /// Whether the connection can serve another request once the body has ended: RFC 9112 section 9.3. A chunked
    /// response of HTTP/1.0 is the last one, since its framing may have been made by a proxy that does not support
    /// chunks (section 6.1).
    pub const fn keeps(self, head: &ResponseHead) -> bool {
        let persistent =
            head.connection.persists(head.version) && (matches!(head.version, Version::Http11) || !head.chunked);
        persistent && !matches!(self, Framing::UntilClose | Framing::Tunnel)
    }

    /// A decoder before the first byte of the body.
    pub fn decoder(self) -> BodyDecoder {
        match self {
            Framing::None | Framing::Tunnel => BodyDecoder::Length(0),
            Framing::Length(length) => BodyDecoder::Length(length),
            Framing::Chunked => BodyDecoder::chunked(),
            Framing::UntilClose => BodyDecoder::UntilClose,
        }
    }
}
