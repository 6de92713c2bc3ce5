//! The message ClientHello and its extensions.
//!
//! RFC 8446 section 4.1.2 has the message. It is the message of RFC 5246 section 7.4.1.2 with other meanings.

use super::lists::{AlpnProtocols, Cursor, Extensions, KeyShareGroups, U16s, is_grease};
use super::records::{CLIENT_HELLO, MESSAGE_HEAD};
use super::{HelloError, TLS_1_2, TLS_1_3};
use crate::Span;

/// The type of an extension, by its number in IANA's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtensionType(pub u16);

impl ExtensionType {
    /// The name of the server (RFC 6066 section 3).
    pub const SERVER_NAME: ExtensionType = ExtensionType(0);
    /// The client wants an OCSP response (RFC 6066 section 8).
    pub const STATUS_REQUEST: ExtensionType = ExtensionType(5);
    /// Groups for the key exchange (RFC 8446 section 4.2.7); once elliptic curves.
    pub const SUPPORTED_GROUPS: ExtensionType = ExtensionType(10);
    /// Formats of points on curves (RFC 8422 section 5.1.2).
    pub const EC_POINT_FORMATS: ExtensionType = ExtensionType(11);
    /// Signatures that the client can verify (RFC 8446 section 4.2.3).
    pub const SIGNATURE_ALGORITHMS: ExtensionType = ExtensionType(13);
    /// Application protocols (RFC 7301).
    pub const ALPN: ExtensionType = ExtensionType(16);
    /// Codings of certificates that the client can expand (RFC 8879).
    pub const COMPRESS_CERTIFICATE: ExtensionType = ExtensionType(27);
    /// A ticket to resume a session of TLS 1.2 with, or the wish for one (RFC 5077).
    pub const SESSION_TICKET: ExtensionType = ExtensionType(35);
    /// Keys known beforehand: sessions of TLS 1.3 to be resumed (RFC 8446 section 4.2.11).
    pub const PRE_SHARED_KEY: ExtensionType = ExtensionType(41);
    /// Data of the application follows at once (RFC 8446 section 4.2.10).
    pub const EARLY_DATA: ExtensionType = ExtensionType(42);
    /// Versions that the client speaks (RFC 8446 section 4.2.1).
    pub const SUPPORTED_VERSIONS: ExtensionType = ExtensionType(43);
    /// Modes for keys known beforehand (RFC 8446 section 4.2.9).
    pub const PSK_KEY_EXCHANGE_MODES: ExtensionType = ExtensionType(45);
    /// Signatures in certificates that the client can verify (RFC 8446 section 4.2.3).
    pub const SIGNATURE_ALGORITHMS_CERT: ExtensionType = ExtensionType(50);
    /// Keys for the key exchange (RFC 8446 section 4.2.8).
    pub const KEY_SHARE: ExtensionType = ExtensionType(51);
    /// Secure renegotiation (RFC 5746).
    pub const RENEGOTIATION_INFO: ExtensionType = ExtensionType(0xff01);
}

/// The length of `random`, in bytes.
const RANDOM: usize = 32;
/// The longest session id, in bytes.
const MAX_SESSION_ID: usize = 32;
/// The longest name of a server, in bytes: OpenSSL's limit, and the limit of DNS.
const MAX_SERVER_NAME: usize = 255;
/// The type of names of hosts in the extension `server_name`, which is the only one there is.
const HOST_NAME: u8 = 0;
/// The value among the cipher suites with which a client says that it has fallen back to a lower version (RFC 7507
/// section 2).
const FALLBACK_SCSV: u16 = 0x5600;
/// The compression method that compresses nothing.
const NO_COMPRESSION: u8 = 0;

