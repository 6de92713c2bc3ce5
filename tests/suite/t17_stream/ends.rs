//! The end of a worker, and of a configuration, while sessions are there.

use super::{said, stream};
use freerun_testkit::{ConnectionEnd, Setup, TestClient, eventually, require};
use rustix::process::Signal;

/// A server whose sessions wait until the client sends more, and one that answers at once.
fn waiting() -> Option<Setup> {
    stream(
        "server { listen 127.0.0.1:@PORT@; return now; }
         server { listen 127.0.0.1:@PORT2@; ssl_preread on; preread_timeout 1h; return old; }",
    )
}

fn open(server: &freerun_testkit::TestServer) -> TestClient {
    let mut client = TestClient::connect(server.address_number(2));
    client.send("\x16");
    server.logs(&format!("connected to 127.0.0.1:{}", server.port_number(2)));
    client
}

#[test]
fn a_worker_that_ends_waits_for_sessions() {
    let Some(setup) = waiting() else { return };
    let mut server = setup.run();
    let mut client = open(&server);
    server.signal(Signal::QUIT);
    server.logs("gracefully shutting down");
    eventually("no new sessions", || TestClient::try_connect(server.address()).is_err());
    assert!(server.runs());
    client.half_close();
    assert_eq!(client.rest(), (Vec::new(), ConnectionEnd::Closed));
    assert!(server.wait().success());
}

#[test]
fn it_waits_as_long_as_it_may() {
    let Some(setup) = waiting() else { return };
    let mut server = setup.main("worker_shutdown_timeout 300ms;").run();
    let mut client = open(&server);
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    assert!(client.is_closed());
}

#[test]
fn a_reload_changes_nothing_for_sessions_that_are_there() {
    let Some(setup) = waiting() else { return };
    let server = setup.run();
    let mut client = open(&server);
    server.edit("return old", "return new");
    server.reload();
    assert_eq!(said(server.address_number(2), b"x"), "new");
    // The rest of a message that makes no sense.
    assert_eq!(client.send("x\x01xxxx").rest().0, b"old");
}

#[test]
fn sessions_of_an_old_configuration_end_when_their_time_is_over() {
    if !require::freerun() {
        return;
    }
    let Some(setup) = waiting() else { return };
    let server = setup.main("worker_shutdown_timeout 300ms;").run();
    let mut client = open(&server);
    server.reload();
    assert!(client.is_closed());
    assert_eq!(said(server.address_number(2), b"x"), "old");
}

#[test]
fn addresses_come_and_go_with_a_reload() {
    let Some(setup) = stream("server { listen 127.0.0.1:@PORT@; return one; }") else { return };
    let server = setup.run();
    let port = server.port();
    let other = freerun_testkit::ports::free();
    server.edit("return one; }", &format!("return two; }} server {{ listen 127.0.0.1:{other}; return other; }}"));
    server.reload();
    let address = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!((said(address(port), b""), said(address(other), b"")), ("two".to_owned(), "other".to_owned()));
    server.edit(&format!("server {{ listen 127.0.0.1:{other}; return other; }}"), "");
    server.reload();
    eventually("the address is closed", || TestClient::try_connect(address(other)).is_err());
    assert_eq!(said(address(port), b""), "two");
}

#[test]
fn many_sessions_share_the_room_with_requests() {
    let Some(setup) = waiting() else { return };
    let server = setup.events("worker_connections 32;").run();
    let clients: Vec<TestClient> = (0..20)
        .map(|_| {
            let mut client = TestClient::connect(server.address_number(2));
            client.send("\x16");
            client
        })
        .collect();
    assert_eq!(said(server.address(), b""), "now");
    drop(clients);
    assert_eq!(said(server.address(), b""), "now");
}
