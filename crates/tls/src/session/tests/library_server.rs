//! rustls's server, for what this one does not do.

use rustls::SupportedProtocolVersion;
use rustls::crypto::aws_lc_rs::{default_provider, sign::any_supported_type};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::server::{ProducesTickets, ServerConfig, ServerConnection};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::io::{Read, Write};
use std::sync::Arc;

pub(super) struct LibraryServer(pub(super) ServerConnection);

/// A certificate with a key that need not belong to it.
pub(super) fn pair(certificate: &str, key: &str) -> CertifiedKey {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
    CertifiedKey::new(vec![certificate], any_supported_type(&key).expect("a key"))
}

/// A configuration with such a pair.
pub(super) fn config(certificate: &str, key: &str, versions: &[&'static SupportedProtocolVersion]) -> ServerConfig {
    ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(pair(certificate, key))))
}

/// Tickets of many bytes, which nobody can resume.
#[derive(Debug)]
struct LongTickets(usize);

impl ProducesTickets for LongTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        3600
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        Some(vec![b't'; self.0])
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

impl LibraryServer {
    pub(super) fn new(config: ServerConfig) -> Self {
        Self(ServerConnection::new(Arc::new(config)).expect("a server"))
    }

    /// A server whose tickets have so many bytes and come in many records.
    pub(super) fn with_long_tickets(mut config: ServerConfig, length: usize) -> Self {
        config.ticketer = Arc::new(LongTickets(length));
        config.max_fragment_size = Some(200);
        Self::new(config)
    }

    /// Takes what a client has sent, and gives what is sent back.
    pub(super) fn exchange(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        while !bytes.is_empty() {
            self.0.read_tls(&mut bytes).expect("to read from memory");
            if self.0.process_new_packets().is_err() {
                break;
            }
        }
        self.output()
    }

    pub(super) fn send(&mut self, plaintext: &[u8]) -> Vec<u8> {
        self.0.writer().write_all(plaintext).expect("to write into memory");
        self.output()
    }

    /// What the client has sent.
    pub(super) fn plaintext(&mut self) -> Vec<u8> {
        let state = self.0.process_new_packets().expect("no error");
        let mut plaintext = vec![0; state.plaintext_bytes_to_read()];
        self.0.reader().read_exact(&mut plaintext).expect("to read from memory");
        plaintext
    }

    fn output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut output).expect("to write into memory");
        }
        output
    }
}
