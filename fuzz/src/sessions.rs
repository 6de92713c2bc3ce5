//! TLS sessions: what clients send before anything is known of them.

use std::mem::{Discriminant, discriminant};
use std::sync::OnceLock;
use std::time::Duration;

use freerun_tls::load::{CertifiedKey, Chain, Key};
use freerun_tls::session::{Event, FailureKind, MAX_INPUT, ServerConfig, ServerSettings, Session};

use crate::choice;

/// The certificate and the key of the server.
const PAIR: [&str; 2] =
    [include_str!("../../crates/tls/tests/fixtures/ec.crt"), include_str!("../../crates/tls/tests/fixtures/ec.key")];

/// The group X25519, the cheapest.
const X25519: u16 = 29;

/// The settings of all sessions; none if the certificate cannot be read, which a unit test would say.
fn config() -> Option<&'static ServerConfig> {
    static CONFIG: OnceLock<Option<ServerConfig>> = OnceLock::new();
    let read = || {
        let chain = Chain::from_pem(PAIR[0].as_bytes()).ok()?;
        let key = Key::from_pem::<&[u8]>(PAIR[1].as_bytes(), &[]).ok()?;
        let keys = vec![CertifiedKey::new(&chain, &key).ok()?];
        ServerSettings { keys, groups: vec![X25519], ..ServerSettings::default() }.build().ok()
    };
    CONFIG.get_or_init(read).as_ref()
}

/// TLS sessions: no panic, no endless loop, never more than the limit kept, and the same end in whatever pieces the bytes
/// come.
pub fn session(data: &[u8]) {
    let (options, bytes) = choice(data);
    let Some(config) = config() else { panic!("the certificate of the tests cannot be read") };
    let whole = run(config, bytes, bytes.len().max(1), options);
    if options & 1 == 1 {
        assert_eq!(whole, run(config, bytes, usize::from(options >> 1) + 1, options));
    }
}

/// What a session comes to that gets its bytes in pieces of this size.
fn run(config: &ServerConfig, bytes: &[u8], piece: usize, options: u8) -> (bool, Option<Discriminant<FailureKind>>) {
    let Ok(mut session) = Session::new(config) else { panic!("no session") };
    let (mut received, mut output, mut plaintext) = (Vec::new(), Vec::new(), Vec::new());
    let mut answered = false;
    for piece in bytes.chunks(piece) {
        received.extend_from_slice(piece);
        loop {
            output.clear();
            let progress = session.step(Duration::from_secs(1), &mut received, &mut output, &mut plaintext, 64);
            answered |= !output.is_empty();
            assert!(progress.consumed <= received.len());
            received.drain(..progress.consumed);
            match progress.event {
                Event::NeedsInput => break,
                Event::Established | Event::Plaintext(_) => panic!("a handshake without the client's keys"),
                Event::PeerClosed => return (answered, None),
                Event::Failed(failure) => {
                    assert!(!failure.openssl().is_empty());
                    return (answered, Some(discriminant(&failure.kind)));
                }
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
