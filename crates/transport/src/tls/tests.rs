use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use freerun_runtime::loops;
use freerun_tls::load::{CertificateKey, CertifiedKey, Chain};
use freerun_tls::session::{
    ClientCertificates, ClientSettings, Event, ServerSettings, SessionCache, SessionSettings, TicketKeys, TlsSession,
    TlsVersion,
};

use crate::Transport;

const CERTIFICATE: &str = include_str!("../../../tls/tests/fixtures/ec.crt");
const KEY: &str = include_str!("../../../tls/tests/fixtures/ec.key");

/// A time at which the sessions are valid.
const NOW: Duration = Duration::from_secs(1_800_000_000);

/// Two sessions that have not begun, the server's first.
fn beginnings(version: TlsVersion) -> (TlsSession, TlsSession) {
    let server = ServerSettings { keys: vec![certificate(1)], versions: vec![version], ..ServerSettings::default() };
    begun(server, ClientSettings::default())
}

/// The same with many long tickets: they have the client's certificates, and the name of a protocol.
fn beginnings_with_many_tickets() -> (TlsSession, TlsSession) {
    let alpn = vec![vec![b'a'; 100]];
    let server = ServerSettings {
        keys: vec![certificate(1)],
        tickets: usize::MAX,
        client_certificates: Some(ClientCertificates::default()),
        alpn: alpn.clone(),
        ..ServerSettings::default()
    };
    begun(server, ClientSettings { certificate: Some(certificate(2)), alpn, ..ClientSettings::default() })
}

/// A certificate, so many times in its chain.
fn certificate(times: usize) -> CertifiedKey {
    let chain = Chain::from_pem(CERTIFICATE.repeat(times).as_bytes()).unwrap();
    let key = CertificateKey::from_pem::<&[u8]>(KEY.as_bytes(), &[]).unwrap();
    CertifiedKey::new(&chain, &key).unwrap()
}

fn begun(server: ServerSettings, client: ClientSettings) -> (TlsSession, TlsSession) {
    let tickets = TicketKeys::random(Duration::from_secs(100), NOW).ok();
    let resumed = SessionSettings {
        cache: SessionCache::None,
        tickets,
        timeout: Duration::from_secs(100),
        figures: Default::default(),
    };
    let server = TlsSession::new(&server.build().unwrap().with_sessions(&resumed, b"")).unwrap();
    (server, TlsSession::client(&client.build().unwrap(), NOW, Some("localhost"), None).unwrap())
}

/// Two sessions that have shaken hands, the server's first, and the bytes that the client has not consumed.
fn sessions(version: TlsVersion) -> (TlsSession, TlsSession, Vec<u8>) {
    shaken(beginnings(version))
}

/// The same for two sessions that have not begun.
fn shaken((mut server, mut client): (TlsSession, TlsSession)) -> (TlsSession, TlsSession, Vec<u8>) {
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let (mut done, mut known) = (false, false);
    for _ in 0..8 {
        if !known {
            let progress = client.step(NOW, &mut to_client, &mut to_server, &mut Vec::new(), 0);
            to_client.drain(..progress.consumed);
            known = progress.event == Event::Established;
        }
        if !done {
            let progress = server.step(NOW, &mut to_server, &mut to_client, &mut Vec::new(), 0);
            to_server.drain(..progress.consumed);
            done = progress.event == Event::Established;
        }
    }
    assert!(done && known, "a handshake");
    assert!(to_server.is_empty());
    (server, client, to_client)
}

/// Both ends of a connection with TLS, the server's first.
fn pair(version: TlsVersion) -> (Transport, Transport) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (server, client, unread) = sessions(version);
    (secured(ours, server, Vec::new()), secured(theirs, client, unread))
}

/// A connection with this session, which has not consumed these bytes.
fn secured(stream: UnixStream, session: TlsSession, received: Vec<u8>) -> Transport {
    stream.set_nonblocking(true).unwrap();
    let transport = Transport::plain(stream.into()).into_tls();
    transport.tls().unwrap().establish(Box::new(session), received);
    transport
}

