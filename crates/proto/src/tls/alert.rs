//! Alerts (RFC 8446 section 6), and what can be wrong with a ClientHello.

/// A fatal alert (RFC 8446 section 6.2), of those that a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Alert {
    /// Something came that does not belong there.
    UnexpectedMessage = 10,
    /// A record was changed on its way.
    BadRecordMac = 20,
    /// A record is longer than 2^14 bytes.
    RecordOverflow = 22,
    /// Client and server have nothing in common.
    HandshakeFailure = 40,
    /// A field has a value that it must not have.
    IllegalParameter = 47,
    /// A length does not fit.
    DecodeError = 50,
    /// The version is not spoken here.
    ProtocolVersion = 70,
    /// Something went wrong that is not the client's fault.
    InternalError = 80,
    /// The client has fallen back to a lower version than both sides speak (RFC 7507 section 3).
    InappropriateFallback = 86,
    /// An extension is missing.
    MissingExtension = 109,
    /// There is no server of that name (also `ssl_reject_handshake`).
    UnrecognizedName = 112,
    /// No protocol of those that the client offers by ALPN is spoken here (RFC 7301 section 3.2).
    NoApplicationProtocol = 120,
}

/// The length of the record that [`Alert::record`] makes.
pub const ALERT_RECORD: usize = 7;

impl Alert {
    /// The number that is sent.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The alert as an unencrypted record, which is how it is sent while nothing has been agreed on. Its version is TLS
    /// 1.2, as RFC 8446 section 5.1 wants it.
    pub const fn record(self) -> [u8; ALERT_RECORD] {
        alert_record(self.code())
    }
}

/// The fatal alert with this number, see [`Alert::record`].
pub const fn alert_record(code: u8) -> [u8; ALERT_RECORD] {
    [21, 3, 3, 0, 2, 2, code]
}

/// Reason for which the bytes of a connection are no ClientHello to go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The connection begins with something else than a record of TLS.
    #[error("the connection does not begin with a TLS record")]
    NotTls,
    /// The connection begins with a hello of SSLv2, which also clients of later versions once sent (RFC 5246 appendix
    /// E.2; RFC 8446 appendix D.5 forbids it).
    #[error("SSLv2 hello")]
    Sslv2,
    /// A record of another type than `handshake` comes before the ClientHello is whole.
    #[error("unexpected record of type {0}")]
    UnexpectedRecord(u8),
    /// A later record has a version that does not exist.
    #[error("unknown record version 0x{0:04x}")]
    RecordVersion(u16),
    /// A record is longer than [`super::records::MAX_RECORD`].
    #[error("record of {0} bytes is too long")]
    RecordTooLong(u16),
    /// More than [`super::records::MAX_EMPTY_RECORDS`] records in a row have nothing in them.
    #[error("too many empty records")]
    EmptyRecords,
    /// The first message is not a ClientHello.
    #[error("unexpected handshake message of type {0}")]
    UnexpectedMessage(u8),
    /// The message is longer than [`super::records::MAX_CLIENT_HELLO`], or its records are longer than
    /// [`super::records::MAX_INPUT`].
    #[error("ClientHello is too long")]
    TooLong,
    /// A length in the message does not fit; the text says where.
    #[error("malformed {0} in ClientHello")]
    Malformed(&'static str),
    /// `legacy_version` is no version of SSL 3 or TLS.
    #[error("unsupported version 0x{0:04x} in ClientHello")]
    Version(u16),
    /// `supported_versions` is not a list of versions.
    #[error("malformed supported_versions in ClientHello")]
    Versions,
    /// There are no cipher suites.
    #[error("no cipher suites in ClientHello")]
    NoCiphers,
    /// An extension comes twice.
    #[error("duplicate extension {0} in ClientHello")]
    DuplicateExtension(u16),
    /// An extension comes after `pre_shared_key`, which has to be the last.
    #[error("extension behind pre_shared_key in ClientHello")]
    AfterPreSharedKey,
    /// The server's name is longer than a name can be, or has a NUL in it.
    #[error("invalid server name in ClientHello")]
    ServerName,
}

impl HelloError {
    /// The alert that the client is told; `None` if it does not speak TLS, or not so that it would understand one.
    pub const fn alert(self) -> Option<Alert> {
        Some(match self {
            HelloError::NotTls => return None,
            HelloError::Sslv2 | HelloError::RecordVersion(_) | HelloError::Version(_) | HelloError::Versions => {
                Alert::ProtocolVersion
            }
            HelloError::UnexpectedRecord(_) | HelloError::EmptyRecords | HelloError::UnexpectedMessage(_) => {
                Alert::UnexpectedMessage
            }
            HelloError::RecordTooLong(_) => Alert::RecordOverflow,
            HelloError::Malformed(_) => Alert::DecodeError,
            HelloError::TooLong
            | HelloError::NoCiphers
            | HelloError::DuplicateExtension(_)
            | HelloError::AfterPreSharedKey => Alert::IllegalParameter,
            HelloError::ServerName => Alert::UnrecognizedName,
        })
    }
}
