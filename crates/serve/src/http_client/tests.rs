//! Exchanges with real sockets: servers that answer well, strangely, slowly or not at all.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use freerun_proto::response::ReplyError;
use freerun_runtime::files::{FileSystem, SocketPaths};
use freerun_runtime::loops::{LoopHandle, block_on};
use freerun_runtime::pool::{PoolSet, Pools};
use freerun_testkit::{Peer, RefusingAddress, TestUpstream, TlsServer, certificates};
use freerun_tls::session::ClientSettings;
use freerun_tls::verify::{DEFAULT_LEVEL, TrustBuilder};
use freerun_upstream::UpstreamAddress;

use super::*;
use crate::tls::handshake::HandshakeHelpers;
use crate::tls::handshake::figures::TlsFigures;
use crate::tls::handshake::outgoing_session::{NameRule, OutgoingError, OutgoingTls, Verification};

const LONG: Duration = Duration::from_secs(20);
const LIMITS: TransferLimits = TransferLimits { total: LONG, connect: LONG, head: 2000, body: 10_000 };

/// A server for one connection, and its address.
fn server(upstream: TestUpstream, serve: impl FnOnce(Peer) + Send + 'static) -> (UpstreamAddress, JoinHandle<()>) {
    let address = address(&upstream);
    (address, std::thread::spawn(move || serve(upstream.accept())))
}

fn address(upstream: &TestUpstream) -> UpstreamAddress {
    UpstreamAddress::Ip(upstream.address().parse().expect("an address"))
}

fn pools() -> (Arc<FileSystem>, PoolSet) {
    let pools = Pools::new().generation(&[]).expect("threads");
    (FileSystem::new(pools.default().clone()).expect("file operations"), pools)
}

/// The status and the body of the response.
type Answer = Result<(u16, String), HttpClientError>;

fn send(
    addresses: &[UpstreamAddress],
    limits: TransferLimits,
    tls: Option<&OutgoingTls>,
    request: &OutgoingRequest,
) -> Answer {
    let (files, pools) = pools();
    let figures = TlsFigures::default();
    let helpers = HandshakeHelpers { pool: pools.handshakes(), lane: 0, figures: &figures };
    let paths = SocketPaths { files: &files, pool: pools.default(), client: 0 };
    let client = HttpClient { limits, tls: tls.map(|tls| ExchangeTls { tls, helpers }), paths };
    let exchange = async { client.send(addresses, request).await?.body().await };
    let WholeResponse { head, body } = block_on(exchange).expect("a loop")?;
    Ok((head.status(), String::from_utf8(body).expect("text")))
}

fn get() -> OutgoingRequest {
    OutgoingRequest::new("GET", "/", "host").expect("a request")
}

/// Sends a request to a server that answers with these pieces, each in a write of its own, and closes the connection.
fn answered(request: &OutgoingRequest, pieces: &[&[u8]]) -> Answer {
    let pieces: Vec<_> = pieces.iter().map(|piece| piece.to_vec()).collect();
    let (address, serving) = server(TestUpstream::new(), move |mut peer| {
        peer.request();
        // The client may have had enough.
        let _ = pieces.iter().try_for_each(|piece| peer.try_send(piece));
    });
    let answer = send(&[address], LIMITS, None, request);
    serving.join().expect("no panic");
    answer
}

fn error(answer: impl AsRef<[u8]>) -> HttpClientError {
    answered(&get(), &[answer.as_ref()]).expect_err("no response")
}

