//! Connections to a server that does what a test wants.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use freerun_proto::h3::qpack::{DecodedField, FieldSink};
use freerun_proto::h3::{H3Config, H3Connection, H3ErrorCode, H3Event, StreamId};
use freerun_proto::role::Role;
use freerun_quic::client;
use freerun_quic::connection::{Event, StreamEvent};
use freerun_quic::connection_id::{ConnectionIds, LoopPlace};
use freerun_quic::datagram::Datagram;
use freerun_quic::hello::HelloProgress;
use freerun_quic::http3::{Http3Streams, machine_id};
use freerun_quic::keys::QuicKeys;
use freerun_quic::pending::{FirstDatagram, PendingConnection};
use freerun_quic::settings::{self, ConnectionSettings};
use freerun_runtime::loops;
use freerun_runtime::net::udp::Datagrams;
use freerun_tls::issue;
use freerun_tls::session::{ClientSettings, QuicClient, QuicServer, ServerSettings};

use super::connection::SilenceLimits;
use super::memory::ReceiveWindow;
use super::socket::QuicSocket;
use super::{EstablishedQuic, Http3Connection, Http3Stream};
use crate::exchange::limits::BLOCK_LIMITS;
use crate::exchange::record::{self, ExchangeFault, ResponseRecord};
use crate::pool::MultiplexedConnection;

fn clock() -> Duration {
    Duration::from_secs(1_800_000_000)
}

/// Fields that nobody looks at.
struct IgnoredFields;

impl FieldSink for IgnoredFields {
    fn field(&mut self, _: DecodedField<'_>) {}
}

/// What a server does with a request whose head has come. `false`: it goes.
type Action = fn(&mut Http3Streams, StreamId) -> bool;

/// The longest life of a server.
const LIFE: Duration = Duration::from_secs(20);

/// A server of one connection.
struct Peer {
    socket: UdpSocket,
    act: Action,
    /// Whether its socket stays when it goes.
    stays_silent: bool,
    streams: Option<Http3Streams>,
}

impl Peer {
    /// Starts the server on a thread of its own.
    fn start(act: Action, stays_silent: bool) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || Peer { socket, act, stays_silent, streams: None }.serve());
        address
    }

    fn serve(mut self) {
        let keys = QuicKeys::of(&[9; 32], "").unwrap();
        let ids = ConnectionIds::new(&keys, LoopPlace { process: 0, index: 0, number: 0, of: 1 });
        let issued = issue::temporary(&["localhost".to_owned()], 1_800_000_000, 86_400).unwrap();
        let shown = vec![issued.certified().unwrap()];
        let tls = ServerSettings { keys: shown, alpn: vec![b"h3".to_vec()], ..ServerSettings::default() };
        let (tls, mut pending) = (tls.build().unwrap(), None::<Box<PendingConnection>>);
        let settings = || {
            let (crypto, _) = QuicServer::new(&tls, clock).unwrap();
            settings::server(&keys, crypto, ConnectionSettings::default().transport())
        };
        let (began, mut buffer) = (Instant::now(), [0; 2048]);
        while began.elapsed() < LIFE {
            let (now, mut output) = (Instant::now(), Vec::new());
            if let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
                let datagram = Datagram { bytes: BytesMut::from(&buffer[..length]), from, to: None, ecn: 0 };
                match (&mut self.streams, &mut pending) {
                    (Some(streams), _) => {
                        let _ = streams.quic.receive(now, datagram, &mut output);
                    }
                    (None, Some(pending)) => pending.receive(now, datagram, &mut output),
                    (None, none) => {
                        let endpoint = settings::endpoint(&keys, &ids, 0);
                        match PendingConnection::begin(endpoint, settings(), now, datagram, &mut output) {
                            FirstDatagram::Pending(begun) => *none = Some(begun),
                            _ => panic!("a connection begins"),
                        }
                    }
                }
            }
            if let Some(whole) = pending.take_if(|pending| pending.progress() == HelloProgress::Whole) {
                let Ok(quic) = whole.accept(now, settings(), &mut output) else { panic!("a handshake") };
                self.streams = Some(Http3Streams::new(quic, machine()));
            }
            if !self.turn(now) {
                while self.stays_silent && began.elapsed() < LIFE {
                    std::thread::sleep(Duration::from_millis(1));
                }
                return;
            }
        }
    }

    fn turn(&mut self, now: Instant) -> bool {
        let Some(streams) = &mut self.streams else { return true };
        streams.quic.advance(now);
        let mut goes_on = true;
        while let Some(event) = streams.quic.next_event() {
            match event {
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = streams.accept(dir) {
                        goes_on &= read(streams, id, self.act);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => goes_on &= read(streams, machine_id(id), self.act),
                // The client has acknowledged a whole answer.
                Event::Stream(StreamEvent::Finished { .. }) => streams.close(now, H3ErrorCode::H3_NO_ERROR, ""),
                Event::ConnectionLost { .. } => return false,
                _ => {}
            }
        }
        streams.write_own();
        streams.follow_window(0, 0);
        let mut output = Vec::new();
        while let Some(transmit) = goes_on.then(|| streams.quic.transmit(now, 1, &mut output)).flatten() {
            self.socket.send_to(&output[..transmit.size], transmit.destination).unwrap();
            output.clear();
        }
        goes_on
    }
}

