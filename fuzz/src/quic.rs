//! Datagrams of QUIC: the first ones of strangers, and a conversation whose datagrams are lost, damaged, cut, repeated and
//! come in any order.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use freerun_quic::connection::QuicConnection;
use freerun_quic::connection_id::{self, ConnectionIds, LoopPlace};
use freerun_quic::datagram::Datagram;
use freerun_quic::hello::HelloProgress;
use freerun_quic::keys::QuicKeys;
use freerun_quic::packet::PacketHead;
use freerun_quic::pending::{FirstDatagram, PendingConnection};
use freerun_quic::settings::{self, ConnectionSettings};
use freerun_tls::issue;
use freerun_tls::session::{QuicServer, ServerConfig, ServerSettings, quic_without_session};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

use crate::target::Target;
use crate::targets::owned;

/// Runs [`conversation`].
pub static QUIC: Target = Target {
    name: "quic",
    body: conversation,
    seeds: || {
        owned(&[
            b"" as &[u8],
            b"\x00\x00\x00\x00\x00\x00",
            b"\x01\x02\x03\x04\x05\x06\x07\x00\x01\x02\x03\x04\x05",
            b"\x10\x20\x30\x40\x50\x60\x70\x80\x90\xa0\xb0\xc0\xd0\xe0\xf0",
            b"\x03\xff\x03\x00\x04\x05\x02\x01\x00\x00\x00\x00\x06\x07\x01\x02",
        ])
    },
    words: &[b"\x00", b"\x01", b"\x02", b"\x03", b"\x04", b"\x05", b"\x06", b"\x07", b"\x00\x00\x00\x00"],
};

/// The time of TLS, since 1970.
const NOW: Duration = Duration::from_secs(1_800_000_000);

/// The most datagrams of a conversation.
const MOST: usize = 400;

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
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// The parts that all conversations have in common.
struct Common {
    client: ClientConfig,
    tls: ServerConfig,
    keys: QuicKeys,
}

fn common() -> &'static Common {
    static MADE: OnceLock<Common> = OnceLock::new();
    MADE.get_or_init(|| {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer))
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h3".to_vec()];
        let issued = issue::temporary(&["quic.test".to_owned()], 1_800_000_000, 86_400).expect("a certificate");
        let settings = ServerSettings {
            keys: vec![issued.certified().expect("a pair")],
            alpn: vec![b"h3".to_vec()],
            ..ServerSettings::default()
        };
        Common {
            client: ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).expect("a suite for QUIC"))),
            tls: settings.build().expect("settings"),
            keys: QuicKeys::of(&[7; 32], "").expect("keys"),
        }
    })
}

/// The server's side of a conversation.
enum ServerSide {
    Nothing,
    Pending(Box<PendingConnection>),
    Open(Box<QuicConnection>),
    Failed,
}

struct Conversation {
    now: Instant,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    client: Connection,
    server: ServerSide,
    to_server: VecDeque<BytesMut>,
    to_client: VecDeque<BytesMut>,
    sent: usize,
}

fn address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 443))
}

impl Conversation {
    fn new() -> Conversation {
        let (now, common) = (Instant::now(), common());
        let mut endpoint = Endpoint::new(settings::endpoint(&common.keys, &ids(), 1), None, true, None);
        let (handle, client) =
            endpoint.connect(now, common.client.clone(), address(), "quic.test").expect("a connection");
        let (to_server, to_client) = Default::default();
        Conversation { now, endpoint, handle, client, server: ServerSide::Nothing, to_server, to_client, sent: 0 }
    }

    /// Has both sides queue what they send now.
    fn collect(&mut self) {
        let mut output = Vec::new();
        while self.sent < MOST && self.client.poll_transmit(self.now, 1, &mut output).is_some() {
            self.to_server.push_back(BytesMut::from(&output[..]));
            output.clear();
            self.sent += 1;
        }
        while let Some(event) = self.client.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.client.handle_event(event);
            }
        }
        if let ServerSide::Open(server) = &mut self.server {
            while let Some(transmit) = server.transmit(self.now, 4, &mut output) {
                let segment = transmit.segment_size.unwrap_or(transmit.size);
                self.to_client.extend(output[..transmit.size].chunks(segment).map(BytesMut::from));
                output.clear();
                self.sent += 1;
                if self.sent >= MOST {
                    break;
                }
            }
        }
    }

    fn give_server(&mut self, bytes: BytesMut) {
        let (now, common) = (self.now, common());
        let datagram = Datagram { bytes, from: address(), to: None, ecn: 0 };
        let mut output = Vec::new();
        match std::mem::replace(&mut self.server, ServerSide::Failed) {
            ServerSide::Nothing => {
                let before = settings::server(
                    &common.keys,
                    quic_without_session().expect("keys of first packets"),
                    ConnectionSettings::default().transport(),
                );
                let endpoint = settings::endpoint(&common.keys, &ids(), 0);
                self.server = match PendingConnection::begin(endpoint, before, now, datagram, &mut output) {
                    FirstDatagram::Pending(pending) => ServerSide::Pending(pending),
                    FirstDatagram::Response(_) | FirstDatagram::Nothing => ServerSide::Nothing,
                };
            }
            ServerSide::Pending(mut pending) => {
                pending.receive(now, datagram, &mut output);
                self.server = ServerSide::Pending(pending);
            }
            ServerSide::Open(mut server) => {
                let _ = server.receive(now, datagram, &mut output);
                while server.next_event().is_some() {}
                self.server = ServerSide::Open(server);
            }
            ServerSide::Failed => {}
        }
        let is_whole =
            matches!(&self.server, ServerSide::Pending(pending) if pending.progress() == HelloProgress::Whole);
        if is_whole && let ServerSide::Pending(pending) = std::mem::replace(&mut self.server, ServerSide::Failed) {
            let (crypto, _) = QuicServer::new(&common.tls, || NOW).expect("TLS 1.3");
            let settings = settings::server(&common.keys, crypto, ConnectionSettings::default().transport());
            if let Ok(open) = pending.accept(now, settings, &mut output) {
                self.server = ServerSide::Open(open);
            }
        }
    }

    fn give_client(&mut self, bytes: BytesMut) {
        let mut output = Vec::new();
        if let Some(DatagramEvent::ConnectionEvent(_, event)) =
            self.endpoint.handle(self.now, address(), None, None, bytes, &mut output)
        {
            self.client.handle_event(event);
        }
        while self.client.poll().is_some() {}
    }

    fn wait(&mut self) {
        self.now += Duration::from_millis(50);
        self.client.handle_timeout(self.now);
        if let ServerSide::Open(server) = &mut self.server {
            server.advance(self.now);
        }
    }
}

