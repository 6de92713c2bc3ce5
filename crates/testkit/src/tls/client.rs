//! The client's side: what a client wants, the session that it has, and what was agreed on.

use super::verifier::TrustingVerifier;
use super::{chain_of, key_of, provider_with, suite_name, version_name};
use crate::ConnectionEnd;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, ResolvesClientCert, Resumption, Tls12ClientSessionValue,
    Tls12Resumption, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, Error, HandshakeKind, KeyLog, NamedGroup, SignatureScheme};
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    V12,
    /// TLS 1.3 (RFC 8446).
    V13,
}

impl TlsVersion {
    /// Both versions.
    pub const ALL: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];
}

impl fmt::Display for TlsVersion {
    /// As `$ssl_protocol` has it.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            TlsVersion::V12 => "TLSv1.2",
            TlsVersion::V13 => "TLSv1.3",
        })
    }
}

/// Options of a TLS client. By default it offers both versions, names `localhost`, offers no protocols of ALPN, shows
/// no certificate and resumes nothing. Clones share the sessions that are kept for resumption.
#[derive(Clone)]
pub struct Tls {
    versions: Vec<TlsVersion>,
    name: Option<String>,
    alpn: Vec<String>,
    suites: Vec<String>,
    shown: Arc<ClientCertificate>,
    sessions: Option<Arc<dyn ClientSessionStore>>,
    by: Tls12Resumption,
    early: Option<Vec<u8>>,
    fragment: Option<usize>,
    verifier: Arc<TrustingVerifier>,
    secrets: Arc<Secrets>,
}

impl Default for Tls {
    fn default() -> Tls {
        Tls::new()
    }
}

impl Tls {
    /// The default options of a client.
    pub fn new() -> Tls {
        Tls {
            versions: TlsVersion::ALL.to_vec(),
            name: Some("localhost".to_owned()),
            alpn: Vec::new(),
            suites: Vec::new(),
            shown: Arc::default(),
            sessions: None,
            by: Tls12Resumption::SessionIdOrTickets,
            early: None,
            fragment: None,
            verifier: Arc::new(TrustingVerifier::new(provider_with(&[]))),
            secrets: Arc::default(),
        }
    }

    /// Offers this version alone.
    pub fn only(mut self, version: TlsVersion) -> Tls {
        self.versions = vec![version];
        self
    }

    /// Asks for the server of this name (SNI, RFC 6066).
    pub fn name(mut self, name: &str) -> Tls {
        self.name = Some(name.to_owned());
        self
    }

    /// Asks for no server by name.
    pub fn nameless(mut self) -> Tls {
        self.name = None;
        self
    }

