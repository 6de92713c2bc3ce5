//! rustls's client, which believes every certificate.

use super::NOW;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientConnection, ResolvesClientCert, Resumption};
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

/// The time of the tests.
#[derive(Debug)]
struct Now;

impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(NOW))
    }
}

pub(super) struct Client {
    pub(super) connection: ClientConnection,
    pub(super) plaintext: Vec<u8>,
    pub(super) error: Option<Error>,
    pub(super) closed: bool,
}

/// What a client can do.
#[derive(Clone)]
pub(super) struct Ability {
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
    /// All, or these in this order.
    pub(super) suites: Option<Vec<u16>>,
    pub(super) groups: Vec<&'static dyn SupportedKxGroup>,
    pub(super) schemes: Vec<SignatureScheme>,
    pub(super) alpn: Vec<Vec<u8>>,
    pub(super) fragment: Option<usize>,
    /// What it shows to servers that ask for a certificate.
    pub(super) certificate: Option<Arc<dyn ResolvesClientCert>>,
    pub(super) stapled: Stapled,
}

impl Default for Ability {
    fn default() -> Self {
        Self {
            versions: vec![&TLS13, &TLS12],
            suites: None,
            groups: vec![kx_group::X25519],
            schemes: vec![
                SignatureScheme::ECDSA_NISTP256_SHA256,
                SignatureScheme::ED25519,
                SignatureScheme::RSA_PSS_SHA256,
                SignatureScheme::RSA_PKCS1_SHA256,
            ],
            alpn: Vec::new(),
            fragment: None,
            certificate: None,
            stapled: Stapled::default(),
        }
    }
}

impl Ability {
    pub(super) fn config(&self) -> Arc<ClientConfig> {
        let mut provider = CryptoProvider { kx_groups: self.groups.clone(), ..default_provider() };
        if let Some(suites) = &self.suites {
            let known = |number: &u16| ALL_CIPHER_SUITES.iter().find(|suite| u16::from(suite.suite()) == *number);
            provider.cipher_suites = suites.iter().filter_map(known).copied().collect();
        }
        let mut config = ClientConfig::builder_with_details(Arc::new(provider), Arc::new(Now))
            .with_protocol_versions(&self.versions)
            .expect("versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Believer(self.schemes.clone(), self.stapled.clone())))
            .with_no_client_auth();
        config.alpn_protocols = self.alpn.clone();
        config.max_fragment_size = self.fragment;
        if let Some(certificate) = &self.certificate {
            config.client_auth_cert_resolver = certificate.clone();
        }
        config.resumption = Resumption::in_memory_sessions(8);
        Arc::new(config)
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.config())
    }
}

impl Client {
    pub(super) fn new(config: Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from("www.example.org").expect("a name");
        let connection = ClientConnection::new(config, name).expect("a client");
        Self { connection, plaintext: Vec::new(), error: None, closed: false }
    }

    pub(super) fn take_output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut output).expect("to write into memory");
        }
        output
    }

    pub(super) fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.error.is_none() {
            self.connection.read_tls(&mut bytes).expect("to read from memory");
            match self.connection.process_new_packets() {
                Ok(state) => {
                    let mut plaintext = vec![0; state.plaintext_bytes_to_read()];
                    self.connection.reader().read_exact(&mut plaintext).expect("to read from memory");
                    self.plaintext.extend_from_slice(&plaintext);
                    self.closed |= state.peer_has_closed();
                }
                Err(error) => self.error = Some(error),
            }
        }
    }

    /// What is sent for this plaintext.
    pub(super) fn send(&mut self, plaintext: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        for part in plaintext.chunks(16 << 10) {
            self.connection.writer().write_all(part).expect("to write into memory");
            output.extend(self.take_output());
        }
        output
    }

    /// The certificate that the server has shown.
    pub(super) fn shown(&self) -> &[u8] {
        self.connection.peer_certificates().and_then(|chain| chain.first()).map_or(&[], AsRef::as_ref)
    }
}

/// What comes of a look at a signature.
type Signed = Result<HandshakeSignatureValid, Error>;

/// Believes every certificate and signature: those of certificates of version 1, too, which the library cannot read.
#[derive(Debug)]
struct Believer(Vec<SignatureScheme>, Stapled);

/// The response that a server has stapled to its certificate.
pub(super) type Stapled = Arc<Mutex<Vec<u8>>>;

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        stapled: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.1.lock().expect("a lock") = stapled.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(&self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct) -> Signed {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(&self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct) -> Signed {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}
