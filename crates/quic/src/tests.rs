//! Both sides in one thread: a client of the library, and connections as a server has them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use freerun_tls::issue;
use freerun_tls::session::{ClientSettings, QuicClient, QuicServer, QuicSession, ServerConfig, ServerSettings};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    StreamEvent,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

use crate::client;
use crate::connection::QuicConnection;
use crate::connection_id::{ConnectionIds, ConnectionPlace, LoopPlace};
use crate::datagram::Datagram;
use crate::hello::HelloProgress;
use crate::keys::QuicKeys;
use crate::packet::PacketHead;
use crate::pending::{FirstDatagram, PendingConnection};
use crate::settings::{self, ConnectionSettings};

#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519, SignatureScheme::RSA_PSS_SHA256]
    }
}

fn client_config(alpn: &[u8]) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()))
}

fn clock() -> Duration {
    Duration::from_secs(1_800_000_000)
}

fn tls() -> ServerConfig {
    let now = 1_800_000_000;
    let issued = issue::temporary(&["quic.test".to_owned()], now, 86_400).unwrap();
    let settings = ServerSettings {
        keys: vec![issued.certified().unwrap()],
        alpn: vec![b"h3".to_vec()],
        ..ServerSettings::default()
    };
    settings.build().unwrap()
}

fn connection_settings() -> ConnectionSettings {
    ConnectionSettings {
        max_streams: 8,
        stream_window: 64 << 10,
        connection_window: 1 << 20,
        idle_timeout: Duration::from_secs(10),
        gso: true,
        is_ipv4: true,
    }
}

struct Client {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl Client {
    fn new(now: Instant, name: &str, alpn: &[u8]) -> Client {
        let keys = QuicKeys::of(&[7; 32], "").unwrap();
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::new(keys.reset)), None, true, None);
        let (handle, connection) = endpoint.connect(now, client_config(alpn), address(443), name).unwrap();
        Client { endpoint, handle, connection }
    }

    fn transmit(&mut self, now: Instant) -> Vec<BytesMut> {
        let mut all = Vec::new();
        let mut output = Vec::new();
        while self.connection.poll_transmit(now, 1, &mut output).is_some() {
            all.push(BytesMut::from(&output[..]));
            output.clear();
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        all
    }

    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        let mut output = Vec::new();
        let bytes = BytesMut::from(bytes);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) =
            self.endpoint.handle(now, address(443), None, None, bytes, &mut output)
        {
            self.connection.handle_event(event);
        }
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.connection.poll()).collect()
    }
}

fn datagram(bytes: BytesMut, port: u16) -> Datagram {
    Datagram { bytes, from: address(port), to: None, ecn: 0 }
}

struct Server {
    keys: QuicKeys,
    ids: ConnectionIds,
    tls: ServerConfig,
}

impl Server {
    fn new() -> Server {
        let keys = QuicKeys::of(&[9; 32], "").unwrap();
        let ids = ConnectionIds::new(&keys, LoopPlace { process: 0, index: 1, number: 1, of: 2 });
        Server { keys, ids, tls: tls() }
    }

    fn settings(&self) -> (Arc<quinn_proto::ServerConfig>, QuicSession) {
        let (crypto, session) = QuicServer::new(&self.tls, clock).unwrap();
        (settings::server(&self.keys, crypto, connection_settings().transport()), session)
    }

    fn begin(&self, now: Instant, bytes: BytesMut, output: &mut Vec<u8>) -> FirstDatagram {
        let endpoint = settings::endpoint(&self.keys, &self.ids, 5);
        PendingConnection::begin(endpoint, self.settings().0, now, datagram(bytes, 1000), output)
    }

    fn pending(&self, now: Instant, bytes: BytesMut) -> Box<PendingConnection> {
        match self.begin(now, bytes, &mut Vec::new()) {
            FirstDatagram::Pending(pending) => pending,
            _ => panic!("a connection begins"),
        }
    }
}