    /// Offers these protocols (ALPN, RFC 7301).
    pub fn alpn(mut self, names: &[&str]) -> Tls {
        self.alpn = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Offers these suites alone, by OpenSSL's names.
    pub fn suites(mut self, names: &[&str]) -> Tls {
        self.suites = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Shows the certificate of this name if the server asks for one: `NAME.crt` and `NAME.key` of
    /// [`certificates`](crate::certificates()). Sessions that are kept are not used with another certificate.
    ///
    /// # Panics
    /// There is no such certificate.
    pub fn certificate(self, name: &str) -> Tls {
        self.chain(name, name)
    }

    /// As [`certificate`](Self::certificate), with the chain of one name and the key of another.
    pub fn chain(mut self, chain: &str, key: &str) -> Tls {
        let (certificates, key) = (chain_of(chain), key_of(key));
        let key = super::provider().key_provider.load_private_key(key).expect("a usable key");
        self.shown = Arc::new(ClientCertificate(Some(Arc::new(CertifiedKey::new(certificates, key)))));
        self
    }

    /// Keeps sessions from now on, and resumes them, whatever server they are from.
    pub fn resuming(mut self) -> Tls {
        self.sessions = Some(Arc::new(SharedSessions(ClientSessionMemoryCache::new(64))));
        self
    }

    /// Keeps sessions from now on; with TLS 1.2 tickets are not asked for, so that the server has to keep them.
    pub fn resuming_by_id(self) -> Tls {
        Tls { by: Tls12Resumption::SessionIdOnly, ..self.resuming() }
    }

    /// Sends these bytes as early data, if a session allows it.
    pub fn early(mut self, bytes: impl AsRef<[u8]>) -> Tls {
        self.early = Some(bytes.as_ref().to_vec());
        self
    }

    /// The response of OCSP that the server has stapled to its certificate in the last full handshake of this client or a clone
    /// of it; empty if there was none.
    pub fn stapled(&self) -> Vec<u8> {
        self.verifier.stapled()
    }

    /// The secrets of all sessions of this client and its clones so far, one a line, as `SSLKEYLOGFILE` has them.
    pub fn secrets(&self) -> Vec<String> {
        self.secrets.0.lock().map(|lines| lines.clone()).unwrap_or_default()
    }

    /// Sends records of at most `size` bytes, with their heads; the ClientHello has many then.
    pub fn fragments(mut self, size: usize) -> Tls {
        self.fragment = Some(size);
        self
    }

    /// The name that a session is begun with. Without one, the library still wants one for its memory of sessions.
    pub(crate) fn session_name(&self) -> &str {
        self.name.as_deref().unwrap_or("localhost")
    }

    /// The bytes that a client begins with.
    pub fn hello(&self) -> Vec<u8> {
        Session::new(self).outgoing()
    }

    /// The options for the library.
    pub(crate) fn config(&self) -> ClientConfig {
        let versions: Vec<_> = self
            .versions
            .iter()
            .map(|version| match version {
                TlsVersion::V12 => &rustls::version::TLS12,
                TlsVersion::V13 => &rustls::version::TLS13,
            })
            .collect();
        let config = ClientConfig::builder_with_provider(provider_with(&self.suites));
        let config = config.with_protocol_versions(&versions).expect("versions that have suites");
        let config = config.dangerous().with_custom_certificate_verifier(self.verifier.clone());
        let mut config = config.with_client_cert_resolver(self.shown.clone());
        config.enable_sni = self.name.is_some();
        config.alpn_protocols = self.alpn.iter().map(|name| name.clone().into_bytes()).collect();
        config.max_fragment_size = self.fragment;
        config.key_log = self.secrets.clone();
        config.enable_early_data = self.early.is_some();
        config.resumption = match &self.sessions {
            Some(kept) => Resumption::store(kept.clone()).tls12_resumption(self.by),
            None => Resumption::disabled(),
        };
        config
    }
}

/// The secrets of sessions, one a line.
#[derive(Debug, Default)]
struct Secrets(Mutex<Vec<String>>);

impl KeyLog for Secrets {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if let Ok(mut lines) = self.0.lock() {
            lines.push(format!("{label} {} {}", digits(random), digits(secret)));
        }
    }
}

/// The certificate that a client shows.
#[derive(Debug, Default)]
struct ClientCertificate(Option<Arc<CertifiedKey>>);

impl ResolvesClientCert for ClientCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

/// Sessions that are resumed with whatever server is named: whether it takes them is up to the server.
#[derive(Debug)]
struct SharedSessions(ClientSessionMemoryCache);

/// The name under which all sessions are kept.
fn any() -> ServerName<'static> {
    ServerName::try_from("any").expect("a name")
}

impl ClientSessionStore for SharedSessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(any(), group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(&any())
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(any(), value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(&any())
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.0.remove_tls12_session(&any());
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(any(), value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(&any())
    }
}

/// The parameters that a client and its server have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedParameters {
    /// The version, as `$ssl_protocol` has it.
    pub version: String,
    /// The suite, by OpenSSL's name.
    pub cipher: String,
    /// The group of the key exchange, by rustls's name; empty if there was none.
    pub group: String,
    /// The protocol of ALPN.
    pub alpn: Option<String>,
    /// The server's certificates in DER, its own first. A resumed session has the certificates of its first handshake.
    pub certificates: Vec<Vec<u8>>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Whether the server has taken early data.
    pub early: bool,
}

/// The reason that a client has no session.
#[derive(Debug)]
pub struct TlsFailure {
    /// The number of the alert that the server has sent (RFC 8446 section 6).
    pub alert: Option<u8>,
    /// The end of the connection, if it came without an alert.
    pub ending: Option<ConnectionEnd>,
    /// The client's reason, if the server is not to blame or breaks the protocol.
    pub error: Option<String>,
}