/// A client's offers, as spans into the message that it was parsed from.
///
/// An extension's span is `None` if the client did not send it. Lists are checked for their form, so that the iterators
/// give all of their elements. The formats of tickets, of keys known beforehand and of extensions that are not named
/// here are not looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientHello {
    /// The only version before `supported_versions` came: at most TLS 1.2's in hellos of TLS 1.3.
    pub legacy_version: u16,
    /// The client's random bytes.
    pub random: Span,
    /// The session to be resumed in TLS 1.2; often random in TLS 1.3. Up to 32 bytes.
    pub session_id: Span,
    /// Cipher suites; at least one. [`ClientHello::cipher_suites`] reads them.
    pub cipher_suites: Span,
    /// Compression methods, a byte each. One of them is 0, which means none.
    pub compression_methods: Span,
    /// All extensions. [`ClientHello::extensions`] reads them.
    pub extensions: Span,
    /// The name of the server as the client sent it, which may be anything up to 255 bytes without NUL, even empty.
    pub server_name: Option<Span>,
    /// Application protocols; at least one, and none of them empty. [`ClientHello::alpn`] reads them.
    pub alpn: Option<Span>,
    /// Versions; at least one.
    pub supported_versions: Option<Span>,
    /// Groups; at least one.
    pub supported_groups: Option<Span>,
    /// Formats of points, a byte each; at least one.
    pub ec_point_formats: Option<Span>,
    /// Signature schemes; at least one.
    pub signature_algorithms: Option<Span>,
    /// Signature schemes in certificates; at least one.
    pub signature_algorithms_cert: Option<Span>,
    /// Keys for the key exchange, perhaps none. [`ClientHello::key_share_groups`] reads their groups.
    pub key_shares: Option<Span>,
    /// A ticket of TLS 1.2; empty if the client has none and would like one.
    pub session_ticket: Option<Span>,
    /// Whether there are keys known beforehand, which nearly always are sessions of TLS 1.3.
    pub pre_shared_key: bool,
    /// Whether data of the application follows at once.
    pub early_data: bool,
}

/// The place of a part of the message in it.
fn span_of(message: &[u8], part: &[u8]) -> Span {
    let start = part.as_ptr().addr() - message.as_ptr().addr();
    Span::new(start as u32, (start + part.len()) as u32)
}

/// A list of numbers of two bytes, with nothing behind it: at least one.
fn u16_list<'m>(mut content: Cursor<'m>, what: &'static str) -> Result<&'m [u8], HelloError> {
    match content.vector16() {
        Some(list) if content.rest.is_empty() && !list.is_empty() && list.len().is_multiple_of(2) => Ok(list),
        _ => Err(HelloError::Malformed(what)),
    }
}

/// A list of bytes, with nothing behind it: at least one.
fn u8_list<'m>(mut content: Cursor<'m>, what: &'static str) -> Result<&'m [u8], HelloError> {
    match content.vector8() {
        Some(list) if content.rest.is_empty() && !list.is_empty() => Ok(list),
        _ => Err(HelloError::Malformed(what)),
    }
}

/// The name in the content of the extension `server_name`: exactly one, and a host's.
fn server_name(mut content: Cursor<'_>) -> Result<&[u8], HelloError> {
    const WHAT: &str = "server_name";
    let malformed = HelloError::Malformed(WHAT);
    let mut list = Cursor { rest: content.vector16().ok_or(malformed)? };
    if list.u8() != Some(HOST_NAME) {
        return Err(malformed);
    }
    let name = list.vector16().ok_or(malformed)?;
    if !list.rest.is_empty() || !content.rest.is_empty() {
        return Err(malformed);
    }
    if name.len() > MAX_SERVER_NAME || memchr::memchr(0, name).is_some() {
        return Err(HelloError::ServerName);
    }
    Ok(name)
}

/// The list of names in the content of the extension ALPN.
pub(super) fn protocol_list(mut content: Cursor<'_>) -> Option<&[u8]> {
    let list = content.vector16().filter(|list| content.rest.is_empty() && !list.is_empty())?;
    let mut names = Cursor { rest: list };
    while !names.rest.is_empty() {
        names.vector8().filter(|name| !name.is_empty())?;
    }
    Some(list)
}