/// Whether there is something to read at once.
async fn is_readable(transport: &Transport) -> bool {
    poll_fn(|context| Poll::Ready(transport.poll_readable(context).is_ready())).await
}

/// The server's end of a connection with TLS, the client's session, and its socket.
fn with_raw_client() -> (Transport, TlsSession, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (server, client, _) = sessions(TlsVersion::Tls12);
    let transport = Transport::plain(ours.into()).into_tls();
    transport.tls().unwrap().establish(Box::new(server), Vec::new());
    (transport, client, theirs)
}

fn numbers(size: usize) -> Vec<u8> {
    (0..size).map(|number| (number % 251) as u8).collect()
}

/// Writes as much of the bytes as the socket takes, and tells how many they are.
fn filled(to: &Transport, bytes: &[u8]) -> usize {
    let mut sent = 0;
    while let Ok(n) = to.try_write(&[IoSlice::new(&bytes[sent..])], false) {
        sent += n;
    }
    sent
}

/// Appends all that can be read at present.
fn drain(from: &Transport, read: &mut Vec<u8>) {
    let mut piece = Vec::with_capacity(20_000);
    while from.try_read(&mut piece).is_ok_and(|n| n > 0) {
        read.append(&mut piece);
    }
}

#[test]
fn before_a_session_bytes_go_through_as_they_are() {
    loops::block_on(async {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let transport = Transport::plain(ours.into()).into_tls();
        assert!(transport.tls().is_some() && transport.established().is_none());
        peer.write_all(b"plain").unwrap();
        let mut buffer = Vec::with_capacity(16);
        assert_eq!(transport.read(&mut buffer).await.unwrap(), 5);
        assert_eq!(transport.try_write(&[IoSlice::new(b"answer")], false).unwrap(), 6);
        drop(transport);
        let mut answer = Vec::new();
        peer.read_to_end(&mut answer).unwrap();
        assert_eq!((&buffer[..], &answer[..]), (&b"plain"[..], &b"answer"[..]), "and nothing is said at the end");
    })
    .unwrap();
}

#[test]
fn much_goes_both_ways_in_any_pieces_and_waits_for_a_reader() {
    loops::block_on(async {
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            let (server, client) = pair(version);
            let text = numbers(3_000_000);
            let (mut sent, mut read, mut was_full) = (0, Vec::new(), false);
            while read.len() < text.len() {
                // A head and a body, as responses have them.
                let rest = &text[sent..];
                let (head, body) = rest.split_at(rest.len().min(100));
                match server.try_write(&[IoSlice::new(head), IoSlice::new(body)], true) {
                    Ok(n) => sent += n,
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                        was_full = true;
                    }
                }
                let mut piece = Vec::with_capacity(70_001);
                match client.try_read(&mut piece) {
                    Ok(_) => read.extend_from_slice(&piece),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            assert!(was_full && sent == text.len() && read == text, "{version:?}");
        }
    })
    .unwrap();
}

#[test]
fn a_batch_that_is_sent_in_part_is_reported_when_all_of_it_has_left() {
    loops::block_on(async {
        let (server, client) = pair(TlsVersion::Tls13);
        let text = numbers(10_000_000);
        let sent = filled(&server, &text);
        assert!(!server.has_room().unwrap() && server.certain_room() == 0);
        // Everything that was reported can be read, and only then the rest leaves.
        let mut read = Vec::new();
        drain(&client, &mut read);
        assert!(read.len() >= sent && read[..] == text[..read.len()]);
        let reported = server.try_write(&[IoSlice::new(&text[sent..sent + 1000])], false).unwrap();
        assert_eq!(reported, 1000, "the bytes had been encrypted before");
    })
    .unwrap();
}