/// A client's session.
pub(crate) struct Session {
    connection: ClientConnection,
    /// The server's alert that ends the session.
    pub(crate) alert: Option<u8>,
    /// Whether the server has sent `close_notify`.
    pub(crate) notified: bool,
    /// The client's own error.
    pub(crate) error: Option<String>,
    /// The lengths of the records that are marked as application data and have come.
    pub(crate) records: Vec<usize>,
    /// The part of a record that has come.
    head: Vec<u8>,
    skip: usize,
}

impl fmt::Debug for Session {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Session").field("alert", &self.alert).field("notified", &self.notified).finish_non_exhaustive()
    }
}

impl Session {
    /// A session that begins, with the early data written already if there can be some.
    pub(crate) fn new(tls: &Tls) -> Session {
        let name = tls.name.clone().unwrap_or_else(|| "nameless".to_owned());
        let name = ServerName::try_from(name).expect("a name that can be sent");
        let mut connection = ClientConnection::new(Arc::new(tls.config()), name).expect("a usable configuration");
        connection.set_buffer_limit(None);
        if let (Some(bytes), Some(mut early)) = (&tls.early, connection.early_data()) {
            early.write_all(bytes).expect("early data that is not too long");
        }
        let (alert, error, records, head) = (None, None, Vec::new(), Vec::new());
        Session { connection, alert, notified: false, error, records, head, skip: 0 }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The bytes that are to be sent now.
    pub(crate) fn outgoing(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut bytes).expect("a vector takes all");
        }
        bytes
    }

    /// Encrypts plaintext.
    pub(crate) fn encrypt(&mut self, plaintext: &[u8]) -> io::Result<Vec<u8>> {
        self.connection.writer().write_all(plaintext)?;
        Ok(self.outgoing())
    }

    /// The client has nothing more to send.
    pub(crate) fn close(&mut self) -> Vec<u8> {
        self.connection.send_close_notify();
        self.outgoing()
    }

    /// Takes bytes of the server; plaintext goes to `received`.
    pub(crate) fn take(&mut self, mut bytes: &[u8], received: &mut Vec<u8>) {
        self.measure(bytes);
        while !bytes.is_empty() && self.alert.is_none() && self.error.is_none() && !self.notified {
            if let Err(error) = self.connection.read_tls(&mut bytes) {
                self.error = Some(error.to_string());
                return;
            }
            match self.connection.process_new_packets() {
                Ok(state) => {
                    let mut plaintext = vec![0; state.plaintext_bytes_to_read()];
                    if self.connection.reader().read_exact(&mut plaintext).is_ok() {
                        received.extend(plaintext);
                    }
                    self.notified |= state.peer_has_closed();
                }
                Err(Error::AlertReceived(alert)) => self.alert = Some(u8::from(alert)),
                Err(error) => self.error = Some(error.to_string()),
            }
        }
    }

    /// Notes the lengths of records.
    fn measure(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            while self.skip == 0 && self.head.len() < 5 {
                let [first, rest @ ..] = bytes else { return };
                self.head.push(*first);
                bytes = rest;
            }
            if self.skip == 0 {
                self.skip = usize::from(u16::from_be_bytes([self.head[3], self.head[4]]));
                if self.head[0] == 23 {
                    self.records.push(self.skip);
                }
                self.head.clear();
            }
        }
    }

    pub(crate) fn agreed(&self) -> AgreedParameters {
        let certificates = self.connection.peer_certificates().unwrap_or_default();
        AgreedParameters {
            version: version_name(self.connection.protocol_version()).to_owned(),
            cipher: self
                .connection
                .negotiated_cipher_suite()
                .map(|suite| suite_name(suite.suite()))
                .unwrap_or_default(),
            group: self
                .connection
                .negotiated_key_exchange_group()
                .map(|group| format!("{:?}", group.name()))
                .unwrap_or_default(),
            alpn: self.connection.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
            certificates: certificates.iter().map(|certificate| certificate.to_vec()).collect(),
            resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
            early: self.connection.is_early_data_accepted(),
        }
    }
}
