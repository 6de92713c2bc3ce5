//! Figures of TLS handshakes, counted by all loops together.

use freerun_runtime::stats::{Counter, Histogram};
use freerun_tls::load::KeyKind;
use freerun_tls::session::{FailureKind, SessionOrigin, TlsSession, TlsVersion};
use freerun_tls::verify::{NotGood, VerifyResult};

use super::{HandshakeError, Refusal};
use crate::tls::agreed_session::AgreedSession;

/// The names of all cipher suites, as `$ssl_cipher` has them.
pub const CIPHERS: [&str; 9] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-CHACHA20-POLY1305",
];

/// The kinds of keys that servers sign with.
pub const KEYS: [&str; 3] = ["rsa", "ecdsa", "ed25519"];

/// The name of a kind of key: one of [`KEYS`], or `other`.
pub fn kind_of_key(kind: KeyKind) -> &'static str {
    match kind {
        KeyKind::Rsa(_) => KEYS[0],
        KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => KEYS[1],
        KeyKind::Ed25519 => KEYS[2],
        KeyKind::Other => "other",
    }
}

/// Sources of resumed sessions: this server has kept them, or the client has a ticket.
pub const RESUMED: [&str; 2] = ["cache", "ticket"];

/// Reasons why handshakes fail, as figures name them.
pub const FAILURES: [&str; 13] = [
    "closed",
    "timed_out",
    "not_tls",
    "bad_hello",
    "rejected",
    "no_certificate",
    "no_common_protocol",
    "no_common_cipher",
    "no_common_group",
    "no_common_signature",
    "no_application_protocol",
    "peer_alert",
    "other",
];

/// Reasons why certificates of peers are not trusted, as figures name them.
///
/// There is none, though the server requires one; it is not valid yet or no longer; it has been revoked; it is for
/// other names; anything else.
pub const UNTRUSTED: [&str; 5] = ["no_cert", "expired_cert", "revoked_cert", "hostname_mismatch", "other"];

/// OpenSSL's numbers for a certificate that is not valid yet, and no longer.
const NOT_NOW: [i32; 2] = [9, 10];

/// OpenSSL's number for a certificate that has been revoked.
const REVOKED: i32 = 23;

/// Figures about the handshakes of one side: with clients, or with upstream servers.
#[derive(Debug, Default)]
pub struct TlsFigures {
    /// Handshakes that were completed, by version: TLS 1.2, TLS 1.3.
    pub by_version: [Counter; 2],
    /// The same by cipher suite, in the order of [`CIPHERS`].
    pub by_cipher: [Counter; CIPHERS.len()],
    /// Full handshakes by the kind of the key that was signed with, in the order of [`KEYS`]. A client does not count them.
    pub by_key: [Counter; KEYS.len()],
    /// Number of handshakes that resumed an earlier session.
    pub resumed: Counter,
    /// The same by where the session came from, in the order of [`RESUMED`]. A client does not count them.
    pub resumed_by: [Counter; RESUMED.len()],
    /// Handshakes that failed, in the order of [`FAILURES`].
    pub failed: [Counter; FAILURES.len()],
    /// Duration of the steps that a loop did itself. The figures of the pool have the steps of the pool.
    pub steps: Histogram,
    /// Number of steps that the pool did.
    pub pooled: Counter,
    /// Certificates of peers that were not trusted, in the order of [`UNTRUSTED`].
    pub untrusted: [Counter; UNTRUSTED.len()],
}

impl TlsFigures {
    /// Counts a handshake that was completed.
    pub fn completed(&self, session: &TlsSession) {
        if let Some(agreed) = session.agreed() {
            self.count(agreed.version, agreed.cipher, agreed.resumed, session.origin());
        }
    }

    /// Counts the handshake of a client that was completed.
    pub fn established(&self, agreed: &AgreedSession) {
        self.count(agreed.version, agreed.cipher, agreed.is_resumed, agreed.origin);
    }