/// The list in the content of the extension `key_share`.
fn key_shares(mut content: Cursor<'_>) -> Option<&[u8]> {
    let list = content.vector16().filter(|_| content.rest.is_empty())?;
    let mut shares = Cursor { rest: list };
    while !shares.rest.is_empty() {
        shares.u16()?;
        shares.vector16().filter(|key| !key.is_empty())?;
    }
    Some(list)
}

/// The parts that every ClientHello has; what is in them is not checked.
pub(super) struct Parts<'m> {
    pub(super) legacy_version: u16,
    pub(super) random: &'m [u8],
    pub(super) session_id: &'m [u8],
    pub(super) cipher_suites: &'m [u8],
    pub(super) compression_methods: &'m [u8],
    /// Empty also if there is not even their length, as in hellos of old clients.
    pub(super) extensions: &'m [u8],
}

impl<'m> Parts<'m> {
    /// Takes a message (with its head) apart. Its type is not looked at.
    pub(super) fn of(message: &'m [u8]) -> Result<Parts<'m>, HelloError> {
        const SHORT: HelloError = HelloError::Malformed("message");
        let mut body = Cursor { rest: message.get(MESSAGE_HEAD..).ok_or(SHORT)? };
        let mut parts = Parts {
            legacy_version: body.u16().ok_or(SHORT)?,
            random: body.take(RANDOM).ok_or(SHORT)?,
            session_id: body.vector8().ok_or(HelloError::Malformed("session id"))?,
            cipher_suites: body.vector16().ok_or(HelloError::Malformed("cipher suites"))?,
            compression_methods: body.vector8().ok_or(HelloError::Malformed("compression methods"))?,
            extensions: &message[message.len()..],
        };
        if !body.rest.is_empty() {
            parts.extensions = body.vector16().ok_or(HelloError::Malformed("extensions"))?;
        }
        if body.rest.is_empty() { Ok(parts) } else { Err(SHORT) }
    }
}

impl ClientHello {
    /// Parses a whole message, its head included (type and length, RFC 8446 section 4).
    ///
    /// # Errors
    /// The errors of [`HelloError`] that concern messages.
    pub fn parse(message: &[u8]) -> Result<ClientHello, HelloError> {
        if let Some(&kind) = message.first()
            && kind != CLIENT_HELLO
        {
            return Err(HelloError::UnexpectedMessage(kind));
        }
        let parts = Parts::of(message)?;
        if parts.legacy_version >> 8 < 3 {
            return Err(HelloError::Version(parts.legacy_version));
        }
        if parts.session_id.len() > MAX_SESSION_ID {
            return Err(HelloError::Malformed("session id"));
        }
        if !parts.cipher_suites.len().is_multiple_of(2) {
            return Err(HelloError::Malformed("cipher suites"));
        }
        if parts.cipher_suites.is_empty() {
            return Err(HelloError::NoCiphers);
        }
        // In TLS 1.3 it has to be the only one, but whether that is spoken is for the server to say.
        if !parts.compression_methods.contains(&NO_COMPRESSION) {
            return Err(HelloError::Malformed("compression methods"));
        }
        let mut hello = ClientHello {
            legacy_version: parts.legacy_version,
            random: span_of(message, parts.random),
            session_id: span_of(message, parts.session_id),
            cipher_suites: span_of(message, parts.cipher_suites),
            compression_methods: span_of(message, parts.compression_methods),
            extensions: span_of(message, parts.extensions),
            server_name: None,
            alpn: None,
            supported_versions: None,
            supported_groups: None,
            ec_point_formats: None,
            signature_algorithms: None,
            signature_algorithms_cert: None,
            key_shares: None,
            session_ticket: None,
            pre_shared_key: false,
            early_data: false,
        };
        hello.read_extensions(message, parts.extensions)?;
        Ok(hello)
    }

