//! The facts about the TLS of a client's connection, whatever carries it.

use std::cell::{Ref, RefCell};
use std::sync::Arc;

use freerun_proto::host;
use freerun_tls::verify::{Refusal, VerifyResult};
use freerun_transport::Transport;

use super::agreed_session::AgreedSession;
use super::handshake::Offer;
use super::handshake::figures::TlsFigures;
use super::ocsp::Visit;
use super::server::ServerTls;

/// The facts about the TLS of a client's connection: what it has asked for, what was agreed on, and the result of the
/// verification of its certificate. The driver of the connection's transport brings them; nobody else needs the session.
#[derive(Debug)]
pub struct TlsFacts {
    /// The name that the client has asked for (SNI, RFC 6066 section 3), as it was sent: `$ssl_server_name`.
    pub asked_for: Option<Box<[u8]>>,
    /// The ClientHello, if the configuration uses one of [`HELLO_VARIABLES`].
    pub hello: Option<Box<[u8]>>,
    /// The facts of the session, once there is one.
    agreed: RefCell<Option<AgreedSession>>,
    verdict: RefCell<ClientVerdict>,
}

/// The client whose certificate is verified: whatever carries its session, it may go meanwhile, and the session has to know
/// the result.
pub trait CertificateHolder {
    /// Resolves when the client has gone. The task of the connection waits, or the task of a request.
    fn gone(&self) -> impl Future<Output = ()>;

    /// Tells the session whether the certificate was found good: a client that is refused cannot resume it.
    fn settle(&self, is_good: bool);
}

impl CertificateHolder for Transport {
    fn gone(&self) -> impl Future<Output = ()> {
        self.gone_for_reader()
    }

    fn settle(&self, is_good: bool) {
        if let Some(session) = self.tls() {
            session.settle(is_good);
        }
    }
}

/// Result of the verification of a client's certificate.
#[derive(Debug)]
struct ClientVerdict {
    verified: VerifyResult,
    /// The server by whose rules it was verified. Another configuration has another one, whatever its rules are.
    by: Option<Arc<ServerTls>>,
}

/// The variables whose values are made of the ClientHello.
pub const HELLO_VARIABLES: [&str; 5] = ["ssl_ciphers", "ssl_curves", "ssl_ja3_hash", "ssl_ja4", "ssl_sigalgs"];

impl TlsFacts {
    /// Facts that a ClientHello gives.
    pub fn new(asked_for: Option<Box<[u8]>>, hello: Option<Box<[u8]>>) -> TlsFacts {
        let verdict = RefCell::new(ClientVerdict { verified: VerifyResult::None, by: None });
        TlsFacts { asked_for, hello, agreed: RefCell::new(None), verdict }
    }

    /// Facts about the client that makes this offer; `keeps_hello`: with its ClientHello.
    pub fn of(offer: Offer<'_>, keeps_hello: bool) -> TlsFacts {
        let asked_for = offer.hello.server_name(offer.message).map(Box::from);
        TlsFacts::new(asked_for, keeps_hello.then(|| offer.message.into()))
    }

    /// Notes the session that was established. A session that has begun with early data is noted again, as long as it
    /// [is early](TlsFacts::is_early).
    pub fn establish(&self, agreed: AgreedSession) {
        let before = self.agreed.replace(Some(agreed));
        debug_assert!(before.is_none_or(|before| before.is_early), "a connection has one session");
    }

    /// The facts that were agreed on, if a session was established.
    pub fn agreed(&self) -> Option<Ref<'_, AgreedSession>> {
        Ref::filter_map(self.agreed.borrow(), Option::as_ref).ok()
    }

    /// Whether the session was established, and its handshake was not complete then.
    #[inline]
    pub fn is_early(&self) -> bool {
        self.agreed.borrow().as_ref().is_some_and(|agreed| agreed.is_early)
    }

    /// Result of the verification of the client's certificate (`ssl_verify_client`); the initial result says that none
    /// was sent.
    pub fn verified(&self) -> Ref<'_, VerifyResult> {
        Ref::map(self.verdict.borrow(), |verdict| &verdict.verified)
    }

    /// Verifies the certificates that the client has shown in its handshake by the rules of this server, if that asks
    /// for any, and notes the result.
    ///
    /// A client that is refused cannot resume its session; it is counted in the figures of all clients, and in the
    /// figures of the server's `zone`. `None` if the client has gone meanwhile, or is not verified because the server
    /// is shut down.
    pub async fn verify(
        &self,
        by: &Arc<ServerTls>,
        holder: &impl CertificateHolder,
        visit: &Visit<'_>,
        zone: Option<&TlsFigures>,
    ) -> Option<Result<(), Refusal>> {
        let Some(verification) = &by.verification else { return Some(Ok(())) };
        let certificates = self.agreed()?.certificates.clone();
        let verified = verification.verify(certificates, || holder.gone(), visit).await?;
        let refusal = verified.refusal(verification.asked);
        if refusal.is_some() {
            [Some(visit.helpers.figures), zone].into_iter().flatten().for_each(|figures| figures.untrusted(&verified));
        }
        holder.settle(refusal.is_none());
        self.verdict.replace(ClientVerdict { verified, by: Some(by.clone()) });
        Some(refusal.map_or(Ok(()), Err))
    }

    /// Whether the certificate was verified by the rules of this server, not by the rules of an earlier configuration.
    pub fn was_verified_by(&self, server: &Arc<ServerTls>) -> bool {
        self.verdict.borrow().by.as_ref().is_some_and(|by| Arc::ptr_eq(by, server))
    }

    /// The name that the client has asked for in the form that virtual servers are looked up by, see [`name_to_look_up`].
    /// `None` if there is none, or it could be none of a server.
    pub fn server_name(&self) -> Option<String> {
        name_to_look_up(self.asked_for.as_deref()?)
    }

    /// Checks the name that the client has requested (SNI) before it becomes part of a certificate's path. The client
    /// chooses the name: with a slash at its beginning, for example, it would lead anywhere.
    ///
    /// # Errors
    /// The line for the error log.
    pub fn check_name(&self) -> Result<(), String> {
        match self.asked_for.as_deref() {
            Some(name) if host::parse(name).is_none() => {
                Err(format!("\"{}\" is no name of a server to find a certificate by", name.escape_ascii()))
            }
            _ => Ok(()),
        }
    }
}

/// Converts a name that a client requests in its handshake to the form that virtual servers are looked up by.
///
/// That is a host as in the field Host, in lower case, without a port and without a dot at its end. `None` if it could
/// not stand in that field.
pub fn name_to_look_up(name: &[u8]) -> Option<String> {
    let parts = host::parse(name)?;
    let host = std::str::from_utf8(name.get(..parts.name_len as usize)?).ok()?;
    Some(host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_looked_up_by_what_could_stand_in_the_field_host() {
        for (name, wanted) in [
            ("A.test.", Some("a.test")),
            ("x-.cdn.example.com", Some("x-.cdn.example.com")),
            ("-a.test", Some("-a.test")),
            ("123", Some("123")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("a.test:443", Some("a.test")),
            ("[::1]:443", Some("[::1]")),
            ("", None),
            ("a..test", None),
            ("a b", None),
            ("../a", None),
            ("..", None),
            ("é.test", None),
        ] {
            assert_eq!(name_to_look_up(name.as_bytes()).as_deref(), wanted, "{name}");
            let facts = TlsFacts::new(Some(name.as_bytes().into()), None);
            assert_eq!(facts.check_name().is_ok(), wanted.is_some(), "{name}");
        }
        assert_eq!(name_to_look_up(b"\xff\xfe"), None);
    }
}
