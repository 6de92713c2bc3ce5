//! TLS sessions of both sides with each other, whose bytes come in whatever pieces.

use std::sync::OnceLock;
use std::time::Duration;

use freerun_tls::session::{
    ClientCertificates, ClientConfig, ClientSettings, Event, MIN_OUTPUT, PeerSessions, ServerConfig, ServerSettings,
    SessionCache, SessionSettings, SessionStore, TicketKeys, TlsSession, TlsVersion,
};

use crate::choice;
use crate::sessions::{X25519, key};

/// The time of all sessions, since 1970.
const NOW: Duration = Duration::from_secs(1_800_000_000);

/// Longest input that is looked at: each byte is something that happens.
const LONGEST: usize = 400;

/// The settings of both sides for one version; records are small, so that messages take several.
struct Settings {
    client: ClientConfig,
    /// With sessions in a store, and in tickets.
    servers: [ServerConfig; 2],
}

/// A session with the buffers of its caller.
struct End {
    session: TlsSession,
    received: Vec<u8>,
    output: Vec<u8>,
    /// The number of bytes of plaintext that it has sent, and the bytes that it has got.
    sent: usize,
    got: Vec<u8>,
    established: bool,
    closed: bool,
    peer_closed: bool,
}

/// Settings of TLS 1.2 and 1.3; none if the certificate cannot be read, which a unit test would say.
fn settings() -> Option<&'static [Settings; 2]> {
    static SETTINGS: OnceLock<Option<[Settings; 2]>> = OnceLock::new();
    SETTINGS.get_or_init(|| Some([made(TlsVersion::Tls12)?, made(TlsVersion::Tls13)?])).as_ref()
}

fn made(version: TlsVersion) -> Option<Settings> {
    let common = (vec![version], vec![X25519], key()?);
    let (versions, groups, certificate) = common;
    let servers = ServerSettings {
        keys: vec![certificate.clone()],
        versions: versions.clone(),
        groups: groups.clone(),
        fragment: 64,
        client_certificates: Some(ClientCertificates::default()),
        ..ServerSettings::default()
    };
    let server = servers.build().ok()?;
    let timeout = Duration::from_secs(300);
    let store = SessionSettings {
        cache: SessionCache::Kept(SessionStore::new(1 << 20)),
        tickets: None,
        timeout,
        figures: Default::default(),
    };
    let keys = TicketKeys::random(timeout, NOW).ok()?;
    let tickets =
        SessionSettings { cache: SessionCache::Off, tickets: Some(keys), timeout, figures: Default::default() };
    let servers = [store, tickets].map(|sessions| server.with_sessions(&sessions, b"context"));
    let clients =
        ClientSettings { versions, groups, certificate: Some(certificate), fragment: 64, ..ClientSettings::default() };
    Some(Settings { client: clients.build().ok()?, servers })
}

/// The byte at a place of what each side sends.
fn byte(place: usize) -> u8 {
    (place % 251) as u8
}

impl End {
    fn new(session: TlsSession) -> Self {
        Self {
            session,
            received: Vec::new(),
            output: Vec::new(),
            sent: 0,
            got: Vec::new(),
            established: false,
            closed: false,
            peer_closed: false,
        }
    }

    /// Takes `count` bytes of the other side's output.
    fn take_from(&mut self, other: &mut End, count: usize, room: usize) {
        let count = count.min(other.output.len());
        self.received.extend(other.output.drain(..count));
        loop {
            let begin = self.got.len();
            let progress = self.session.step(NOW, &mut self.received, &mut self.output, &mut self.got, room);
            self.received.drain(..progress.consumed);
            match progress.event {
                Event::NeedsInput => break,
                Event::Established => {
                    assert!(!self.established, "told once");
                    self.established = true;
                }
                Event::Plaintext(count) => {
                    assert!(self.established && !self.peer_closed);
                    assert!((1..=room).contains(&count) && self.got.len() == begin + count);
                }
                Event::PeerClosed => {
                    assert!(self.established && !self.peer_closed);
                    self.peer_closed = true;
                }
                Event::Failed(failure) => panic!("nobody did anything wrong: {failure:?}"),
            }
        }
        assert!(!self.session.has_more());
        assert!(self.received.len() < 20_000);
        for (place, got) in self.got.iter().enumerate() {
            assert_eq!(*got, byte(place));
        }
    }

    fn send(&mut self, count: usize) {
        if !self.established || self.closed {
            return;
        }
        let plaintext: Vec<u8> = (self.sent..self.sent + count).map(byte).collect();
        let mut buffer = vec![0; MIN_OUTPUT + count];
        match self.session.encrypt(&plaintext, &mut buffer) {
            Ok(encrypted) => {
                assert!(encrypted.taken > 0 || count == 0);
                self.sent += encrypted.taken;
                self.output.extend_from_slice(&buffer[..encrypted.written]);
            }
            Err(failure) => panic!("nothing is wrong with it: {failure:?}"),
        }
    }

    fn close(&mut self) {
        self.session.close(&mut self.output);
        self.closed |= self.established;
    }
}

/// Two sessions one after the other, between a client and a server that follow the input. There is no panic and no
/// failure, and each side gets the other one's bytes, in their order.
pub fn conversation(data: &[u8]) {
    let (options, data) = choice(data);
    let Some(settings) = settings() else { panic!("the certificate of the tests cannot be read") };
    let settings = &settings[usize::from(options & 1)];
    let peer = PeerSessions::new();
    let (first, second) = data.split_at(data.len().min(LONGEST) / 2);
    for actions in [first, &second[..second.len().min(LONGEST)]] {
        talk(settings, usize::from(options >> 1 & 1), &peer, actions);
    }
}

fn talk(settings: &Settings, server: usize, peer: &PeerSessions, actions: &[u8]) {
    let client = TlsSession::client(&settings.client, NOW, Some("a.example"), Some(peer.clone()));
    let (Ok(client), Ok(server)) = (client, TlsSession::new(&settings.servers[server])) else { panic!("no session") };
    let (mut client, mut server) = (End::new(client), End::new(server));
    for action in actions {
        let count = usize::from(action >> 3);
        match action & 7 {
            0 => client.take_from(&mut server, count * count, 1 + count),
            1 => server.take_from(&mut client, count * count, 1 + count),
            2 => client.take_from(&mut server, usize::MAX, 1000),
            3 => server.take_from(&mut client, usize::MAX, 1000),
            4 => client.send(count * 10),
            5 => server.send(count * 10),
            6 if count == 0 => client.close(),
            7 if count == 0 => server.close(),
            6 => client.take_from(&mut server, 1, 1),
            _ => server.take_from(&mut client, 1, 1),
        }
    }
    // The rest, without a piece of anything left.
    while !(client.output.is_empty() && server.output.is_empty()) || !client.established && !client.peer_closed {
        client.take_from(&mut server, usize::MAX, 1000);
        server.take_from(&mut client, usize::MAX, 1000);
    }
    assert!(client.established && server.established);
    for (one, other) in [(&client, &server), (&server, &client)] {
        // An end of one direction takes nothing from the other one.
        assert!(other.got.len() == one.sent);
        assert!(!one.closed || other.peer_closed);
        assert_eq!(one.session.peer_certificates().count(), 1);
    }
    let [resumed, also] = [&client, &server].map(|end| end.session.agreed().is_some_and(|agreed| agreed.resumed));
    assert_eq!(resumed, also);
}
