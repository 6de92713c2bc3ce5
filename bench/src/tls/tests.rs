//! The clients, against a small server of rustls.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::client::{self, SessionUse, Sessions, TlsVersion};
use super::handshakes::{self, HandshakeLoad, LoadEnd};
use crate::certificates::{self, Key};
use crate::machine;

/// A folder of this test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("freerun-bench-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn server_settings(folder: &Path, key: Key) -> Arc<ServerConfig> {
    let openssl = machine::find("openssl").expect("openssl is installed");
    let files = certificates::make(&openssl, folder, key).unwrap();
    let certificate = CertificateDer::from_pem_file(&files.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let settings = ServerConfig::builder_with_provider(provider.into())
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Arc::new(settings)
}

/// Answers every request on `stream` with `status`, until one wants the connection closed or the client has closed it.
fn answer(stream: &mut (impl Read + Write), status: u16) -> io::Result<()> {
    let mut head = Vec::new();
    loop {
        let mut piece = [0; 512];
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        head.extend_from_slice(&piece[..count]);
        if head.ends_with(b"\r\n\r\n") {
            write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nOK")?;
            stream.flush()?;
            if String::from_utf8_lossy(&head).contains("Connection: close") {
                return Ok(());
            }
            head.clear();
        }
    }
}

/// Starts a server, over TLS with settings, whose threads end with this process.
fn serve(tls: Option<Arc<ServerConfig>>, status: u16) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, tls) = (stream.unwrap(), tls.clone());
            thread::spawn(move || match tls {
                None => answer(&mut stream, status),
                Some(settings) => {
                    let mut stream = StreamOwned::new(ServerConnection::new(settings).unwrap(), stream);
                    let done = answer(&mut stream, status);
                    stream.conn.send_close_notify();
                    stream.flush().and(done)
                }
            });
        }
    });
    address
}

fn load(server: SocketAddr, version: TlsVersion, resuming: SessionUse<'_>, count: usize) -> HandshakeLoad {
    HandshakeLoad {
        server,
        tls: client::settings(version, resuming).unwrap(),
        path: "/x".into(),
        at_a_time: 4,
        until: LoadEnd::Count(count),
        threads: 2,
        cores: Vec::new(),
    }
}

#[test]
fn handshakes_are_full_or_resumed_as_the_client_wants_in_both_versions_and_with_each_key() {
    let folder = Folder::new();
    for key in [Key::Rsa2048, Key::EcdsaP256] {
        let server = serve(Some(server_settings(&folder.0, key)), 200);
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            let sessions = Arc::<Sessions>::default();
            let run = |resuming, count| handshakes::run(&load(server, version, resuming, count)).unwrap();
            let never = run(SessionUse::Never, 7);
            assert_eq!((never.done, never.resumed, never.failed), (7, 0, 0), "{key}, {version}: {never:?}");
            assert_eq!(never.handshakes.count(), 7);
            let later = run(SessionUse::Later(&sessions), 20);
            assert_eq!((later.done, later.resumed, later.failed), (20, 0, 0), "{key}, {version}: {later:?}");
            assert!(sessions.count() >= 20, "{key}, {version}: {} sessions", sessions.count());
            let now = run(SessionUse::Now(&sessions), 20);
            assert_eq!((now.done, now.resumed, now.failed), (20, 20, 0), "{key}, {version}: {now:?}");
        }
    }
}

#[test]
fn a_closed_connection_and_another_answer_are_failures_with_a_reason() {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let closing = thread::spawn(move || (0..5).for_each(|_| drop(listener.accept().unwrap())));
    let closed = handshakes::run(&load(server, TlsVersion::Tls13, SessionUse::Never, 5)).unwrap();
    closing.join().unwrap();
    assert_eq!((closed.done, closed.failed, closed.complaint.is_some()), (0, 5, true), "{closed:?}");
    let server = serve(Some(server_settings(&folder.0, Key::EcdsaP256)), 503);
    let other = handshakes::run(&load(server, TlsVersion::Tls13, SessionUse::Never, 5)).unwrap();
    assert_eq!((other.done, other.failed), (0, 5));
    assert_eq!(other.complaint.as_deref(), Some("answered 503"));
}