fn ids() -> ConnectionIds {
    ConnectionIds::new(&common().keys, LoopPlace { process: 0, number: 0, index: 0, of: 1 })
}

/// A client and a server exchange datagrams. Each byte of the input says what happens to the next ones. There is no panic,
/// the server keeps what it keeps within bounds, and if nothing was lost or damaged, the handshake is complete at the end.
pub fn conversation(data: &[u8]) {
    strangers(data);
    let mut talk = Conversation::new();
    let mut is_faithful = true;
    for (number, byte) in data.iter().copied().take(64).enumerate() {
        talk.collect();
        let to_server = number % 2 == 0;
        let queue = if to_server { &mut talk.to_server } else { &mut talk.to_client };
        let (kind, detail) = (byte & 7, usize::from(byte >> 3));
        let Some(mut one) = queue.pop_front() else {
            talk.wait();
            continue;
        };
        match kind {
            // It is lost.
            1 => {
                is_faithful = false;
                continue;
            }
            // It comes twice.
            2 => queue.push_back(one.clone()),
            // It comes late.
            3 => {
                queue.push_back(one);
                continue;
            }
            // It is damaged.
            4 => {
                is_faithful = false;
                let at = detail * one.len() / 32;
                one[at] ^= 1 << (detail % 8);
            }
            // It is cut.
            5 => {
                is_faithful = false;
                one.truncate(detail * one.len() / 32);
            }
            // The client does something.
            6 => act(&mut talk.client, detail, talk.now),
            _ => {}
        }
        if to_server { talk.give_server(one) } else { talk.give_client(one) }
    }
    if !is_faithful || talk.sent >= MOST {
        return;
    }
    for _ in 0..40 {
        talk.collect();
        while let Some(one) = talk.to_server.pop_front() {
            talk.give_server(one);
        }
        talk.collect();
        while let Some(one) = talk.to_client.pop_front() {
            talk.give_client(one);
        }
        if talk.sent >= MOST || talk.client.is_closed() || !talk.client.is_handshaking() {
            break;
        }
        talk.wait();
    }
    assert!(
        talk.sent >= MOST || talk.client.is_closed() || !talk.client.is_handshaking(),
        "nothing was lost, and there is no connection"
    );
}

/// Something that a client may do at any time.
fn act(client: &mut Connection, detail: usize, now: Instant) {
    match detail % 6 {
        0 => client.ping(),
        1 => {
            if let Some(id) = client.streams().open(Dir::Bi) {
                let _ = client.send_stream(id).write(&[detail as u8; 300]);
            }
        }
        2 => {
            if let Some(id) = client.streams().open(Dir::Uni) {
                let _ = client.send_stream(id).write_chunks(&mut [Bytes::from_static(b"\x00\x04\x00")]);
                let _ = client.send_stream(id).finish();
            }
        }
        3 if !client.is_handshaking() => client.force_key_update(),
        4 => client.path_changed(now),
        5 if detail > 24 => client.close(now, 0_u32.into(), Bytes::new()),
        _ => {}
    }
}

/// Bytes of strangers: no panic, and nothing begins with a datagram that is too short.
fn strangers(data: &[u8]) {
    let head = PacketHead::parse(data, connection_id::LENGTH);
    if let Some(head) = head {
        let _ = ids().place(head.destination);
        assert!(head.destination.len() <= data.len());
    }
    let common = common();
    let before = settings::server(
        &common.keys,
        quic_without_session().expect("keys of first packets"),
        ConnectionSettings::default().transport(),
    );
    let datagram = Datagram { bytes: BytesMut::from(data), from: address(), to: None, ecn: 0 };
    let endpoint = settings::endpoint(&common.keys, &ids(), 0);
    let begun = PendingConnection::begin(endpoint, before, Instant::now(), datagram, &mut Vec::new());
    assert!(data.len() >= 1200 || !matches!(begun, FirstDatagram::Pending(_)));
}