#[test]
fn an_end_is_said_once_and_a_cut_stream_has_none() {
    loops::block_on(async {
        for orderly in [true, false] {
            let (server, mut client, mut socket) = with_raw_client();
            server.try_write(&[IoSlice::new(b"last words")], false).unwrap();
            if !orderly {
                server.reset_on_close();
            }
            assert!(server.end_session(), "there is room");
            server.shutdown_write();
            drop(server);
            let mut received = Vec::new();
            socket.read_to_end(&mut received).unwrap();
            let mut plaintext = Vec::new();
            let mut events = Vec::new();
            while !received.is_empty() {
                let progress = client.step(NOW, &mut received, &mut Vec::new(), &mut plaintext, 100);
                received.drain(..progress.consumed);
                events.push(progress.event);
            }
            assert_eq!(plaintext, b"last words");
            assert_eq!(events.contains(&Event::PeerClosed), orderly);
        }
    })
    .unwrap();
}

#[test]
fn an_end_waits_for_room_while_the_other_direction_is_read() {
    loops::block_on(async {
        let (server, mut client, mut socket) = with_raw_client();
        socket.set_nonblocking(true).unwrap();
        let text = numbers(10_000_000);
        while server.try_write(&[IoSlice::new(&text)], false).is_ok() {}
        assert!(!server.end_session(), "there is no room");
        server.shutdown_write();
        let mut buffer = BytesMut::with_capacity(10);
        let mut received = Vec::new();
        poll_fn(|context| {
            assert!(server.poll_read_bytes(context, &mut buffer, 10).is_pending());
            match socket.read_to_end(&mut received) {
                Ok(_) => Poll::Ready(()),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    Poll::Pending
                }
            }
        })
        .await;
        let (mut start, mut last) = (0, Event::NeedsInput);
        while start < received.len() {
            let progress = client.step(NOW, &mut received[start..], &mut Vec::new(), &mut Vec::new(), usize::MAX);
            assert_ne!(progress.event, Event::NeedsInput, "a record was cut");
            start += progress.consumed;
            last = progress.event;
        }
        assert_eq!(last, Event::PeerClosed);
    })
    .unwrap();
}

#[test]
fn a_stream_with_nothing_but_messages_of_the_protocol_is_quiet_and_holds_no_buffer() {
    loops::block_on(async {
        let (server, client) = pair(TlsVersion::Tls13);
        server.watch().unwrap();
        client.watch().unwrap();
        assert!(client.tls().unwrap().has_something(), "tickets that the server has sent with the handshake");
        assert!(client.is_quiet(true) && !client.tls().unwrap().has_something());
        {
            let state = client.tls().unwrap().state.borrow();
            assert_eq!((state.received.capacity(), state.unsent.queued()), (0, 0));
        }
        server.try_write(&[IoSlice::new(b"more")], false).unwrap();
        assert!(!client.is_quiet(true));
        let mut buffer = Vec::with_capacity(2);
        assert_eq!(client.try_read(&mut buffer).unwrap(), 2);
        // What had no room is there without the socket.
        assert!(is_readable(&client).await);
        assert!(!client.is_quiet(true));
        buffer.clear();
        assert_eq!(client.try_read(&mut buffer).unwrap(), 2);
        assert!(client.is_quiet(true));
    })
    .unwrap();
}