/// The datagrams that a connection sends now.
fn sent(now: Instant, connection: &mut QuicConnection) -> Vec<BytesMut> {
    let (mut all, mut output) = (Vec::new(), Vec::new());
    while connection.transmit(now, 1, &mut output).is_some() {
        all.push(BytesMut::from(&output[..]));
        output.clear();
    }
    all
}

/// Has both sides exchange datagrams until none is left.
fn exchange(now: Instant, client: &mut Client, server: &mut QuicConnection) {
    exchange_over(usize::MAX, now, client, server);
}

/// The same on a path that loses longer datagrams of the server than these.
fn exchange_over(longest: usize, now: Instant, client: &mut Client, server: &mut QuicConnection) {
    loop {
        let (mut output, mut any) = (Vec::new(), false);
        while let Some(transmit) = server.transmit(now, 10, &mut output) {
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            output.chunks(segment).filter(|one| one.len() <= longest).for_each(|one| client.receive(now, one));
            output.clear();
            any = true;
        }
        for bytes in client.transmit(now) {
            assert!(server.receive(now, datagram(bytes, 1000), &mut output).is_none());
            any = true;
        }
        if !any {
            return;
        }
    }
}

fn connect() -> (Instant, Client, Box<QuicConnection>, QuicSession) {
    connect_over(usize::MAX)
}

fn connect_over(longest: usize) -> (Instant, Client, Box<QuicConnection>, QuicSession) {
    let (now, server) = (Instant::now(), Server::new());
    let mut client = Client::new(now, "quic.test", b"h3");
    let mut datagrams = client.transmit(now).into_iter();
    let mut pending = server.pending(now, datagrams.next().unwrap());
    datagrams.for_each(|bytes| pending.receive(now, datagram(bytes, 1000), &mut Vec::new()));
    assert_eq!(pending.progress(), HelloProgress::Whole);
    let hello = freerun_proto::tls::ClientHello::parse(pending.hello()).unwrap();
    assert_eq!(hello.server_name(pending.hello()), Some(&b"quic.test"[..]));
    let (settings, session) = server.settings();
    let Ok(mut connection) = pending.accept(now, settings, &mut Vec::new()) else { panic!("the handshake begins") };
    exchange_over(longest, now, &mut client, &mut connection);
    (now, client, connection, session)
}

#[test]
fn the_client_hello_is_read_before_the_handshake_and_data_goes_both_ways_after_it() {
    let (now, mut client, mut server, session) = connect();
    let agreed = session.agreed().expect("the handshake is complete");
    assert_eq!((agreed.alpn.as_deref(), agreed.early_data, agreed.resumed), (Some(&b"h3"[..]), false, false));
    assert_eq!((agreed.cipher, agreed.shown.is_some()), ("TLS_AES_256_GCM_SHA384", true));
    assert!(client.events().iter().any(|event| matches!(event, Event::Connected)));
    let stream = client.connection.streams().open(Dir::Bi).unwrap();
    client.connection.send_stream(stream).write(b"to the server").unwrap();
    client.connection.send_stream(stream).finish().unwrap();
    exchange(now, &mut client, &mut server);
    let opened = std::iter::from_fn(|| server.next_event())
        .any(|event| matches!(event, Event::Stream(StreamEvent::Opened { dir: Dir::Bi })));
    assert!(opened);
    let id = server.inner().streams().accept(Dir::Bi).unwrap();
    let mut stream = server.inner().recv_stream(id);
    let mut chunks = stream.read(true).unwrap();
    assert_eq!(&chunks.next(100).unwrap().unwrap().bytes[..], b"to the server");
    assert!(chunks.next(100).unwrap().is_none());
    let _ = chunks.finalize();
    server.inner().send_stream(id).write_chunks(&mut [Bytes::from_static(b"to the client")]).unwrap();
    exchange(now, &mut client, &mut server);
    let mut stream = client.connection.recv_stream(id);
    let mut chunks = stream.read(true).unwrap();
    assert_eq!(&chunks.next(100).unwrap().unwrap().bytes[..], b"to the client");
    let _ = chunks.finalize();
}