    fn read_extensions(&mut self, message: &[u8], extensions: &[u8]) -> Result<(), HelloError> {
        let mut seen = 0u64;
        let mut extensions = Extensions::new(extensions);
        for (kind, content) in &mut extensions {
            if self.pre_shared_key {
                return Err(HelloError::AfterPreSharedKey);
            }
            // Of types that do not exist (yet), as of random ones, OpenSSL allows several.
            let bit = match kind {
                0..63 => 1 << kind,
                _ if kind == ExtensionType::RENEGOTIATION_INFO.0 => 1 << 63,
                _ => 0,
            };
            if seen & bit != 0 {
                return Err(HelloError::DuplicateExtension(kind));
            }
            seen |= bit;
            self.read_extension(message, ExtensionType(kind), Cursor { rest: content })?;
        }
        if extensions.rest().is_empty() { Ok(()) } else { Err(HelloError::Malformed("extensions")) }
    }

    fn read_extension(&mut self, message: &[u8], kind: ExtensionType, content: Cursor) -> Result<(), HelloError> {
        let span = |part: &[u8]| Some(span_of(message, part));
        match kind {
            ExtensionType::SERVER_NAME => self.server_name = span(server_name(content)?),
            ExtensionType::ALPN => {
                self.alpn = span(protocol_list(content).ok_or(HelloError::Malformed("ALPN"))?);
            }
            ExtensionType::SUPPORTED_VERSIONS => {
                let list = u8_list(content, "supported_versions").map_err(|_| HelloError::Versions)?;
                if !list.len().is_multiple_of(2) {
                    return Err(HelloError::Versions);
                }
                self.supported_versions = span(list);
            }
            ExtensionType::SUPPORTED_GROUPS => self.supported_groups = span(u16_list(content, "supported_groups")?),
            ExtensionType::EC_POINT_FORMATS => self.ec_point_formats = span(u8_list(content, "ec_point_formats")?),
            ExtensionType::SIGNATURE_ALGORITHMS => {
                self.signature_algorithms = span(u16_list(content, "signature_algorithms")?);
            }
            ExtensionType::SIGNATURE_ALGORITHMS_CERT => {
                self.signature_algorithms_cert = span(u16_list(content, "signature_algorithms_cert")?);
            }
            ExtensionType::KEY_SHARE => {
                self.key_shares = span(key_shares(content).ok_or(HelloError::Malformed("key_share"))?);
            }
            ExtensionType::SESSION_TICKET => self.session_ticket = span(content.rest),
            ExtensionType::PSK_KEY_EXCHANGE_MODES => {
                u8_list(content, "psk_key_exchange_modes")?;
            }
            ExtensionType::PRE_SHARED_KEY => self.pre_shared_key = true,
            ExtensionType::EARLY_DATA if content.rest.is_empty() => self.early_data = true,
            ExtensionType::EARLY_DATA => return Err(HelloError::Malformed("early_data")),
            _ => {}
        }
        Ok(())
    }