#[test]
fn all_records_that_are_there_are_read_at_once_and_a_failure_behind_them_is_told_after() {
    loops::block_on(async {
        let (server, mut client, mut socket) = with_raw_client();
        let mut records = Vec::new();
        for text in [&b"head"[..], b"and ", b"body"] {
            let mut record = vec![0; 300];
            let encrypted = client.encrypt(text, &mut record).unwrap();
            assert_eq!(encrypted.taken, 4);
            records.extend_from_slice(&record[..encrypted.written]);
        }
        records.extend_from_slice(b"\x17\x03\x03\x00\x20this is no record of the session");
        socket.write_all(&records).unwrap();
        let mut buffer = Vec::with_capacity(100);
        assert_eq!(server.read(&mut buffer).await.unwrap(), 12);
        assert_eq!(buffer, b"headand body");
        assert_eq!(server.read(&mut buffer).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(server.read(&mut buffer).await.unwrap(), 0);
    })
    .unwrap();
}

#[test]
fn what_the_peer_sends_after_our_end_is_read_as_it_comes() {
    loops::block_on(async {
        let (server, client) = pair(TlsVersion::Tls13);
        server.shutdown_write();
        let mut buffer = Vec::with_capacity(100);
        for piece in [&b"late "[..], b"words"] {
            buffer.clear();
            client.try_write(&[IoSlice::new(piece)], false).unwrap();
            server.read(&mut buffer).await.unwrap();
            assert_eq!(buffer, piece);
        }
        drop(client);
        assert_eq!(server.read(&mut buffer).await.unwrap(), 0);
    })
    .unwrap();
}

#[test]
fn a_peer_that_sends_much_without_plaintext_does_not_hold_up_the_loop() {
    loops::block_on(async {
        let (_, session, tickets) = shaken(beginnings_with_many_tickets());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&theirs, 1 << 20).unwrap();
        let client = secured(ours, session, Vec::new());
        let sent = theirs.write(&tickets).unwrap();
        let mut buffer = BytesMut::with_capacity(10);
        let mut turns = 0;
        while freerun_runtime::net::can_be_read(client.socket()) {
            turns += 1;
            let polled = poll_fn(|context| Poll::Ready(client.poll_read_bytes(context, &mut buffer, 10))).await;
            assert!(polled.is_pending(), "{polled:?}");
        }
        assert!(turns > 1, "{sent} bytes in {turns} turns");
        // The last turn has found nothing more, or asks for another one itself.
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.read_bytes(&mut buffer, 10).await.unwrap(), 0);
    })
    .unwrap();
}

#[test]
fn a_failure_that_is_not_told_yet_is_something_to_read() {
    loops::block_on(async {
        let (server, mut client, mut socket) = with_raw_client();
        let mut records = vec![0; 300];
        let encrypted = client.encrypt(b"answer", &mut records).unwrap();
        records.truncate(encrypted.written);
        records.extend_from_slice(b"\x17\x03\x03\x00\x20this is no record of the session");
        socket.write_all(&records).unwrap();
        let mut buffer = Vec::with_capacity(100);
        assert_eq!(server.read(&mut buffer).await.unwrap(), 6);
        // Nothing is left of the received bytes: only the session knows.
        assert!(is_readable(&server).await && !server.is_quiet(false) && !server.is_quiet(true));
    })
    .unwrap();
}

#[test]
fn an_end_that_came_with_the_handshake_is_something_to_read() {
    loops::block_on(async {
        let (mut server, mut client) = beginnings(TlsVersion::Tls13);
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        for established in [false, true] {
            let progress = client.step(NOW, &mut to_client, &mut to_server, &mut Vec::new(), 0);
            to_client.drain(..progress.consumed);
            assert_eq!(progress.event == Event::Established, established);
            client.close(&mut to_server);
            let progress = server.step(NOW, &mut to_server, &mut to_client, &mut Vec::new(), 0);
            to_server.drain(..progress.consumed);
            assert_eq!(progress.event == Event::Established, established);
        }
        assert!(to_server.is_empty());
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let transport = secured(ours, server, Vec::new());
        assert!(is_readable(&transport).await && !transport.is_quiet(false));
        let mut buffer = Vec::with_capacity(10);
        assert_eq!(transport.try_read(&mut buffer).unwrap(), 0);
    })
    .unwrap();
}

