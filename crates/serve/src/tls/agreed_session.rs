//! The facts that a client and this server have agreed on in a handshake, as data: reading them needs no byte stream.

use std::sync::Arc;

use freerun_tls::session::{
    QuicParameters, SessionOrigin, SessionParameters, ShownCertificate, TlsSession, TlsVersion,
};

/// The facts that a client and this server have agreed on in their handshake. They do not depend on what carries the
/// session, which may be a byte stream or QUIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgreedSession {
    /// The protocol's version.
    pub version: TlsVersion,
    /// The cipher suite's name in OpenSSL.
    pub cipher: &'static str,
    /// The group's name in OpenSSL; empty if there was no key exchange.
    pub group: &'static str,
    /// The protocol above TLS (ALPN, RFC 7301).
    pub alpn: Option<Box<[u8]>>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
    /// The session's id, see [`SessionParameters::session_id`].
    pub session_id: Option<SessionId>,
    /// Whether the handshake was not complete yet: the client has sent early data.
    pub is_early: bool,
    /// The beginning of the session.
    pub origin: Option<SessionOrigin>,
    /// The certificate that the server has shown.
    pub shown: Option<ShownCertificate>,
    /// The certificates that the client has shown, in DER and its own first; nothing says that they are good. They are
    /// shared with the thread that verifies them.
    pub certificates: Option<Arc<[Vec<u8>]>>,
}

/// The most bytes of a session's id (RFC 5246 section 7.4.1.2).
const MAX_SESSION_ID: usize = 32;

/// The id of a session. It stands in the facts themselves: each connection with TLS has one, and a block of its own would
/// take half as much room again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId {
    bytes: [u8; MAX_SESSION_ID],
    len: u8,
}

impl SessionId {
    /// The id of these bytes; `None` if they are more than an id has.
    pub fn new(id: &[u8]) -> Option<SessionId> {
        let mut bytes = [0; MAX_SESSION_ID];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(SessionId { bytes, len: u8::try_from(id.len()).ok()? })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl AgreedSession {
    /// The facts of this session; `None` before its handshake is complete, or has brought early data.
    pub fn of(session: &TlsSession) -> Option<AgreedSession> {
        let SessionParameters { version, cipher, group, server_name: _, alpn, resumed, session_id, early_data } =
            session.agreed()?;
        let mut certificates = session.peer_certificates().peekable();
        let has_any = certificates.peek().is_some();
        Some(AgreedSession {
            version,
            cipher,
            group,
            alpn: alpn.map(Box::from),
            is_resumed: resumed,
            session_id: session_id.and_then(SessionId::new),
            is_early: early_data,
            origin: session.origin(),
            shown: session.shown(),
            certificates: has_any.then(|| certificates.map(<[u8]>::to_vec).collect()),
        })
    }

    /// The facts of a session over QUIC.
    pub fn of_quic(agreed: QuicParameters) -> AgreedSession {
        let QuicParameters { cipher, group, alpn, resumed, session_id, early_data, origin, shown, certificates } =
            agreed;
        AgreedSession {
            version: QuicParameters::VERSION,
            cipher,
            group,
            alpn,
            is_resumed: resumed,
            session_id: session_id.and_then(|id| SessionId::new(&id)),
            is_early: early_data,
            origin,
            shown,
            certificates: (!certificates.is_empty()).then(|| certificates.into()),
        }
    }

    /// The client's own certificate in DER, if it has shown any.
    pub fn own_certificate(&self) -> Option<&[u8]> {
        self.certificates.as_deref()?.first().map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_at_most_32_bytes() {
        for len in [0, 1, 32] {
            assert_eq!(SessionId::new(&vec![7; len]).expect("an id").as_bytes(), vec![7; len]);
        }
        assert_eq!(SessionId::new(&[7; 33]), None);
    }
}