/// The size of a server's datagrams after a while on a path that loses longer ones than these.
fn datagram_size(longest: usize) -> usize {
    let (mut now, mut client, mut server, _) = connect_over(longest);
    for _ in 0..50 {
        now += Duration::from_millis(100);
        server.advance(now);
        client.connection.handle_timeout(now);
        server.inner().ping();
        exchange_over(longest, now, &mut client, &mut server);
    }
    server.datagram_size()
}

#[test]
fn datagrams_grow_to_nearly_what_the_path_takes() {
    assert_eq!(datagram_size(usize::MAX), 1472);
    // What PPPoE leaves of 1500 bytes.
    let size = datagram_size(1492 - 28);
    assert!((1457..=1464).contains(&size), "{size}");
    assert_eq!(datagram_size(1200), 1200);
}

#[test]
fn datagrams_of_a_connection_name_its_place() {
    let (now, mut client, mut server, _) = connect();
    exchange(now, &mut client, &mut server);
    client.connection.ping();
    let keys = QuicKeys::of(&[9; 32], "").unwrap();
    let ids = ConnectionIds::new(&keys, LoopPlace { process: 0, index: 1, number: 1, of: 2 });
    for bytes in client.transmit(now) {
        let head = PacketHead::parse(&bytes, crate::connection_id::LENGTH).unwrap();
        assert_eq!(
            (head.version, ids.place(head.destination)),
            (None, Some(ConnectionPlace { process: 0, index: 1, place: 5 }))
        );
    }
}

#[test]
fn a_client_that_speaks_nothing_of_ours_is_refused_with_an_alert() {
    let (now, server) = (Instant::now(), Server::new());
    let mut client = Client::new(now, "quic.test", b"smtp");
    let mut datagrams = client.transmit(now).into_iter();
    let mut pending = server.pending(now, datagrams.next().unwrap());
    datagrams.for_each(|bytes| pending.receive(now, datagram(bytes, 1000), &mut Vec::new()));
    let (settings, session) = server.settings();
    let mut output = Vec::new();
    match pending.accept(now, settings, &mut output) {
        Err(failure) => {
            assert!(failure.response.is_some());
            client.receive(now, &output);
        }
        // The message came in several datagrams.
        Ok(mut connection) => exchange(now, &mut client, &mut connection),
    }
    let failure = session.failure().expect("there is no session");
    assert_eq!(failure.alert, Some(120), "no_application_protocol");
    assert!(client.events().iter().any(|event| matches!(event, Event::ConnectionLost { .. })));
}

#[test]
fn a_client_is_refused_with_the_alert_that_was_chosen() {
    let (now, server) = (Instant::now(), Server::new());
    let mut client = Client::new(now, "quic.test", b"h3");
    let mut datagrams = client.transmit(now).into_iter();
    let mut pending = server.pending(now, datagrams.next().unwrap());
    datagrams.for_each(|bytes| pending.receive(now, datagram(bytes, 1000), &mut Vec::new()));
    let crypto = QuicServer::refusing(112).unwrap();
    let settings = settings::server(&server.keys, crypto, connection_settings().transport());
    let mut output = Vec::new();
    match pending.accept(now, settings, &mut output) {
        Err(failure) => {
            assert!(failure.response.is_some());
            client.receive(now, &output);
        }
        // The message came in several datagrams.
        Ok(mut connection) => exchange(now, &mut client, &mut connection),
    }
    let code = client.events().into_iter().find_map(|event| match event {
        Event::ConnectionLost { reason: ConnectionError::ConnectionClosed(close) } => Some(close.error_code),
        _ => None,
    });
    assert_eq!(code.map(u64::from), Some(0x100 + 112), "unrecognized_name");
}

