//! Failures of a session, in OpenSSL's words.

use freerun_proto::tls::alert::Alert;
use freerun_proto::tls::names;
use rustls::{Error, InvalidMessage, PeerIncompatible, ProtocolVersion};

/// Failure of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The alert that was put into the output, as far as it is known: an encrypted alert may be another.
    pub alert: Option<u8>,
    /// The library's message, for a log.
    pub said: String,
}

/// Kind of failure of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The peer does not speak TLS.
    NotTls,
    /// The peer speaks none of the versions.
    NoSharedVersion,
    /// The peer has tried a higher version before, which it and the server speak (RFC 7507).
    InappropriateFallback,
    /// The peer knows none of the cipher suites for which there is a certificate.
    NoSharedCipher,
    /// The peer knows none of the groups.
    NoSharedGroup,
    /// The peer can verify none of the certificates.
    NoSharedSignature,
    /// The peer names protocols above TLS, but none of the server's.
    NoApplicationProtocol,
    /// The peer has sent a fatal alert.
    PeerAlert(u8),
    /// A record's authentication code is wrong.
    BadRecord,
    /// A message or a record is larger than it may be.
    TooLarge,
    /// The peer breaks the protocol in another way.
    Protocol,
    /// The peer's certificate cannot be used.
    Certificate,
    /// The name that is to be sent to a server is empty, or too long.
    ServerName,
    /// The library itself fails, or is used in a wrong way.
    Internal,
}

impl SessionFailure {
    pub(super) fn of(error: &Error) -> Self {
        Self { kind: FailureKind::of(error), alert: None, said: error.to_string() }
    }

    /// The failure, if it has come with this version of the protocol.
    pub(super) fn in_version(self, version: Option<ProtocolVersion>) -> Self {
        Self { kind: self.kind.in_version(version), ..self }
    }

    pub(super) fn new(kind: FailureKind, said: &str) -> Self {
        Self { kind, alert: None, said: said.to_owned() }
    }

    /// The text of nginx's log in the brackets after `SSL_do_handshake() failed` and its kin, with OpenSSL 3.
    pub fn openssl(&self) -> String {
        match self.kind {
            FailureKind::NotTls => "SSL: error:0A00010B:SSL routines::wrong version number".to_owned(),
            FailureKind::NoSharedVersion => "SSL: error:0A000102:SSL routines::unsupported protocol".to_owned(),
            FailureKind::InappropriateFallback => "SSL: error:0A000175:SSL routines::inappropriate fallback".to_owned(),
            FailureKind::NoSharedCipher => "SSL: error:0A0000C1:SSL routines::no shared cipher".to_owned(),
            FailureKind::NoSharedGroup => "SSL: error:0A000065:SSL routines::no suitable key share".to_owned(),
            FailureKind::NoSharedSignature => {
                "SSL: error:0A000076:SSL routines::no suitable signature algorithm".to_owned()
            }
            FailureKind::NoApplicationProtocol => {
                "SSL: error:0A0000EB:SSL routines::no application protocol".to_owned()
            }
            FailureKind::PeerAlert(alert) => {
                let name = names::alert(alert).unwrap_or("unknown alert type");
                // OpenSSL has a reason of its own for each alert: a thousand more than its number.
                let code = 0x0A00_0000 + 1000 + u32::from(alert);
                format!("SSL: error:{code:08X}:SSL routines::{name}:SSL alert number {alert}")
            }
            FailureKind::BadRecord => {
                "SSL: error:0A000119:SSL routines::decryption failed or bad record mac".to_owned()
            }
            FailureKind::TooLarge => "SSL: error:0A000098:SSL routines::excessive message size".to_owned(),
            FailureKind::Protocol => format!("SSL: error:0A0000F4:SSL routines::unexpected message:{}", self.said),
            FailureKind::Certificate => {
                format!("SSL: error:0A000086:SSL routines::certificate verify failed:{}", self.said)
            }
            FailureKind::ServerName => "SSL: error:0A00013F:SSL routines::ssl3 ext invalid servername".to_owned(),
            FailureKind::Internal => format!("SSL: error:0A0C0103:SSL routines::internal error:{}", self.said),
        }
    }
}

impl std::fmt::Display for SessionFailure {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.openssl())
    }
}

impl std::error::Error for SessionFailure {}

impl FailureKind {
    /// The kind of failure in a version of the protocol. Before TLS 1.3 a suite says how keys are exchanged and which
    /// certificate is shown. So peers without a common group or signature have no common suite either, in OpenSSL's
    /// words.
    pub(super) fn in_version(self, version: Option<ProtocolVersion>) -> Self {
        match (self, version) {
            (Self::NoSharedGroup | Self::NoSharedSignature, Some(ProtocolVersion::TLSv1_2)) => Self::NoSharedCipher,
            (kind, _) => kind,
        }
    }

    /// The alert that belongs to it.
    pub(super) fn alert(self) -> Option<u8> {
        let alert = match self {
            Self::NoSharedVersion => Alert::ProtocolVersion,
            Self::InappropriateFallback => Alert::InappropriateFallback,
            Self::NoSharedCipher | Self::NoSharedGroup | Self::NoSharedSignature => Alert::HandshakeFailure,
            Self::NoApplicationProtocol => Alert::NoApplicationProtocol,
            Self::BadRecord => Alert::BadRecordMac,
            _ => return None,
        };
        Some(alert.code())
    }

    fn of(error: &Error) -> Self {
        match error {
            Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => {
                Self::NotTls
            }
            Error::InvalidMessage(InvalidMessage::MessageTooLarge | InvalidMessage::HandshakePayloadTooLarge)
            | Error::PeerSentOversizedRecord => Self::TooLarge,
            Error::PeerIncompatible(incompatible) => match incompatible {
                PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => Self::NoSharedVersion,
                PeerIncompatible::NoCipherSuitesInCommon => Self::NoSharedCipher,
                PeerIncompatible::NoKxGroupsInCommon
                | PeerIncompatible::NamedGroupsExtensionRequired
                | PeerIncompatible::KeyShareExtensionRequired => Self::NoSharedGroup,
                PeerIncompatible::NoSignatureSchemesInCommon
                | PeerIncompatible::SignatureAlgorithmsExtensionRequired => Self::NoSharedSignature,
                _ => Self::Protocol,
            },
            Error::NoApplicationProtocol => Self::NoApplicationProtocol,
            Error::AlertReceived(alert) => Self::PeerAlert(u8::from(*alert)),
            Error::DecryptError => Self::BadRecord,
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => Self::Certificate,
            Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. }
            | Error::InvalidMessage(_)
            | Error::PeerMisbehaved(_) => Self::Protocol,
            _ => Self::Internal,
        }
    }
}
