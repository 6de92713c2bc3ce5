//! The server that the client runs in, as small as it can be: it answers challenges, and notes what it is given.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use freerun_acme::{CertificateSettings, Challenge, Host, Level, Pair};
use rustls::crypto::aws_lc_rs::{default_provider, sign::any_supported_type};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::ca::Ca;

/// What a server was given.
#[derive(Default)]
struct Given {
    later: Duration,
    challenges: Vec<Challenge>,
    is_full: bool,
    issued: Vec<(CertificateSettings, Pair)>,
    lines: Vec<(Level, String)>,
}

/// A server. Its clock is the system's, and as much later as it is told.
#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<Given>>);

impl Server {
    /// A server that answers the challenges of a CA.
    pub(crate) fn answering(ca: &Ca) -> Server {
        let server = Server::default();
        server.answer(ca);
        server
    }

    /// Answers the challenges of a CA.
    pub(crate) fn answer(&self, ca: &Ca) {
        let (http, tls) = ca.answers;
        let own = self.clone();
        listen(http, move |stream| own.answer_http(stream));
        let own = self.clone();
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(own));
        config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
        let config = Arc::new(config);
        listen(tls, move |mut stream| {
            let mut session = rustls::ServerConnection::new(config.clone()).expect("a session");
            while session.is_handshaking() && session.complete_io(&mut stream).is_ok() {}
        });
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.0.lock().expect("no panic in another thread")
    }

    /// Puts the clock forward.
    pub(crate) fn later(&self, by: Duration) {
        self.given().later += by;
    }

    /// Takes no more answers to challenges.
    pub(crate) fn fill(&self) {
        self.given().is_full = true;
    }

    /// What was issued so far.
    pub(crate) fn issued(&self) -> Vec<Pair> {
        self.given().issued.iter().map(|(_, pair)| pair.clone()).collect()
    }

    /// The answers to challenges that are there now.
    pub(crate) fn challenges(&self) -> usize {
        self.given().challenges.len()
    }

    /// Whether a line of the log has this text.
    pub(crate) fn logged(&self, text: &str) -> bool {
        self.given().lines.iter().any(|(_, line)| line.contains(text))
    }

    /// All lines of the log, for a test that fails.
    pub(crate) fn log(&self) -> String {
        self.given().lines.iter().map(|(level, line)| format!("{level:?} {line}\n")).collect()
    }

    fn answer_http(&self, mut stream: TcpStream) {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head);
        let path = head.split(' ').nth(1).unwrap_or_default();
        let asked = path.strip_prefix("/.well-known/acme-challenge/").unwrap_or_default();
        let answer = self.given().challenges.iter().find_map(|challenge| match challenge {
            Challenge::Http01 { token, key_authorization } if token == asked => Some(key_authorization.clone()),
            _ => None,
        });
        let (status, body) = answer.map_or((404, String::new()), |body| (200, body));
        let response =
            format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        let _ = stream.write_all(response.as_bytes());
    }
}

/// Runs for as long as the tests do.
fn listen(port: u16, mut answer: impl FnMut(TcpStream) + Send + 'static) {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream);
        }
    });
}

impl Host for Server {
    fn log(&self, level: Level, line: &str) {
        self.given().lines.push((level, line.to_owned()));
    }

    fn http_client(&self) -> Option<freerun_serve::http_client::RemoteClient> {
        Some(crate::sender::http_client())
    }

    fn now(&self) -> SystemTime {
        SystemTime::now() + self.given().later
    }

    fn publish(&self, challenge: &Challenge) -> Result<(), String> {
        let mut given = self.given();
        if given.is_full {
            return Err("no room".to_owned());
        }
        given.challenges.push(challenge.clone());
        Ok(())
    }

    fn withdraw(&self, challenge: &Challenge) {
        self.given().challenges.retain(|other| other != challenge);
    }

    fn issued(&self, certificate: &CertificateSettings, pair: &Pair) {
        self.given().issued.push((certificate.clone(), pair.clone()));
    }

    fn held(&self, certificate: &CertificateSettings) -> Option<Pair> {
        let given = self.given();
        given.issued.iter().rev().find(|(settings, _)| settings == certificate).map(|(_, pair)| pair.clone())
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

impl ResolvesServerCert for Server {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?;
        self.given().challenges.iter().find_map(|challenge| match challenge {
            Challenge::TlsAlpn01 { identifier, certificate, key } if Challenge::tls_alpn_name(identifier) == name => {
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.to_vec()));
                let key = any_supported_type(&key).ok()?;
                Some(Arc::new(CertifiedKey::new(vec![CertificateDer::from(certificate.clone())], key)))
            }
            _ => None,
        })
    }
}
