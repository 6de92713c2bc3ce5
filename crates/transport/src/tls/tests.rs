use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use freerun_runtime::loops;
use freerun_tls::load::{CertifiedKey, Chain, Key};
use freerun_tls::session::{
    ClientSettings, Event, ServerSettings, Session, SessionCache, Sessions, TicketKeys, Version,
};

use crate::Transport;

const CERTIFICATE: &str = include_str!("../../../tls/tests/fixtures/ec.crt");
const KEY: &str = include_str!("../../../tls/tests/fixtures/ec.key");

/// A time at which the sessions are valid.
const NOW: Duration = Duration::from_secs(1_800_000_000);

/// Two sessions that have shaken hands, the server's first, and the bytes that the client has not consumed.
fn sessions(version: Version) -> (Session, Session, Vec<u8>) {
    let chain = Chain::from_pem(CERTIFICATE.as_bytes()).unwrap();
    let key = Key::from_pem::<&[u8]>(KEY.as_bytes(), &[]).unwrap();
    let keys = vec![CertifiedKey::new(&chain, &key).unwrap()];
    let settings = ServerSettings { keys, versions: vec![version], ..ServerSettings::default() };
    let tickets = TicketKeys::random(Duration::from_secs(100), NOW).ok();
    let resumed =
        Sessions { cache: SessionCache::None, tickets, timeout: Duration::from_secs(100), figures: Default::default() };
    let config = settings.build().unwrap().with_sessions(&resumed, b"");
    let mut server = Session::new(&config).unwrap();
    let config = ClientSettings::default().build().unwrap();
    let mut client = Session::client(&config, NOW, Some("localhost"), None).unwrap();
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
fn pair(version: Version) -> (Transport, Transport) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (server, client, unread) = sessions(version);
    let end = |stream: UnixStream, session, received| {
        stream.set_nonblocking(true).unwrap();
        let transport = Transport::plain(stream.into()).into_tls();
        transport.tls().unwrap().establish(Box::new(session), received);
        transport
    };
    (end(ours, server, Vec::new()), end(theirs, client, unread))
}

/// The server's end of a connection with TLS, the client's session, and its socket.
fn with_raw_client() -> (Transport, Session, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (server, client, _) = sessions(Version::Tls12);
    let transport = Transport::plain(ours.into()).into_tls();
    transport.tls().unwrap().establish(Box::new(server), Vec::new());
    (transport, client, theirs)
}

fn numbers(size: usize) -> Vec<u8> {
    (0..size).map(|number| (number % 251) as u8).collect()
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
        for version in [Version::Tls12, Version::Tls13] {
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
        let (server, client) = pair(Version::Tls13);
        let text = numbers(10_000_000);
        let mut sent = 0;
        while let Ok(n) = server.try_write(&[IoSlice::new(&text[sent..])], false) {
            sent += n;
        }
        assert!(!server.has_room().unwrap() && server.certain_room() == 0);
        // Everything that was reported can be read, and only then the rest leaves.
        let mut read = Vec::new();
        let mut piece = Vec::with_capacity(20_000);
        while client.try_read(&mut piece).is_ok_and(|n| n > 0) {
            read.append(&mut piece);
        }
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
fn a_stream_with_nothing_but_messages_of_the_protocol_is_quiet_and_holds_no_buffer() {
    loops::block_on(async {
        let (server, client) = pair(Version::Tls13);
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
        assert!(poll_fn(|context| std::task::Poll::Ready(client.poll_readable(context).is_ready())).await);
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