#[test]
fn bodies_of_all_framings_come_to_their_end() {
    let good = |pieces: &[&[u8]]| answered(&get(), pieces).expect("a response");
    let hello = |status| (status, "hello".to_owned());
    assert_eq!(good(&[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, and more"]), hello(200));
    assert_eq!(good(&[b"HTTP/1.1 404 No\r\n\r\n", b"hel", b"lo"]), hello(404));
    let chunked: [&[u8]; 4] =
        [b"HTTP/1.1 200 OK\r\nTransfer-", b"Encoding: chunked\r\n\r\n2\r", b"\nhe\r\n3\r\nl", b"lo\r\n0\r\n\r\n"];
    assert_eq!(good(&chunked), hello(200));
    let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 201 OK\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(good(&[interim]), hello(201));
    assert_eq!(good(&[b"HTTP/1.1 204 None\r\n\r\n"]), (204, String::new()));
    let head = OutgoingRequest::new("HEAD", "/", "host").expect("a request");
    let answer = answered(&head, &[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"]);
    assert_eq!(answer.expect("a response"), (200, String::new()));
}

#[test]
fn a_request_arrives_as_it_was_made_and_fields_come_back() {
    let (address, serving) = server(TestUpstream::new(), |mut peer| {
        let received = peer.request();
        assert_eq!(received.line(), "POST /a HTTP/1.1");
        assert_eq!((received.header("host"), received.header("connection")), (Some("host"), Some("close")));
        assert_eq!(received.body, vec![b'x'; 300_000]);
        peer.send("HTTP/1.1 200 OK\r\nA: 1\r\na: 2\r\nContent-Length: 0\r\n\r\n");
    });
    let mut request = OutgoingRequest::new("POST", "/a", "host").expect("a request");
    request.set_body(vec![b'x'; 300_000]);
    let (files, pools) = pools();
    let paths = SocketPaths { files: &files, pool: pools.default(), client: 0 };
    let client = HttpClient { limits: LIMITS, tls: None, paths };
    let response = block_on(client.send(&[address], &request)).expect("a loop").expect("a response");
    let fields: Vec<_> = response.head.fields().collect();
    assert_eq!(fields, [(&b"A"[..], &b"1"[..]), (b"a", b"2"), (b"Content-Length", b"0")]);
    assert_eq!(response.head.value("a"), Some(&b"1"[..]));
    serving.join().expect("no panic");
}

#[test]
fn a_server_that_is_too_slow_is_given_up() {
    let hurried = TransferLimits { total: Duration::from_millis(50), ..LIMITS };
    for sent in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"] {
        let (address, serving) = server(TestUpstream::new(), move |mut peer| {
            peer.send(sent);
            // Until the client closes the connection.
            peer.rest();
        });
        let answer = send(&[address], hurried, None, &get());
        assert!(matches!(answer, Err(HttpClientError::TimedOut)), "{sent}: {answer:?}");
        serving.join().expect("no panic");
    }
}

#[test]
fn heads_and_bodies_have_bounds() {
    let head = error(format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(1 << 20)));
    assert!(matches!(head, HttpClientError::Head(ReplyError::TooBig)), "{head:?}");
    let long = "a".repeat(1 << 20);
    for body in [
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{long}", long.len()),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n", long.len()),
        format!("HTTP/1.1 200 OK\r\n\r\n{long}"),
    ] {
        let error = error(body);
        assert!(matches!(error, HttpClientError::TooLarge), "{error:?}");
    }
    let most = format!("HTTP/1.1 200 OK\r\n\r\n{}", &long[..LIMITS.body]);
    assert_eq!(answered(&get(), &[most.as_bytes()]).expect("a response").1.len(), LIMITS.body);
}

#[test]
fn responses_that_violate_http_are_refused() {
    for head in
        ["SSH-2.0-OpenSSH\r\n", "HTTP/1.1 200 OK\r\nno field\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"]
    {
        let error = error(head);
        assert!(matches!(error, HttpClientError::Head(_)), "{head}: {error:?}");
    }
    for chunks in ["nonsense", "2\r\nhello", "ffffffffffffffffff\r\n"] {
        let error = error(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"));
        assert!(matches!(error, HttpClientError::Chunked), "{chunks}: {error:?}");
    }
    for cut in [
        "",
        "HTTP/1.1 200 OK\r\nA: b\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        let error = error(cut);
        assert!(matches!(error, HttpClientError::Closed), "{cut}: {error:?}");
    }
}

#[test]
fn addresses_are_tried_one_after_the_other() {
    let closed = [RefusingAddress::new(), RefusingAddress::new()];
    let [first, last] =
        closed.each_ref().map(|closed| UpstreamAddress::Ip(closed.address().parse().expect("an address")));
    let (good, serving) = server(TestUpstream::new(), |mut peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    assert_eq!(send(&[first.clone(), good], LIMITS, None, &get()).expect("a response").0, 200);
    serving.join().expect("no panic");
    let error = send(&[first, last.clone()], LIMITS, None, &get()).expect_err("no connection");
    assert!(matches!(&error, HttpClientError::Connect(tried, _) if *tried == last), "{error:?}");
    assert!(error.to_string().starts_with(&format!("connecting to {last}: Connection refused")), "{error}");
    assert!(matches!(send(&[], LIMITS, None, &get()), Err(HttpClientError::NoAddress)));
}

/// Sends a request to a server with this certificate, which has to be for a name by a rule.
fn secured(certificate: &str, name: &str, rule: NameRule) -> Answer {
    secured_by(certificate, name, rule, |mut peer| {
        // The session ends with `close_notify`, and the body with it.
        peer.send("HTTP/1.1 200 OK\r\n\r\nsecret");
        peer.notify();
    })
}

/// Sends a request to a server that serves it like that.
fn secured_by(certificate: &str, name: &str, rule: NameRule, serve: impl FnOnce(Peer) + Send + 'static) -> Answer {
    let (address, serving) = server(TestUpstream::tls(TlsServer::new(certificate)), |mut peer| {
        if let Some(request) = peer.try_request() {
            assert_eq!(request.target(), "/");
            serve(peer);
        }
    });
    let mut trust = TrustBuilder::default();
    trust.add_trusted_certificates(certificates().text("ca.crt").as_bytes()).expect("certificates");
    let verification =
        Verification { trust: trust.build(), depth: 2, level: DEFAULT_LEVEL, name: name.to_owned(), rule };
    let tls = OutgoingTls {
        config: ClientSettings::default().build().expect("settings"),
        server_name: Some(name.to_owned()),
        sessions: None,
        verification: Some(verification),
    };
    let answer = send(&[address], LIMITS, Some(&tls), &get());
    serving.join().expect("no panic");
    answer
}

#[test]
fn servers_with_tls_have_to_be_the_right_ones() {
    let good = |certificate: &str, name: &str, rule| {
        assert_eq!(secured(certificate, name, rule).expect(certificate), (200, "secret".to_owned()), "{certificate}");
    };
    let is_other = |answer: Answer| matches!(answer, Err(HttpClientError::Tls(OutgoingError::OtherName(_))));
    let is_untrusted = |answer: Answer| matches!(answer, Err(HttpClientError::Tls(OutgoingError::Untrusted(_))));
    for rule in [NameRule::Web, NameRule::OpenSsl] {
        good("ec", "localhost", rule);
        good("rsa", "a.example.com", rule);
        assert!(is_other(secured("ec", "other.example.org", rule)));
        assert!(is_other(secured("ec", "127.0.0.1", rule)));
        assert!(is_untrusted(secured("foreign", "localhost", rule)));
        assert!(is_untrusted(secured("stale", "localhost", rule)));
    }
    good("named", "localhost", NameRule::OpenSsl);
    assert!(is_other(secured("named", "localhost", NameRule::Web)));
    // A server that speaks no TLS.
    let (address, serving) = server(TestUpstream::new(), |mut peer| drop(peer.try_send("HTTP/1.1 400 No\r\n\r\n")));
    let config = ClientSettings::default().build().expect("settings");
    let tls = OutgoingTls { config, server_name: None, sessions: None, verification: None };
    let answer = send(&[address], LIMITS, Some(&tls), &get());
    assert!(matches!(answer, Err(HttpClientError::Tls(OutgoingError::Handshake(_)))), "{answer:?}");
    serving.join().expect("no panic");
}

#[test]
fn a_body_over_tls_is_not_complete_when_only_the_connection_ends() {
    let cut = |answer: &'static str| {
        // The connection ends without `close_notify`.
        secured_by("ec", "localhost", NameRule::Web, move |mut peer| peer.send(answer))
    };
    let answer = cut("HTTP/1.1 200 OK\r\n\r\nhalf of a sec");
    assert!(matches!(answer, Err(HttpClientError::Closed)), "{answer:?}");
    let answer = cut("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret");
    assert_eq!(answer.expect("a response"), (200, "secret".to_owned()));
}

#[test]
fn other_threads_send_requests_by_a_loop() {
    let (files, pools) = pools();
    let handle = LoopHandle::start(0, None).expect("a loop");
    let client = RemoteClient::new(handle.remote(), files, pools);
    let exchange = |address| RemoteExchange { addresses: vec![address], tls: None, limits: LIMITS, request: get() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");

    let (address, serving) = server(TestUpstream::new(), |mut peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK");
    });
    let response = runtime.block_on(client.send(exchange(address))).expect("a response");
    assert_eq!((response.head.status(), &*response.body), (200, &b"OK"[..]));
    serving.join().expect("no panic");

    // A request that nobody waits for any more does not go on.
    let upstream = TestUpstream::new();
    let mut sent = Box::pin(client.send(exchange(self::address(&upstream))));
    let mut peer = upstream.accept();
    peer.request();
    let is_pending = poll_fn(|context| Poll::Ready(sent.as_mut().poll(context).is_pending()));
    assert!(runtime.block_on(is_pending), "a response that nobody has sent");
    drop(sent);
    assert!(peer.rest().is_empty(), "the connection is closed");

    let address = self::address(&upstream);
    handle.stop();
    let ended = runtime.block_on(client.send(exchange(address)));
    assert!(matches!(ended, Err(HttpClientError::NoLoop)), "{ended:?}");
}