fn machine() -> H3Connection {
    H3Connection::new(&H3Config {
        role: Role::Server,
        max_streams: 100,
        decoder_table: 0,
        blocked_streams: 0,
        encoder_table: 0,
        encoder_blocked_streams: 0,
        connect_protocol: false,
        limits: BLOCK_LIMITS,
        now: 0,
    })
}

/// Reads what has come on a stream, and acts on heads.
fn read(streams: &mut Http3Streams, id: StreamId, act: Action) -> bool {
    let Some(pieces) = streams.read(id) else { return true };
    let mut goes_on = true;
    for piece in &pieces.bytes {
        let mut rest = &piece[..];
        while let Ok(Some(event)) = streams.machine.receive(id, &mut rest, false, 0, &mut IgnoredFields) {
            if let H3Event::Head { stream, .. } = event {
                goes_on &= act(streams, stream);
            }
        }
    }
    goes_on
}

/// Sends a head, and bytes of a body.
fn answer(streams: &mut Http3Streams, id: StreamId, body: &'static [u8]) {
    let mut out = Vec::new();
    streams.machine.head(id, &mut out, |encoder, out| encoder.status(200, out));
    let head = streams.machine.data(id, body.len()).unwrap();
    out.extend_from_slice(head.as_bytes());
    streams.follow_window(0, 0);
    let (written, _) = streams.write(id, &mut [Bytes::from(out), Bytes::from_static(body)]).unwrap();
    assert!(written > body.len(), "QUIC takes the answer at once");
}

/// A connection to a server.
async fn connect(address: SocketAddr) -> Http3Connection {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_nonblocking(true).unwrap();
    let socket = QuicSocket::new(Datagrams::connected(Arc::new(socket.into())), address);
    let settings = ClientSettings { alpn: vec![b"h3".to_vec()], ..ClientSettings::default() }.build().unwrap();
    let (crypto, _) = QuicClient::new(&settings, None, None, clock).unwrap();
    let window = ReceiveWindow::take().unwrap();
    let mut quic = client::connect(crypto, window.settings().transport(), None, loops::now(), address).unwrap();
    poll_fn(|context| {
        loop {
            let now = loops::now();
            quic.advance(now);
            while let Some(event) = quic.next_event() {
                if let Event::Connected = event {
                    return Poll::Ready(());
                }
            }
            socket.transmit(&mut quic, now, context);
            let mut datagrams = Vec::new();
            if socket.poll_receive(context, |datagram| datagrams.push(datagram)).is_pending() {
                return Poll::Pending;
            }
            for datagram in datagrams {
                let _ = quic.receive(now, datagram, &mut Vec::new());
            }
        }
    })
    .await;
    Http3Connection::begin(EstablishedQuic { quic, socket, window }, None)
}

/// Begins a connection with a request.
async fn begin(act: Action) -> Http3Stream {
    let stream = Http3Stream::alone(connect(Peer::start(act, false)).await).unwrap();
    request(&stream);
    stream
}

/// Sends a request.
fn request(stream: &Http3Stream) {
    let mut out = Vec::new();
    record::request_head(&mut out, true, |head| {
        for (name, value) in [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "/")] {
            head.field(name.as_bytes(), value.as_bytes());
        }
    });
    assert_eq!(stream.try_write(&out, &Bytes::new()).unwrap(), out.len());
}

/// Sends a request, and returns all bytes of the answer's records, and the error that ended them.
async fn ask(act: Action) -> (BytesMut, io::Result<()>) {
    read_all(begin(act).await).await
}

async fn read_all(stream: Http3Stream) -> (BytesMut, io::Result<()>) {
    let mut received = BytesMut::new();
    loop {
        match poll_fn(|context| stream.poll_read(context, &mut received, usize::MAX)).await {
            Ok(0) => return (received, Ok(())),
            Ok(_) => {}
            Err(error) => return (received, Err(error)),
        }
    }
}

/// Runs a test on a loop: the last record of the answer.
fn last_of(act: Action) -> Option<ResponseRecord> {
    let (received, end) = loops::block_on(ask(act)).unwrap();
    assert!(end.is_ok(), "{end:?}");
    records(received).1
}

/// Number of bytes of a body in these records, and the last one.
fn records(mut received: BytesMut) -> (usize, Option<ResponseRecord>) {
    let (mut bytes, mut last) = (0, None);
    while let Some(record) = record::next_response(&mut received).unwrap() {
        if let ResponseRecord::Data(length) = record {
            bytes += received.split_to(length).len();
        }
        last = Some(record);
    }
    (bytes, last)
}