    fn count(&self, version: TlsVersion, cipher: &str, is_resumed: bool, origin: Option<SessionOrigin>) {
        match origin {
            Some(SessionOrigin::Signed(kind)) => {
                let name = kind_of_key(kind);
                KEYS.iter().zip(&self.by_key).filter(|(key, _)| **key == name).for_each(|(_, counter)| counter.add());
            }
            Some(SessionOrigin::Store) => self.resumed_by[0].add(),
            Some(SessionOrigin::Ticket) => self.resumed_by[1].add(),
            None => {}
        }
        self.by_version[usize::from(version == TlsVersion::Tls13)].add();
        if let Some(index) = CIPHERS.iter().position(|name| *name == cipher) {
            self.by_cipher[index].add();
        }
        if is_resumed {
            self.resumed.add();
        }
    }

    /// Counts a peer whose certificate is not trusted.
    pub fn untrusted(&self, verified: &VerifyResult) {
        let name = match verified {
            VerifyResult::None => "no_cert",
            VerifyResult::Failed(error) if NOT_NOW.contains(&error.code) => "expired_cert",
            VerifyResult::Failed(error) if error.code == REVOKED => "revoked_cert",
            VerifyResult::NotGood(NotGood::Revoked) => "revoked_cert",
            VerifyResult::Success | VerifyResult::Failed(_) | VerifyResult::NotGood(_) => "other",
        };
        self.untrusted_for(name);
    }

    /// Counts a server whose certificate is for other names than the requested name.
    pub fn mismatched(&self) {
        self.untrusted_for("hostname_mismatch");
    }

    fn untrusted_for(&self, name: &str) {
        UNTRUSTED.iter().zip(&self.untrusted).filter(|(known, _)| **known == name).for_each(|(_, count)| count.add());
    }

    /// Counts a handshake that failed.
    pub fn failed(&self, error: &HandshakeError) {
        let name = match error {
            HandshakeError::Left | HandshakeError::Closed | HandshakeError::Broken(_) | HandshakeError::Quic(_) => {
                "closed"
            }
            HandshakeError::TimedOut => "timed_out",
            HandshakeError::Hello(_) => "bad_hello",
            HandshakeError::Refused(Refusal::Rejected) => "rejected",
            HandshakeError::Refused(Refusal::NoCertificate | Refusal::BadCertificate) => "no_certificate",
            HandshakeError::Failed(failure) => match failure.kind {
                FailureKind::NotTls => "not_tls",
                FailureKind::NoSharedVersion | FailureKind::InappropriateFallback => "no_common_protocol",
                FailureKind::NoSharedCipher => "no_common_cipher",
                FailureKind::NoSharedGroup => "no_common_group",
                FailureKind::NoSharedSignature => "no_common_signature",
                FailureKind::NoApplicationProtocol => "no_application_protocol",
                FailureKind::PeerAlert(_) => "peer_alert",
                _ => "other",
            },
        };
        if let Some(index) = FAILURES.iter().position(|one| *one == name) {
            self.failed[index].add();
        }
    }
}

#[cfg(test)]
mod tests {
    use freerun_tls::verify::VerifyError;

    use super::*;

    #[test]
    fn each_failure_is_counted_under_its_name() {
        let figures = TlsFigures::default();
        figures.failed(&HandshakeError::TimedOut);
        figures.failed(&HandshakeError::Closed);
        figures.failed(&HandshakeError::Broken(std::io::ErrorKind::ConnectionReset.into()));
        figures.failed(&HandshakeError::Refused(Refusal::Rejected));
        let counted: Vec<_> =
            FAILURES.iter().zip(&figures.failed).filter(|(_, count)| count.get() > 0).map(|(name, _)| *name).collect();
        assert_eq!(counted, ["closed", "timed_out", "rejected"]);
        assert_eq!(figures.failed[0].get(), 2);
    }

    #[test]
    fn peers_that_are_not_trusted_are_counted_by_reason() {
        let figures = TlsFigures::default();
        let failed = |code| VerifyResult::Failed(VerifyError { code, depth: 0 });
        for verified in [failed(9), failed(10), failed(23), failed(18), VerifyResult::None] {
            figures.untrusted(&verified);
        }
        figures.untrusted(&VerifyResult::NotGood(NotGood::Revoked));
        figures.untrusted(&VerifyResult::NotGood(NotGood::Failed));
        figures.mismatched();
        assert_eq!(figures.untrusted.each_ref().map(Counter::get), [1, 2, 2, 1, 2]);
    }
}
