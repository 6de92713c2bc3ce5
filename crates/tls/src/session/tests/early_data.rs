//! Data that a client sends before the handshake is complete.

use super::super::{Event, FailureKind, ServerConfig, SessionCache, SessionSettings, TicketKeys};
use super::client::{Ability, Client};
use super::{End, NOW, ServerSettings, config, exchange, handshake, kept, settings};
use rustls::client::ClientConfig;
use rustls::version::TLS13;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

fn server(sessions: &SessionSettings) -> ServerConfig {
    let settings = ServerSettings { early_data: true, ..settings() };
    settings.build().expect("settings").with_sessions(sessions, b"context")
}

/// A client that has had a session with the server.
fn known(server: &ServerConfig) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(&Ability { versions: vec![&TLS13], ..Ability::default() }.config());
    config.enable_early_data = true;
    let config = Arc::new(config);
    drop(handshake(&mut Client::new(config.clone()), server));
    config
}

/// A client that sends this before anything is known of the server, and all that it sends at first.
fn early(config: &Arc<ClientConfig>, data: &[u8]) -> (Client, Vec<u8>) {
    let mut client = Client::new(config.clone());
    client.connection.early_data().expect("early data").write_all(data).expect("room for it");
    let sent = client.take_output();
    (client, sent)
}

#[test]
fn early_data_is_answered_before_the_handshake_is_complete() {
    for piece in [1, 10, 1000, usize::MAX] {
        let config = server(&kept());
        let client = known(&config);
        let (mut client, sent) = early(&client, b"early request");
        let mut server = End::server(&config);
        sent.chunks(piece.min(sent.len())).for_each(|bytes| server.receive(bytes));
        assert_eq!((&server.events[..], &server.plaintext[..]), (&[Event::Established][..], &b"early request"[..]));
        let agreed = server.session.agreed().expect("a session");
        assert!(agreed.early_data && agreed.resumed);
        server.send(b"early answer", 300);
        client.receive(&std::mem::take(&mut server.output));
        assert_eq!(client.plaintext, b"early answer");
        // The rest of the handshake in small pieces, with answers in between.
        for bytes in client.take_output().chunks(piece.min(100)) {
            server.receive(bytes);
            server.send(b"x", 300);
        }
        assert!(!server.session.agreed().expect("a session").early_data);
        server.receive(&client.send(b", late request"));
        client.receive(&std::mem::take(&mut server.output));
        assert_eq!(server.plaintext, b"early request, late request");
        assert!(client.plaintext.starts_with(b"early answerx") && client.error.is_none());
        assert_eq!(server.events, [Event::Established], "which is told once");
        assert_eq!(server.session.kept_bytes(), 0);
    }
}

#[test]
fn messages_of_the_handshake_behind_early_data_may_come_in_pieces() {
    let config = server(&kept());
    let mut client = ClientConfig::clone(&known(&config));
    client.max_fragment_size = Some(32);
    let (mut client, sent) = early(&Arc::new(client), b"early request");
    let mut server = End::server(&config);
    server.receive(&sent);
    client.receive(&std::mem::take(&mut server.output));
    for bytes in client.take_output().chunks(7) {
        server.receive(bytes);
        server.send(b"x", 300);
    }
    server.receive(&client.send(b"!"));
    client.receive(&server.output);
    assert_eq!((client.error, &server.plaintext[..]), (None, &b"early request!"[..]));
}

#[test]
fn early_data_is_not_taken_a_second_time() {
    let config = server(&kept());
    let client = known(&config);
    let (_, sent) = early(&client, b"pay");
    let mut first = End::server(&config);
    first.receive(&sent);
    assert_eq!(first.plaintext, b"pay");
    let mut again = End::server(&config);
    again.receive(&sent);
    assert_eq!((&again.events[..], &again.plaintext[..]), (&[][..], &[][..]));
}

#[test]
fn early_data_that_comes_late_is_not_taken() {
    let config = server(&kept());
    let (_, sent) = early(&known(&config), b"pay");
    let mut server = End::server(&config);
    server.now += Duration::from_secs(200);
    server.receive(&sent);
    assert_eq!((&server.events[..], &server.plaintext[..]), (&[][..], &[][..]));
}

#[test]
fn clients_send_early_data_only_where_it_is_wanted() {
    let wanted = |config: &ServerConfig| Client::new(known(config)).connection.early_data().is_some();
    let tickets = Some(TicketKeys::random(kept().timeout, NOW).expect("keys"));
    assert!(wanted(&server(&kept())));
    assert!(
        wanted(&server(&SessionSettings { tickets: tickets.clone(), ..kept() })),
        "there are no tickets beside a store"
    );
    assert!(
        !wanted(&server(&SessionSettings { cache: SessionCache::None, tickets, ..kept() })),
        "tickets can be used again"
    );
    assert!(!wanted(&config().with_sessions(&kept(), b"context")));
}

#[test]
fn a_server_that_does_not_want_it_any_more_goes_on_without() {
    let sessions = kept();
    let (mut client, sent) = early(&known(&server(&sessions)), b"early request");
    let mut plain = End::server(&config().with_sessions(&sessions, b"context"));
    plain.receive(&sent);
    client.receive(&std::mem::take(&mut plain.output));
    exchange(&mut client, &mut plain, usize::MAX);
    assert_eq!(plain.events, [Event::Established]);
    assert!(!client.connection.is_early_data_accepted() && plain.plaintext.is_empty());
}

#[test]
fn a_close_after_early_data_and_a_failure_are_told() {
    let config = server(&kept());
    let client = known(&config);
    let (_, sent) = early(&client, b"early request");
    let mut server = End::server(&config);
    server.receive(&sent);
    server.receive(b"garbage that is no record");
    assert_eq!(server.failure().kind, FailureKind::NotTls);
    assert!(server.session.agreed().is_some(), "what the request came with is still known");

    let (mut client, sent) = early(&known(&config), b"early request");
    let mut server = End::server(&config);
    server.receive(&sent);
    server.session.close(&mut server.output);
    client.receive(&server.output);
    assert!(client.closed && client.error.is_none());
}

#[test]
fn sessions_without_early_data_are_as_ever() {
    let config = server(&kept());
    let mut client = Ability { versions: vec![&TLS13], ..Ability::default() }.client();
    let server = handshake(&mut client, &config);
    assert_eq!(server.session.agreed().map(|agreed| agreed.early_data), Some(false));
}
