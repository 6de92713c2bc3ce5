//! Facts that `ssl_preread` needs of a connection that is passed on as it is.
//!
//! It forgives what does not concern it, because the server behind will judge. Where the bytes make no sense nothing is
//! known, and the connection is passed on all the same. The rules are those that nginx was seen to follow.

use super::hello::{ExtensionType, Parts};
use super::lists::{AlpnProtocols, Cursor, Extensions};
use super::records::{CLIENT_HELLO, SSLV2_BIT};
use super::{MessageReader, RawMessage, TLS_1_3};
use crate::Span;

/// Facts about a connection; spans are into [`Preread::message`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preread {
    /// The highest version that the client speaks, as `$ssl_preread_protocol`; empty if that is not known.
    pub protocol: &'static str,
    /// The first name of a server that the client sent; not checked in any way.
    pub server_name: Option<Span>,
    /// The application protocols: names with their lengths before them.
    pub alpn: Option<Span>,
    raw: Option<RawMessage>,
}

impl Preread {
    /// The bytes that the spans are about; `input` is that which [`PrereadReader::advance`] was given.
    pub fn message<'m>(&'m self, input: &'m [u8]) -> &'m [u8] {
        self.raw.as_ref().map_or(&[], |raw| raw.bytes(input))
    }

    /// The name of the server, as `$ssl_preread_server_name`.
    pub fn server_name<'m>(&'m self, input: &'m [u8]) -> &'m [u8] {
        self.server_name.unwrap_or_default().of(self.message(input))
    }

    /// The names of the protocols, which `$ssl_preread_alpn_protocols` has with commas between them.
    pub fn alpn<'m>(&'m self, input: &'m [u8]) -> AlpnProtocols<'m> {
        AlpnProtocols::new(self.alpn.unwrap_or_default().of(self.message(input)))
    }

    /// Reads a message; `None` if it makes no sense.
    fn of(raw: RawMessage, input: &[u8]) -> Option<Preread> {
        let message = raw.bytes(input);
        let parts = Parts::of(message).ok()?;
        let mut version = parts.legacy_version;
        let (mut server_name, mut alpn) = (None, None);
        let mut extensions = Extensions::new(parts.extensions);
        for (kind, content) in &mut extensions {
            let content = Cursor { rest: content };
            let (slot, value) = match ExtensionType(kind) {
                ExtensionType::SERVER_NAME => (&mut server_name, first_name(content)?),
                ExtensionType::ALPN => (&mut alpn, super::hello::protocol_list(content)?),
                ExtensionType::SUPPORTED_VERSIONS => {
                    let mut content = content;
                    content.vector8().filter(|list| content.rest.is_empty() && list.len() > 1)?;
                    // nginx does not look into it: who sends it speaks TLS 1.3.
                    version = TLS_1_3;
                    continue;
                }
                _ => continue,
            };
            if slot.is_some() {
                return None;
            }
            let start = value.as_ptr().addr() - message.as_ptr().addr();
            *slot = Some(Span::new(start as u32, (start + value.len()) as u32));
        }
        match extensions.rest() {
            [] => {}
            // Later versions of nginx take the version from the type of the extension alone, whatever length it has.
            [0, 43, ..] => return Some(Preread { protocol: TLS_1_3_NAME, raw: Some(raw), ..Preread::default() }),
            _ => return None,
        }
        let protocol = version_name(version).unwrap_or_default();
        Some(Preread { protocol, server_name, alpn, raw: Some(raw) })
    }
}

/// The first name in the content of the extension `server_name`; further ones are not looked at.
fn first_name(mut content: Cursor<'_>) -> Option<&[u8]> {
    let mut list = Cursor { rest: content.vector16().filter(|_| content.rest.is_empty())? };
    (list.u8()? == 0).then_some(())?;
    list.vector16()
}

/// Version 1.3 as nginx names it.
const TLS_1_3_NAME: &str = "TLSv1.3";

/// A version as nginx names it; `None` for versions that do not exist.
pub const fn version_name(version: u16) -> Option<&'static str> {
    Some(match version {
        0x0002 => "SSLv2",
        0x0300 => "SSLv3",
        0x0301 => "TLSv1",
        0x0302 => "TLSv1.1",
        0x0303 => "TLSv1.2",
        TLS_1_3 => TLS_1_3_NAME,
        _ => return None,
    })
}

/// Reads what `ssl_preread` wants to know from the bytes of a connection.
///
/// A ClientHello may be as long as the protocol allows: how many bytes are read before a connection is passed on is the caller's
/// limit.
#[derive(Debug)]
pub struct PrereadReader {
    records: MessageReader,
}

impl Default for PrereadReader {
    fn default() -> PrereadReader {
        PrereadReader { records: MessageReader::unlimited() }
    }
}

impl PrereadReader {
    /// A reader for a connection that has sent nothing yet.
    pub fn new() -> PrereadReader {
        PrereadReader::default()
    }

    /// Reads on in `input`, all bytes of the connection so far. `None`: more are needed. Where nothing can be known,
    /// [`Preread::default`] says so.
    pub fn advance(&mut self, input: &[u8]) -> Option<Preread> {
        if input.first().is_some_and(|first| first & SSLV2_BIT != 0) {
            return sslv2(input);
        }
        match self.records.advance(input) {
            Ok(None) => None,
            Ok(Some(raw)) => Some(Preread::of(raw, input).unwrap_or_default()),
            Err(_) => Some(Preread::default()),
        }
    }
}

/// A hello of SSLv2 has a version and no names: length in two bytes, type, version.
fn sslv2(input: &[u8]) -> Option<Preread> {
    let &[_, _, kind, major, minor] = input.first_chunk()?;
    let version = u16::from_be_bytes([major, minor]);
    let protocol = if kind == CLIENT_HELLO { version_name(version).unwrap_or_default() } else { "" };
    Some(Preread { protocol, ..Preread::default() })
}
