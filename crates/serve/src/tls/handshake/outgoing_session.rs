//! TLS with a server that this one has connected to: the handshake, and the verification of what the server shows.

use std::fmt;
use std::time::Duration;

use freerun_runtime::log::clock;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_tls::session::{ClientConfig, PeerSessions, TlsSession};
use freerun_tls::verify::{CertificatePurpose, PeerCertificate, TrustStore, VerifyResult, VerifyRules, is_for_host};
use freerun_transport::Transport;

use super::{HandshakeError, HandshakeHelpers, greet};

/// TLS settings of one connection to a server.
#[derive(Clone)]
pub struct OutgoingTls {
    /// The settings of the session.
    pub config: ClientConfig,
    /// The name for the server (SNI, RFC 6066 section 3), if one is sent.
    pub server_name: Option<String>,
    /// The earlier sessions with this server; the handshake may resume one of them.
    pub sessions: Option<PeerSessions>,
    /// Rules for the server's certificate, if it is verified.
    pub verification: Option<Verification>,
}

/// Rules that a server's certificate is verified by.
#[derive(Clone)]
pub struct Verification {
    /// The trusted certificates and the revocation lists.
    pub trust: TrustStore,
    /// The most certificates between the server's own and a trusted one.
    pub depth: u32,
    /// OpenSSL's security level.
    pub level: u8,
    /// The name that the certificate has to be for.
    pub name: String,
    /// The rule that decides whether it is for that name.
    pub rule: NameRule,
}

/// Rule that decides whether a certificate is for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// OpenSSL's, as with nginx (`proxy_ssl_name`).
    OpenSsl,
    /// The rule of the Web (RFC 9525): common names do not count, and an address is compared with addresses.
    Web,
}

impl NameRule {
    /// Whether a certificate in DER is for this name.
    fn is_met(self, certificate: &[u8], name: &str) -> bool {
        match self {
            NameRule::OpenSsl => PeerCertificate::from_der(certificate).is_some_and(|own| own.matches_host(name)),
            NameRule::Web => is_for_host(certificate, name),
        }
    }
}

/// Reason why there is no session with a server.
#[derive(Debug)]
pub enum OutgoingError {
    /// The handshake has failed.
    Handshake(HandshakeError),
    /// The server's certificate is not trusted.
    Untrusted(VerifyResult),
    /// The certificate is for other names than this one.
    OtherName(String),
}

impl fmt::Display for OutgoingError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutgoingError::Handshake(error) => write!(to, "{error}"),
            OutgoingError::Untrusted(verified) => to.write_str(&verified.upstream_error().unwrap_or_default()),
            OutgoingError::OtherName(name) => write!(to, "upstream SSL certificate does not match \"{name}\""),
        }
    }
}

impl OutgoingTls {
    /// Has a session with the server at the other end of `transport`, which is established when this is done. All of it has
    /// to be done within `timeout`. A chain of certificates is verified by the `helpers`, because that takes long.
    ///
    /// # Errors
    /// [`OutgoingError`]; nothing must be sent on the transport then.
    pub async fn open(
        &self,
        transport: &Transport,
        timer: &mut Timer,
        timeout: Duration,
        helpers: HandshakeHelpers<'_>,
    ) -> Result<(), OutgoingError> {
        let began = loops::now();
        let failed = OutgoingError::Handshake;
        let now = clock::since_1970();
        let session = TlsSession::client(&self.config, now, self.server_name.as_deref(), self.sessions.clone());
        let session = session.map_err(|failure| failed(HandshakeError::Failed(failure)))?;
        let greeted = greet(transport, timer, timeout, helpers, session, self.config.signature_time()).await;
        greeted.map_err(|error| {
            helpers.figures.failed(&error);
            failed(error)
        })?;
        let Some(verification) = &self.verification else { return Ok(()) };
        let chain = |session: &TlsSession| session.peer_certificates().map(<[u8]>::to_vec).collect::<Vec<_>>();
        let chain = transport.tls().and_then(|tls| tls.with_session(chain)).unwrap_or_default();
        let left = timeout.saturating_sub(loops::now().saturating_duration_since(began));
        match timer.within(left, verification.run(chain, now, transport.gone_for_reader(), helpers)).await {
            None => Err(failed(HandshakeError::TimedOut)),
            Some(verified) => verified,
        }
    }
}

impl Verification {
    /// Verifies a server's certificate, the first of its `chain`, by the `helpers`, because that takes long. It is given up when
    /// `gone` is ready. `now` is the time since 1970.
    pub(super) async fn run(
        &self,
        chain: Vec<Vec<u8>>,
        now: Duration,
        gone: impl Future<Output = ()>,
        helpers: HandshakeHelpers<'_>,
    ) -> Result<(), OutgoingError> {
        let Verification { trust, depth, level, name, rule } = self.clone();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let verify = move || {
            let verified = trust.verify(
                chain.iter().map(Vec::as_slice),
                &VerifyRules { purpose: CertificatePurpose::Server, depth, level, now },
            );
            if verified != VerifyResult::Success {
                return Err(OutgoingError::Untrusted(verified));
            }
            if chain.first().is_some_and(|own| rule.is_met(own, &name)) {
                Ok(())
            } else {
                Err(OutgoingError::OtherName(name))
            }
        };
        let HandshakeHelpers { pool, lane, figures } = helpers;
        match pool.run_in_lane(lane, gone, verify).await {
            Ok(verified) => {
                match &verified {
                    Err(OutgoingError::Untrusted(verified)) => figures.untrusted(verified),
                    Err(OutgoingError::OtherName(_)) => figures.mismatched(),
                    Err(OutgoingError::Handshake(_)) | Ok(()) => {}
                }
                verified
            }
            Err(_) => Err(OutgoingError::Handshake(HandshakeError::Closed)),
        }
    }
}