    /// The cipher suites, in the order in which the client prefers them.
    pub fn cipher_suites<'m>(&self, message: &'m [u8]) -> U16s<'m> {
        U16s::new(self.cipher_suites.of(message))
    }

    /// The extensions in their order: type and content.
    pub fn extensions<'m>(&self, message: &'m [u8]) -> Extensions<'m> {
        Extensions::new(self.extensions.of(message))
    }

    /// The content of the first extension of a type.
    pub fn extension<'m>(&self, message: &'m [u8], kind: ExtensionType) -> Option<&'m [u8]> {
        self.extensions(message).find(|&(found, _)| found == kind.0).map(|(_, content)| content)
    }

    /// The name of the server as the client sent it.
    pub fn server_name<'m>(&self, message: &'m [u8]) -> Option<&'m [u8]> {
        self.server_name.map(|name| name.of(message))
    }

    /// The application protocols that the client offers; empty if it sent no ALPN.
    pub fn alpn<'m>(&self, message: &'m [u8]) -> AlpnProtocols<'m> {
        AlpnProtocols::new(self.alpn.unwrap_or_default().of(message))
    }

    /// The groups that the client supports, in its order; empty if it did not say.
    pub fn groups<'m>(&self, message: &'m [u8]) -> U16s<'m> {
        U16s::new(self.supported_groups.unwrap_or_default().of(message))
    }

    /// The signature schemes that the client can verify, in its order; empty if it did not say.
    pub fn signature_algorithms<'m>(&self, message: &'m [u8]) -> U16s<'m> {
        U16s::new(self.signature_algorithms.unwrap_or_default().of(message))
    }

    /// The groups that the client sent keys for.
    pub fn key_share_groups<'m>(&self, message: &'m [u8]) -> KeyShareGroups<'m> {
        KeyShareGroups::new(self.key_shares.unwrap_or_default().of(message))
    }

    /// The versions in `supported_versions`; empty if the client did not send it.
    pub fn supported_versions<'m>(&self, message: &'m [u8]) -> U16s<'m> {
        U16s::new(self.supported_versions.unwrap_or_default().of(message))
    }

    /// Whether the client speaks a version: as `supported_versions` says, or, without it, if it is not above
    /// `legacy_version`, nor TLS 1.3 (RFC 8446 section 4.2.1).
    pub fn offers_version(&self, message: &[u8], version: u16) -> bool {
        match self.supported_versions {
            Some(_) => self.supported_versions(message).any(|offered| offered == version),
            None => version <= self.legacy_version.min(TLS_1_2),
        }
    }

    /// The highest version that the client speaks, random values left out; not above TLS 1.2 if it did not send
    /// `supported_versions`. `None`: there were only random ones.
    pub fn highest_version(&self, message: &[u8]) -> Option<u16> {
        match self.supported_versions {
            Some(_) => self.supported_versions(message).filter(|&version| !is_grease(version)).max(),
            None => Some(self.legacy_version.min(TLS_1_2)),
        }
    }

    /// Whether the client has tried a higher version before, and failed (RFC 7507 section 2).
    pub fn is_fallback(&self, message: &[u8]) -> bool {
        self.cipher_suites(message).any(|suite| suite == FALLBACK_SCSV)
    }

    /// Whether the client asks for a session to be resumed. In TLS 1.3 it does so by a key known beforehand, otherwise
    /// by a ticket or by a session id. An id that is just one of TLS 1.3 means nothing (RFC 8446 section 4.1.2).
    pub fn wants_resumption(&self, message: &[u8]) -> bool {
        let has_ticket = self.session_ticket.is_some_and(|ticket| !ticket.is_empty());
        let has_id = !self.session_id.is_empty() && !self.offers_version(message, TLS_1_3);
        self.pre_shared_key || has_ticket || has_id
    }
}

/// The extensions of a ClientHello, each with its type, its content and the offset in the message at which it begins. The message
/// need not be whole: the proof of a key known beforehand is made of a ClientHello without its end (RFC 8446 section 4.2.11.2).
pub fn located_extensions(message: &[u8]) -> impl Iterator<Item = (usize, u16, &[u8])> {
    /// The type of an extension and the length of its content.
    const EXTENSION_HEAD: usize = 4;
    let mut before = Cursor { rest: message };
    let mut skip = || {
        before.take(MESSAGE_HEAD + 2 + RANDOM)?;
        before.vector8()?;
        before.vector16()?;
        before.vector8()?;
        before.u16()
    };
    let extensions = if skip().is_some() { before.rest } else { &[] };
    let mut next = message.len() - extensions.len();
    Extensions::new(extensions).map(move |(kind, content)| {
        let begin = next;
        next += EXTENSION_HEAD + content.len();
        (begin, kind, content)
    })
}
