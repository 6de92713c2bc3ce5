//! TLS sessions: what clients and servers send before anything is known of them.

use std::mem::{Discriminant, discriminant};
use std::sync::OnceLock;
use std::time::Duration;

use freerun_proto::tls::{HelloProgress as Hello, HelloReader};
use freerun_tls::load::{CertificateKey, CertifiedKey, Chain};
use freerun_tls::session::{
    ClientConfig, ClientSettings, Event, FailureKind, MAX_INPUT, ServerConfig, ServerSettings, TlsSession,
};

use crate::choice;

/// The certificate and the key of the server.
const PAIR: [&str; 2] =
    [include_str!("../../crates/tls/tests/fixtures/ec.crt"), include_str!("../../crates/tls/tests/fixtures/ec.key")];

/// The group X25519, the cheapest.
pub(crate) const X25519: u16 = 29;

/// Longest input that is looked at: a few of the messages that a session begins with.
const LONGEST: usize = 8192;

/// The pair above.
pub(crate) fn key() -> Option<CertifiedKey> {
    let chain = Chain::from_pem(PAIR[0].as_bytes()).ok()?;
    let key = CertificateKey::from_pem::<&[u8]>(PAIR[1].as_bytes(), &[]).ok()?;
    CertifiedKey::new(&chain, &key).ok()
}

/// The settings of all sessions; none if the certificate cannot be read, which a unit test would say.
fn settings() -> Option<&'static (ServerConfig, ClientConfig)> {
    static SETTINGS: OnceLock<Option<(ServerConfig, ClientConfig)>> = OnceLock::new();
    let read = || {
        let groups = vec![X25519];
        let server = ServerSettings { keys: vec![key()?], groups: groups.clone(), ..ServerSettings::default() };
        let client = ClientSettings { groups, ..ClientSettings::default() };
        Some((server.build().ok()?, client.build().ok()?))
    };
    SETTINGS.get_or_init(read).as_ref()
}

/// TLS sessions: no panic, no endless loop, never more than the limit kept, and the same end in whatever pieces the bytes
/// come.
pub fn session(data: &[u8]) {
    let (options, bytes) = choice(data);
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let whole = run(bytes, bytes.len().max(1), options);
    if options & 1 == 1 {
        assert_eq!(whole, run(bytes, usize::from(options >> 1 & 31) + 1, options));
    }
    answer(bytes);
}

/// A server that reads the ClientHello itself answers it, whatever name it asks for: no name is a reason to refuse it.
fn answer(bytes: &[u8]) {
    let Some((server, _)) = settings() else { panic!("the certificate of the tests cannot be read") };
    let Ok(Hello::Hello(read)) = HelloReader::new().advance(bytes) else { return };
    let Ok(mut session) = TlsSession::answer(server, &read.hello, read.message(bytes)) else { return };
    let mut received = read.reframed(bytes.to_vec());
    let (mut output, mut plaintext) = (Vec::new(), Vec::new());
    let progress = session.step(Duration::from_secs(1), &mut received, &mut output, &mut plaintext, 64);
    assert!(progress.consumed <= received.len());
    if let Event::Failed(failure) = progress.event {
        assert!(!failure.said.contains("ServerName"), "{failure}");
    }
}

/// A session of either side.
fn begun(options: u8) -> TlsSession {
    let Some((server, client)) = settings() else { panic!("the certificate of the tests cannot be read") };
    let session = match options & 64 {
        0 => TlsSession::new(server),
        _ => TlsSession::client(client, Duration::from_secs(1), Some("a.example"), None),
    };
    let Ok(session) = session else { panic!("no session") };
    session
}

/// The result of a session that gets its bytes in pieces of this size.
fn run(bytes: &[u8], piece: usize, options: u8) -> (bool, Option<Discriminant<FailureKind>>) {
    let mut session = begun(options);
    let (mut received, mut output, mut plaintext) = (Vec::new(), Vec::new(), Vec::new());
    let mut answered = false;
    for piece in bytes.chunks(piece) {
        received.extend_from_slice(piece);
        output.clear();
        // Without the other side's keys a step ends only where it needs more, or for good.
        let progress = session.step(Duration::from_secs(1), &mut received, &mut output, &mut plaintext, 64);
        answered |= !output.is_empty();
        assert!(progress.consumed <= received.len());
        received.drain(..progress.consumed);
        match progress.event {
            Event::NeedsInput => {}
            Event::Established | Event::Plaintext(_) => panic!("a handshake without the other side's keys"),
            Event::PeerClosed => return (answered, None),
            Event::Failed(failure) => {
                assert!(!failure.openssl().is_empty());
                return (answered, Some(discriminant(&failure.kind)));
            }
        }
        assert!(received.len() <= MAX_INPUT);
        if options & 128 != 0 {
            // There is nothing to close yet, and it does no harm.
            session.close(&mut output);
        }
    }
    assert!(session.agreed().is_none());
    (answered, None)
}