#[test]
fn an_answer_that_ends_is_complete() {
    let last = last_of(|streams, id| {
        answer(streams, id, b"body");
        let _ = streams.machine.end(id);
        streams.finish(id);
        true
    });
    assert_eq!(last, Some(ResponseRecord::End));
}

/// The server closes the connection when the answer is acknowledged, of which nobody has read anything.
#[test]
fn an_answer_that_has_come_is_whole_though_the_connection_has_ended() {
    static BODY: [u8; 200_000] = [7; 200_000];
    let received = loops::block_on(async {
        let stream = begin(|streams, id| {
            answer(streams, id, &BODY);
            let _ = streams.machine.end(id);
            streams.finish(id);
            true
        })
        .await;
        while !stream.is_over() {
            freerun_runtime::timer::sleep(Duration::from_millis(1)).await;
        }
        read_all(stream).await
    });
    let (received, end) = received.unwrap();
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(records(received), (BODY.len(), Some(ResponseRecord::End)));
}

#[test]
fn a_request_that_was_not_looked_at_is_refused() {
    let last = last_of(|streams, id| {
        streams.stop(id, H3ErrorCode::H3_REQUEST_REJECTED);
        streams.reset(id, H3ErrorCode::H3_REQUEST_REJECTED);
        true
    });
    assert_eq!(last, Some(ResponseRecord::Broken(ExchangeFault::Refused(0x10b))));
}

#[test]
fn an_answer_that_is_reset_has_the_code() {
    let last = last_of(|streams, id| {
        answer(streams, id, b"a part");
        streams.reset(id, H3ErrorCode::H3_INTERNAL_ERROR);
        true
    });
    assert_eq!(last, Some(ResponseRecord::Broken(ExchangeFault::Reset(0x102))));
}

#[test]
fn an_error_that_the_server_closes_the_connection_with_is_told() {
    let last = last_of(|streams, id| {
        answer(streams, id, b"a part");
        streams.close(Instant::now(), H3ErrorCode::H3_EXCESSIVE_LOAD, "too\nmuch");
        true
    });
    let Some(ResponseRecord::Broken(ExchangeFault::Invalid(text))) = last else { panic!("{last:?}") };
    assert_eq!(text, "upstream closed connection with error H3_EXCESSIVE_LOAD (0x107): \"too much\"");
}

#[test]
fn a_broken_rule_ends_the_connection_and_says_which() {
    let last = last_of(|streams, id| {
        // A frame of a body before the head.
        streams.write(id, &mut [Bytes::from_static(&[0, 1, 7])]).unwrap();
        true
    });
    let Some(ResponseRecord::Broken(ExchangeFault::Invalid(text))) = last else { panic!("{last:?}") };
    assert!(text.starts_with("upstream broke the rules of HTTP/3: "), "{text}");
    assert!(text.ends_with("(H3_FRAME_UNEXPECTED)"), "{text}");
}

/// Limits that a test need not wait for.
const SHORT: SilenceLimits = SilenceLimits { ping: 100, doubt: 200, loss: 400 };

/// Nothing tells that the server has gone. Requests that come later go elsewhere before those that were sent fail.
#[test]
fn a_server_that_becomes_silent_gets_no_further_request_and_is_given_up() {
    let received = loops::block_on(async {
        let connection = Arc::new(connect(Peer::start(|_, _| false, true)).await);
        connection.limit_silence(SHORT);
        let stream = Http3Stream::alone(connection.clone()).unwrap();
        request(&stream);
        while connection.streams() > 0 {
            freerun_runtime::timer::sleep(Duration::from_millis(1)).await;
        }
        assert!(stream.is_over() && Http3Stream::alone(connection).is_some(), "the request goes on");
        read_all(stream).await
    });
    let (received, end) = received.unwrap();
    assert_eq!((received.len(), end.unwrap_err().kind()), (0, io::ErrorKind::TimedOut));
}

/// The silence of a server that nobody has asked anything says nothing about it.
#[test]
fn a_connection_that_was_idle_for_long_takes_the_next_request() {
    let received = loops::block_on(async {
        let act: Action = |streams, id| {
            answer(streams, id, b"body");
            let _ = streams.machine.end(id);
            streams.finish(id);
            true
        };
        let connection = Arc::new(connect(Peer::start(act, false)).await);
        connection.limit_silence(SHORT);
        freerun_runtime::timer::sleep(Duration::from_millis(2 * SHORT.loss)).await;
        let stream = Http3Stream::alone(connection).unwrap();
        request(&stream);
        read_all(stream).await
    });
    let (received, end) = received.unwrap();
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(records(received), (4, Some(ResponseRecord::End)));
}

#[test]
fn a_connection_to_a_server_that_has_gone_ends_with_the_error_of_the_system() {
    let (received, end) = loops::block_on(ask(|_, _| false)).unwrap();
    assert_eq!((received.len(), end.unwrap_err().kind()), (0, io::ErrorKind::ConnectionRefused));
}
