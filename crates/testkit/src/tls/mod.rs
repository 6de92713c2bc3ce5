//! TLS of the harness: of a [`TestClient`](crate::TestClient), and of an [`TestUpstream`](crate::TestUpstream).
//!
//! Nobody is verified: a test asks what was sent.

mod client;
mod connection;
mod server;
mod verifier;

pub(crate) use client::Session;
pub use client::{AgreedParameters, Tls, TlsFailure, TlsVersion};
pub(crate) use connection::TlsConnection;
pub use connection::Visitor;
pub use server::TlsServer;

use crate::certificates::certificates;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, ProtocolVersion};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}

/// The provider with these suites alone, by nginx's names of them; all suites if there are no names.
fn provider_with(suites: &[String]) -> Arc<CryptoProvider> {
    let mut provider = provider();
    if !suites.is_empty() {
        provider.cipher_suites.retain(|suite| suites.iter().any(|name| *name == suite_name(suite.suite())));
        assert_eq!(provider.cipher_suites.len(), suites.len(), "not all of {suites:?} exist");
    }
    Arc::new(provider)
}

/// The file of this ending of a name of [`certificates`], or at an absolute path without its ending.
fn file(name: &str, ending: &str) -> PathBuf {
    if Path::new(name).is_absolute() {
        format!("{name}.{ending}").into()
    } else {
        certificates().path(&format!("{name}.{ending}"))
    }
}

/// The certificates in `NAME.crt`.
fn chain_of(name: &str) -> Vec<CertificateDer<'static>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file(name, "crt")).and_then(|chain| chain.collect());
    chain.unwrap_or_else(|error| panic!("{name}.crt: {error}"))
}

/// The key in `NAME.key`.
fn key_of(name: &str) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_file(file(name, "key")).unwrap_or_else(|error| panic!("{name}.key: {error}"))
}

/// OpenSSL's name of a version.
fn version_name(version: Option<ProtocolVersion>) -> &'static str {
    match version {
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        _ => "",
    }
}

/// OpenSSL's name of a suite.
fn suite_name(suite: CipherSuite) -> String {
    let name = format!("{suite:?}");
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => {
            let name = name.strip_prefix("TLS_").unwrap_or(&name).replace("_WITH_", "-").replace('_', "-");
            let name = name.replace("AES-256", "AES256").replace("AES-128", "AES128");
            // OpenSSL leaves out what this mode always has.
            name.replace("CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectionEnd, TestClient, TestUpstream, ok};

    #[test]
    fn both_sides_tell_what_was_agreed_on() {
        for version in TlsVersion::ALL {
            let upstream = TestUpstream::tls(TlsServer::with("rsa", &[version], true));
            let address = upstream.address().parse().expect("an address");
            let accepting = std::thread::spawn(move || {
                let mut peer = upstream.accept();
                let visitor = peer.visitor();
                peer.request();
                peer.send(ok("hello"));
                peer.notify();
                visitor
            });
            let mut client = TestClient::connect(address).tls(&Tls::new().name("a.example.com").certificate("client"));
            assert_eq!(client.get("/").text(), "hello");
            assert_eq!((client.ending(), client.is_notified(), client.alert()), (ConnectionEnd::Closed, true, None));
            let agreed = client.agreed();
            assert_eq!(
                (agreed.version, &agreed.certificates[..]),
                (version.to_string(), &[certificates().der("rsa.crt")][..])
            );
            let visitor = accepting.join().expect("a visitor");
            assert_eq!(visitor.name.as_deref(), Some("a.example.com"));
            assert_eq!(
                (visitor.version, visitor.certificates),
                (version.to_string(), vec![certificates().der("client.crt")])
            );
        }
    }

    #[test]
    fn sessions_are_kept_and_offered_whatever_the_name() {
        for version in TlsVersion::ALL {
            let upstream = TestUpstream::tls(TlsServer::new("ec")).answer(|_| ok("hello"));
            let address = upstream.address().parse().expect("an address");
            let tls = Tls::new().only(version).resuming();
            let connect = |tls: &Tls| {
                let mut client = TestClient::connect(address).tls(tls);
                assert_eq!(client.get("/").text(), "hello");
                client.agreed()
            };
            assert!(!connect(&tls).resumed);
            let agreed = connect(&tls.clone());
            assert!(agreed.resumed);
            let certificates = vec![certificates().der("ec.crt")];
            assert_eq!((agreed.version, agreed.certificates), (version.to_string(), certificates));
            // The session is offered, but this server binds sessions to names.
            assert!(!connect(&tls.clone().name("b.example.com")).resumed);
            assert!(!connect(&Tls::new()).resumed);
        }
    }

    #[test]
    fn alerts_and_ends_are_told_apart() {
        let upstream = TestUpstream::tls(TlsServer::with("ec", &[TlsVersion::V13], false)).answer(|_| ok("hello"));
        let connect = || TestClient::connect(upstream.address().parse().expect("an address"));
        let failure = connect().try_tls(&Tls::new().only(TlsVersion::V12)).expect_err("no common version");
        assert_eq!((failure.alert, failure.error), (Some(70), None));
        let mut client = connect().tls(&Tls::new());
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.response();
        client.try_send_bare([23, 3, 3, 0, 4, 1, 2, 3, 4]).expect("sending");
        assert_eq!((client.ending() == ConnectionEnd::Silent, client.alert()), (false, Some(20)));
    }

    #[test]
    fn names_are_those_of_openssl() {
        assert_eq!(suite_name(CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384), "ECDHE-RSA-AES256-GCM-SHA384");
        assert_eq!(
            suite_name(CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
            "ECDHE-ECDSA-CHACHA20-POLY1305"
        );
        assert_eq!(suite_name(CipherSuite::TLS13_AES_128_GCM_SHA256), "TLS_AES_128_GCM_SHA256");
    }
}
