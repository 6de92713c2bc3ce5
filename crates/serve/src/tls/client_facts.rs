//! What is known of the TLS of a client's connection besides its session.

use std::cell::{Ref, RefCell};
use std::sync::Arc;

use freerun_proto::host;
use freerun_tls::verify::{Refusal, VerifyResult};
use freerun_transport::Transport;

use super::figures::TlsFigures;
use super::handshake::Offer;
use super::ocsp::Visit;
use super::server::ServerTls;

/// What is known of the TLS of a client's connection besides its session, which the
/// [transport](freerun_transport::Transport) has.
#[derive(Debug)]
pub struct TlsFacts {
    /// The name that the client has asked for (SNI, RFC 6066 section 3), as it was sent: `$ssl_server_name`.
    pub asked_for: Option<Box<[u8]>>,
    /// The ClientHello, if the configuration uses one of [`HELLO_VARIABLES`].
    pub hello: Option<Box<[u8]>>,
    verdict: RefCell<ClientVerdict>,
}

/// What came of the verification of a client's certificate.
#[derive(Debug)]
struct ClientVerdict {
    verified: VerifyResult,
    /// The server by whose rules it was verified. Another configuration has another one, whatever its rules are.
    by: Option<Arc<ServerTls>>,
}

/// The variables whose values are made of the ClientHello.
pub const HELLO_VARIABLES: [&str; 5] = ["ssl_ciphers", "ssl_curves", "ssl_ja3_hash", "ssl_ja4", "ssl_sigalgs"];

impl TlsFacts {
    /// What a ClientHello says.
    pub fn new(asked_for: Option<Box<[u8]>>, hello: Option<Box<[u8]>>) -> TlsFacts {
        TlsFacts { asked_for, hello, verdict: RefCell::new(ClientVerdict { verified: VerifyResult::None, by: None }) }
    }

    /// What is known of a client that makes this offer; `keeps_hello`: with its ClientHello.
    pub fn of(offer: Offer<'_>, keeps_hello: bool) -> TlsFacts {
        let asked_for = offer.hello.server_name(offer.message).map(Box::from);
        TlsFacts::new(asked_for, keeps_hello.then(|| offer.message.into()))
    }

    /// What came of the verification of the client's certificate (`ssl_verify_client`): none was sent, unless one was.
    pub fn verified(&self) -> Ref<'_, VerifyResult> {
        Ref::map(self.verdict.borrow(), |verdict| &verdict.verified)
    }

    /// Verifies the certificates that the client has shown in its handshake by the rules of this server, if that asks for any,
    /// and notes what came of it. A client that is refused cannot resume its session; it is counted in the figures of all clients,
    /// and in those of the server's `zone`. `None` if the client has gone meanwhile,
    /// or is not verified because the server is shut down.
    pub async fn verify(
        &self,
        by: &Arc<ServerTls>,
        transport: &Transport,
        visit: &Visit<'_>,
        zone: Option<&TlsFigures>,
    ) -> Option<Result<(), Refusal>> {
        let Some(verification) = &by.verification else { return Some(Ok(())) };
        let verified = verification.verify(transport, visit).await?;
        let refusal = verified.refusal(verification.asked);
        if refusal.is_some() {
            [Some(visit.helpers.figures), zone].into_iter().flatten().for_each(|figures| figures.untrusted(&verified));
        }
        if let Some(session) = transport.tls() {
            session.settle(refusal.is_none());
        }
        self.verdict.replace(ClientVerdict { verified, by: Some(by.clone()) });
        Some(refusal.map_or(Ok(()), Err))
    }

    /// Whether the certificate was verified by the rules of this server, not by those of an earlier configuration.
    pub fn was_verified_by(&self, server: &Arc<ServerTls>) -> bool {
        self.verdict.borrow().by.as_ref().is_some_and(|by| Arc::ptr_eq(by, server))
    }

    /// The name that the client has asked for in the form that virtual servers are looked up by, see [`name_to_look_up`].
    /// `None` if there is none, or it could be none of a server.
    pub fn server_name(&self) -> Option<String> {
        name_to_look_up(self.asked_for.as_deref()?)
    }

    /// Checks the name that the client has asked for before a certificate is looked for by it: a name is what the client says,
    /// and with a slash at its beginning, for one, it would lead anywhere.
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

/// A name that a client asks for in its handshake, in the form that virtual servers are looked up by: that of the field Host, in
/// lower case and without a port and a dot at its end. `None` if it could not stand in that field.
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
