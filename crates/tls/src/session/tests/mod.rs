//! Handshakes and data against rustls's client, without sockets.

mod client;
mod client_certificates;
mod clients;
mod data;
mod early_data;
mod extras;
mod failures;
mod handshakes;
mod library_server;
mod names;
mod resumed;
mod tickets;

use super::{
    ClientConfig, Event, MIN_OUTPUT, PeerSessions, ServerConfig, ServerSettings, SessionCache, SessionFailure,
    SessionSettings, SessionStore, TlsSession,
};
use crate::fixtures::{EC_CRT, EC_KEY, RSA_CRT, RSA_KEY};
use crate::load::{CertificateKey, CertifiedKey, Chain};
use client::Client;
use freerun_proto::tls::{HelloProgress, HelloReader};
use std::time::Duration;

/// A time at which the client's and the server's sessions are valid.
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn certified(chain: &str, key: &str) -> CertifiedKey {
    let chain = Chain::from_pem(chain.as_bytes()).expect("a chain");
    let key = CertificateKey::from_pem::<&[u8]>(key.as_bytes(), &[]).expect("a key");
    CertifiedKey::new(&chain, &key).expect("a pair")
}

fn rsa() -> CertifiedKey {
    certified(RSA_CRT, RSA_KEY)
}

fn ec() -> CertifiedKey {
    certified(EC_CRT, EC_KEY)
}

fn settings() -> ServerSettings {
    ServerSettings { keys: vec![ec()], ..ServerSettings::default() }
}

fn config() -> ServerConfig {
    settings().build().expect("settings")
}

/// How sessions are resumed from a store, for five minutes.
fn kept() -> SessionSettings {
    SessionSettings {
        cache: SessionCache::Kept(SessionStore::new(1 << 20)),
        tickets: None,
        timeout: Duration::from_secs(300),
        figures: Default::default(),
    }
}

/// The same configuration with sessions that are resumed.
fn keeping(config: &ServerConfig) -> ServerConfig {
    config.with_sessions(&kept(), b"context")
}

/// A session with the buffers of its caller.
struct End {
    session: TlsSession,
    now: Duration,
    /// What was received and not consumed.
    received: Vec<u8>,
    /// What is to be sent.
    output: Vec<u8>,
    plaintext: Vec<u8>,
    events: Vec<Event>,
    /// How much plaintext a step may give.
    room: usize,
}

impl End {
    fn server(config: &ServerConfig) -> Self {
        Self::of(TlsSession::new(config).expect("a session"))
    }

    /// A server that answers the ClientHello at the front of these bytes, which it has received.
    fn answering(config: &ServerConfig, received: &[u8]) -> Self {
        let Ok(HelloProgress::Hello(hello)) = HelloReader::new().advance(received) else { panic!("no ClientHello") };
        let session = TlsSession::answer(config, &hello.hello, hello.message(received)).expect("a session");
        let mut end = Self::of(session);
        end.receive(&hello.reframed(received.to_vec()));
        end
    }

    fn client(config: &ClientConfig, peer: Option<&PeerSessions>) -> Self {
        Self::of(TlsSession::client(config, NOW, Some("www.example.org"), peer.cloned()).expect("a session"))
    }

    fn of(session: TlsSession) -> Self {
        Self {
            session,
            now: NOW,
            received: Vec::new(),
            output: Vec::new(),
            plaintext: Vec::new(),
            events: Vec::new(),
            room: 20_000,
        }
    }

    /// Gives the session bytes of the peer, and steps until it needs more.
    fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        loop {
            let before = self.plaintext.len();
            let progress =
                self.session.step(self.now, &mut self.received, &mut self.output, &mut self.plaintext, self.room);
            self.received.drain(..progress.consumed);
            match progress.event {
                Event::NeedsInput => return,
                Event::Plaintext(length) => assert_eq!(self.plaintext.len(), before + length),
                event @ (Event::Failed(_) | Event::PeerClosed) => {
                    self.events.push(event);
                    return;
                }
                event @ Event::Established => self.events.push(event),
            }
        }
    }

    /// Encrypts all of it, in buffers of this size.
    fn send(&mut self, mut plaintext: &[u8], size: usize) {
        let mut buffer = vec![0; size.max(MIN_OUTPUT)];
        while !plaintext.is_empty() {
            let encrypted = self.session.encrypt(plaintext, &mut buffer).expect("to encrypt");
            assert!(encrypted.taken > 0 || encrypted.written > 0, "no progress");
            self.output.extend_from_slice(&buffer[..encrypted.written]);
            plaintext = &plaintext[encrypted.taken..];
        }
    }

    fn failure(&self) -> &SessionFailure {
        match self.events.last() {
            Some(Event::Failed(failure)) => failure,
            other => panic!("no failure: {other:?}"),
        }
    }

    fn established(&self) -> bool {
        self.events.contains(&Event::Established)
    }
}

/// Passes bytes between both until neither has any; what the server gets comes in pieces of this size.
fn exchange(client: &mut Client, server: &mut End, piece: usize) {
    loop {
        let from_client = client.take_output();
        for bytes in from_client.chunks(piece) {
            server.receive(bytes);
        }
        let from_server = std::mem::take(&mut server.output);
        if from_client.is_empty() && from_server.is_empty() {
            return;
        }
        client.receive(&from_server);
    }
}

/// A handshake that both sides take to its end.
fn handshake(client: &mut Client, config: &ServerConfig) -> End {
    let mut server = End::server(config);
    exchange(client, &mut server, usize::MAX);
    assert_eq!(server.events, [Event::Established]);
    assert_eq!(client.error, None);
    server
}

/// Passes bytes between two sessions, beginning with the client's, until neither has any.
fn pass(client: &mut End, server: &mut End) {
    client.receive(&[]);
    loop {
        let from_client = std::mem::take(&mut client.output);
        server.receive(&from_client);
        let from_server = std::mem::take(&mut server.output);
        client.receive(&from_server);
        if from_client.is_empty() && from_server.is_empty() {
            return;
        }
    }
}

/// A handshake between two sessions that both take to its end.
fn established(client: &ClientConfig, peer: Option<&PeerSessions>, server: &ServerConfig) -> (End, End) {
    let (mut client, mut server) = (End::client(client, peer), End::server(server));
    pass(&mut client, &mut server);
    assert_eq!((&client.events[..], &server.events[..]), (&[Event::Established][..], &[Event::Established][..]));
    (client, server)
}