#[test]
fn a_client_is_asked_for_its_address_and_shows_it() {
    let (now, server) = (Instant::now(), Server::new());
    let mut client = Client::new(now, "quic.test", b"h3");
    let first = client.transmit(now).remove(0);
    let pending = server.pending(now, first);
    assert!(!pending.is_validated());
    let mut output = Vec::new();
    assert!(pending.retry(&mut output).is_some());
    client.receive(now, &output);
    let mut datagrams = client.transmit(now).into_iter();
    let mut pending = server.pending(now, datagrams.next().unwrap());
    assert!(pending.is_validated());
    datagrams.for_each(|bytes| pending.receive(now, datagram(bytes, 1000), &mut Vec::new()));
    assert_eq!(pending.progress(), HelloProgress::Whole);
    let Ok(mut connection) = pending.accept(now, server.settings().0, &mut Vec::new()) else { panic!("it begins") };
    exchange(now, &mut client, &mut connection);
    assert!(client.events().iter().any(|event| matches!(event, Event::Connected)));
}

#[test]
fn other_versions_are_answered_with_the_own_one_and_small_datagrams_with_nothing() {
    let (now, server) = (Instant::now(), Server::new());
    let mut bytes = BytesMut::from(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0][..]);
    let mut output = Vec::new();
    assert!(matches!(server.begin(now, bytes.clone(), &mut output), FirstDatagram::Nothing));
    bytes.resize(1200, 0);
    assert!(matches!(server.begin(now, bytes, &mut output), FirstDatagram::Response(_)));
    assert_eq!(&output[1..5], &[0; 4], "a Version Negotiation packet");
    assert!(output.windows(4).any(|four| four == [0, 0, 0, 1]));
}

#[test]
fn damaged_first_datagrams_begin_nothing() {
    let (now, server) = (Instant::now(), Server::new());
    let mut client = Client::new(now, "quic.test", b"h3");
    let first = client.transmit(now).remove(0);
    for at in (0..first.len()).step_by(7) {
        let mut damaged = first.clone();
        damaged[at] ^= 1;
        let begun = server.begin(now, damaged, &mut Vec::new());
        assert!(!matches!(begun, FirstDatagram::Pending(_)), "byte {at}");
    }
}

/// A packet with a short header for this connection ID, which nobody can read.
fn short_packet(id: &[u8], length: usize) -> BytesMut {
    let mut packet = BytesMut::from(&[0x40][..]);
    packet.extend_from_slice(id);
    packet.resize(length.max(packet.len()), 0x55);
    packet.truncate(length);
    packet
}

/// The connection ID that a client sends to.
fn id_of(client: &mut Client, now: Instant) -> Vec<u8> {
    client.connection.ping();
    let sent = client.transmit(now).remove(0);
    PacketHead::parse(&sent, crate::connection_id::LENGTH).unwrap().destination.to_vec()
}

/// RFC 9000 section 10.3.3: two sides that reset each other's resets come to an end.
#[test]
fn a_reset_is_smaller_than_what_it_answers() {
    let (now, mut client, _, _) = connect();
    let (server, id) = (Server::new(), id_of(&mut client, Instant::now()));
    let mut output = Vec::new();
    for length in 0..1500 {
        output.clear();
        let answer = server.begin(now, short_packet(&id, length), &mut output);
        let is_answered = matches!(answer, FirstDatagram::Response(_));
        // A reset has 21 bytes at least (RFC 9000 section 10.3).
        assert_eq!(is_answered, length > 21, "{length}");
        assert!(output.len() < length.max(1), "{} bytes to {length}", output.len());
        assert!(!is_answered || output.len() >= 21 && output[0] & 0xc0 == 0x40, "{length}");
    }
    let (mut length, mut rounds) = (1400, 0);
    loop {
        output.clear();
        match server.begin(now, short_packet(&id, length), &mut output) {
            FirstDatagram::Response(_) => length = output.len(),
            _ => break,
        }
        rounds += 1;
    }
    assert!((1..1400).contains(&rounds), "{rounds}");
}