#[test]
fn a_transport_moves_with_the_bytes_that_wait_in_it() {
    loops::block_on(async {
        let (server, client) = pair(TlsVersion::Tls12);
        // What the server has no room for, and what it cannot send, goes with it.
        client.try_write(&[IoSlice::new(b"question")], false).unwrap();
        let mut buffer = Vec::with_capacity(3);
        server.read(&mut buffer).await.unwrap();
        let text = numbers(3_000_000);
        let mut sent = filled(&server, &text);
        assert!(server.tls().unwrap().state.borrow().unsent.queued() > 0);
        let server = server.moved();
        assert!(!server.is_quiet(true));
        let mut rest = Vec::with_capacity(100);
        server.read(&mut rest).await.unwrap();
        assert_eq!((&buffer[..], &rest[..]), (&b"que"[..], &b"stion"[..]));
        let mut read = Vec::new();
        while read.len() < text.len() {
            if let Ok(n) = server.try_write(&[IoSlice::new(&text[sent..])], false) {
                sent += n;
            }
            let mut piece = Vec::with_capacity(70_000);
            if client.try_read(&mut piece).is_ok() {
                read.append(&mut piece);
            }
        }
        assert!(sent == text.len() && read == text);
    })
    .unwrap();
}

#[test]
fn a_read_waits_for_the_rest_of_a_record_and_behind_tickets() {
    loops::block_on(async {
        let (mut server, session, tickets) = sessions(TlsVersion::Tls13);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let client = secured(ours, session, Vec::new());
        let mut record = vec![0; 300];
        let encrypted = server.encrypt(b"answer", &mut record).unwrap();
        let (first, last) = record[..encrypted.written].split_at(10);
        let mut pieces = [&tickets[..], first, last].into_iter();
        let mut buffer = BytesMut::with_capacity(100);
        let mut pending = 0;
        let n = poll_fn(|context| {
            let polled = client.poll_read_by(context, || Ok((client.try_read_bytes(&mut buffer, 100)?, 100)));
            if polled.is_pending()
                && let Some(piece) = pieces.next()
            {
                pending += 1;
                theirs.write_all(piece).unwrap();
            }
            polled
        });
        assert_eq!(n.await.unwrap(), 6);
        assert_eq!((&buffer[..], pending), (&b"answer"[..], 3));
    })
    .unwrap();
}

#[test]
fn reading_sends_what_a_writer_waits_for_and_the_writer_is_told() {
    loops::block_on(async {
        let (server, client) = pair(TlsVersion::Tls13);
        let text = numbers(10_000_000);
        let sent = filled(&server, &text);
        let mut read = Vec::new();
        drain(&client, &mut read);
        assert!(read.len() < text.len());
        client.try_write(&[IoSlice::new(b"go on")], false).unwrap();
        // The rest of the writer's batch leaves with the read.
        let mut buffer = Vec::with_capacity(10);
        assert_eq!(server.read(&mut buffer).await.unwrap(), 5);
        assert_eq!(server.tls().unwrap().state.borrow().unsent.queued(), 0);
        let reported = poll_fn(|context| server.poll_write(context, &text[sent..sent + 1000])).await.unwrap();
        assert_eq!(reported, 1000, "the bytes had been encrypted before");
        drain(&client, &mut read);
        assert!(read.len() >= sent + 1000 && read[..] == text[..read.len()]);
    })
    .unwrap();
}

#[test]
fn garbage_ends_the_stream_with_an_alert() {
    loops::block_on(async {
        let (server, mut client, mut socket) = with_raw_client();
        socket.write_all(b"\x17\x03\x03\x00\x20this is no record of the session").unwrap();
        let mut buffer = Vec::with_capacity(100);
        let error = server.read(&mut buffer).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(server.try_read(&mut buffer).unwrap(), 0, "nothing comes after that");
        drop(server);
        let mut received = Vec::new();
        socket.read_to_end(&mut received).unwrap();
        let progress = client.step(NOW, &mut received, &mut Vec::new(), &mut Vec::new(), 0);
        assert!(matches!(progress.event, Event::Failed(_)), "{:?}", progress.event);
    })
    .unwrap();
}