/// RFC 9000 section 21.11: nobody hears at another address of the server how to reset a connection.
#[test]
fn a_reset_is_good_for_the_address_of_the_connection_alone() {
    let (now, mut client, _, _) = connect();
    let id = id_of(&mut client, now);
    let reset_at = |address: &str| {
        let keys = QuicKeys::of(&[9; 32], address).unwrap();
        let ids = ConnectionIds::new(&keys, LoopPlace { process: 0, index: 1, number: 1, of: 2 });
        let own = ids.place(&id).is_some();
        let mut output = Vec::new();
        let server = Server { keys, ids, tls: tls() };
        let is_reset = matches!(server.begin(now, short_packet(&id, 100), &mut output), FirstDatagram::Response(_));
        assert_eq!(is_reset, own, "{address}");
        output
    };
    let resets: Vec<Vec<u8>> =
        (0..2000).map(|number| reset_at(&format!("127.0.0.1:{number}"))).filter(|reset| !reset.is_empty()).collect();
    // One in 64 takes the ID for its own.
    assert!(!resets.is_empty());
    for reset in resets {
        client.receive(now, &reset);
    }
    assert!(!client.connection.is_closed());
    client.receive(now, &reset_at(""));
    let is_reset = |event: &Event| matches!(event, Event::ConnectionLost { reason: ConnectionError::Reset });
    assert!(client.events().iter().any(is_reset));
}

#[test]
fn a_connection_of_this_side_shows_its_address_and_learns_what_was_agreed_on() {
    let (now, server) = (Instant::now(), Server::new());
    let settings = ClientSettings { alpn: vec![b"h3".to_vec()], ..ClientSettings::default() }.build().unwrap();
    assert!(QuicClient::new(&settings, Some("a b"), None, clock).is_err(), "no name of DNS");
    // A connection that has got a Retry packet, after a bit of it was changed.
    let retried = |change: u8| {
        let (crypto, own) = QuicClient::new(&settings, Some("quic.test"), None, clock).unwrap();
        let mut client = client::connect(crypto, connection_settings().transport(), None, now, address(443)).unwrap();
        let pending = server.pending(now, sent(now, &mut client).remove(0));
        let mut output = Vec::new();
        assert!(pending.retry(&mut output).is_some());
        *output.last_mut().unwrap() ^= change;
        client.receive(now, datagram(BytesMut::from(&output[..]), 443), &mut Vec::new());
        (client, own)
    };
    assert!(sent(now, &mut retried(1).0).is_empty(), "a Retry packet with a wrong tag is none");
    let (mut client, own) = retried(0);
    let mut datagrams = sent(now, &mut client).into_iter();
    let mut pending = server.pending(now, datagrams.next().unwrap());
    assert!(pending.is_validated());
    datagrams.for_each(|bytes| pending.receive(now, datagram(bytes, 1000), &mut Vec::new()));
    let (settings, session) = server.settings();
    let Ok(mut other) = pending.accept(now, settings, &mut Vec::new()) else { panic!("the handshake begins") };
    loop {
        let (to_client, to_server) = (sent(now, &mut other), sent(now, &mut client));
        if to_client.is_empty() && to_server.is_empty() {
            break;
        }
        for bytes in to_client {
            client.receive(now, datagram(bytes, 443), &mut Vec::new());
        }
        for bytes in to_server {
            other.receive(now, datagram(bytes, 1000), &mut Vec::new());
        }
    }
    assert!(std::iter::from_fn(|| client.next_event()).any(|event| matches!(event, Event::Connected)));
    let (agreed, theirs) = (own.agreed().unwrap(), session.agreed().unwrap());
    assert_eq!((agreed.alpn.as_deref(), agreed.certificates.len(), agreed.early_data), (Some(&b"h3"[..]), 1, false));
    assert_eq!((agreed.cipher, theirs.early_data), (theirs.cipher, false));
    assert!(client.inner().streams().open(Dir::Bi).is_some());
}
