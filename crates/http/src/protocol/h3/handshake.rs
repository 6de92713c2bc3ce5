//! The choice of a server by the ClientHello, and the server's part of the handshake.

use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::time::Duration;

use freerun_proto::tls::ClientHello;
use freerun_proto::tls::alert::Alert;
use freerun_quic::hello::HelloProgress;
use freerun_quic::settings::{self, ConnectionSettings};
use freerun_runtime::log::clock;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::Address;
use freerun_serve::tls::handshake::{HandshakeError, Offer, run_step, takes_long};
use freerun_tls::session::{QuicServer, SessionFailure};

use crate::protocol::h3::client::{BLOCKED_STREAMS, DECODER_TABLE, H3Client};
use crate::protocol::tls::{self, HandshakeLogEnd};
use crate::request::ClientStream;
use crate::request::location::{Location, Server};
use crate::settings::http3::Http3Settings;
use crate::settings::server::ServerSettings;

/// The least window of a stream, in bytes, however small `http3_stream_buffer_size` is: with nginx's default a client could
/// send 64 KiB in a round trip. This is 84 Mbit/s at 100 ms. QUIC keeps what has come and nobody has read, of all streams of
/// a connection at most the connection's window: as much as HTTP/2 with its first windows.
const LEAST_WINDOW: u32 = 1 << 20;

/// The window of a connection, in windows of streams.
const STREAM_WINDOWS: u32 = 8;

/// The least time after which a silent client is taken for gone. A client without requests is closed after
/// `keepalive_timeout`.
const LEAST_IDLE: Duration = Duration::from_secs(60);

/// Reads the ClientHello, chooses the settings of the session, and begins the handshake. `None` if there is no connection,
/// which is logged where it is worth a line.
pub(super) async fn begin(client: &Rc<H3Client>) -> Option<()> {
    let facts = &client.facts;
    loops::note(facts.number, "QUIC handshake");
    let (generation, servers, _) = client.driver.http.servers_of(facts, || client.local())?;
    let timeout = servers.entry.settings.get::<ServerSettings>().client_header_timeout;
    let mut timer = Timer::default();
    let progress = timer.within(timeout, poll_fn(|context| client.poll_hello(context))).await;
    if progress? == HelloProgress::Other {
        // Whatever the client has sent in place of its ClientHello.
        return refuse(client, Alert::UnexpectedMessage);
    }
    let message = client.hello()?;
    let hello = match ClientHello::parse(&message) {
        Ok(hello) => hello,
        Err(error) => return refused(client, &HandshakeError::Hello(error)),
    };
    let offer = Offer { hello: &hello, message: &message };
    let view = ClientStream::nobody(facts.clone());
    // A client that goes away without a word is noticed when the time is over.
    let alpn = |server: &Server| server.entry.settings.get::<Http3Settings>().alpn();
    let choosing = tls::choose_settings(&view, pending, &generation, &servers, offer, alpn);
    let config = match timer.within(timeout, choosing).await? {
        Ok(chosen) => chosen.config.for_client(hello.cipher_suites(&message)),
        Err(refusal) => return refused(client, &HandshakeError::Refused(refusal)),
    };
    let is_long = takes_long(&config, offer);
    let Some((crypto, session)) = QuicServer::new(&config, clock::since_1970) else {
        return refuse(client, Alert::ProtocolVersion);
    };
    let named = facts.tls().map_or(&servers.default, |facts| servers.negotiated(facts));
    let transport = connection_settings(&named.entry, &facts.first_peer);
    session.set_limits(&early_limits(&named.entry, &transport));
    let settings = settings::server(client.socket.keys(), crypto, transport.transport());
    let pending = client.take_pending()?;
    client.set_session(session.clone(), hello.early_data);
    client.set_settings(&named.entry);
    let now = loops::now();
    let step = move || {
        let mut output = Vec::new();
        (pending.accept(now, settings, &mut output), output)
    };
    let helpers = tls::helpers(facts, &generation);
    match run_step(helpers, is_long, step).await {
        Ok((Ok(connection), _)) => {
            client.opened(connection);
            Some(())
        }
        Ok((Err(failure), output)) => {
            failure.response.iter().for_each(|transmit| client.socket.send(transmit, &output));
            match session.failure() {
                Some(failure) => session_failed(client, failure),
                None => None,
            }
        }
        Err(error) => failed(client, &error),
    }
}

/// Logs and counts that there is no session, and tells the client.
fn refused(client: &H3Client, error: &HandshakeError) -> Option<()> {
    failed(client, error);
    refuse(client, error.alert().unwrap_or(Alert::HandshakeFailure))
}

/// Sends a client the alert that ends its connection (RFC 9001 section 4.8), before there is a session.
fn refuse(client: &H3Client, alert: Alert) -> Option<()> {
    let crypto = QuicServer::refusing(alert.code())?;
    let settings = settings::server(client.socket.keys(), crypto, ConnectionSettings::default().transport());
    let pending = client.take_pending()?;
    let (now, mut output) = (loops::now(), Vec::new());
    match pending.accept(now, settings, &mut output) {
        Ok(mut connection) => {
            while let Some(transmit) = connection.transmit(now, 1, &mut output) {
                client.socket.send(&transmit, &output);
                output.clear();
            }
        }
        Err(failure) => failure.response.iter().for_each(|transmit| client.socket.send(transmit, &output)),
    }
    None
}

/// The settings of a connection of a server with this client.
fn connection_settings(entry: &Location, client: &Address) -> ConnectionSettings {
    let settings = entry.settings.get::<Http3Settings>();
    let size = u32::try_from(settings.http3_stream_buffer_size.0).unwrap_or(u32::MAX);
    ConnectionSettings {
        max_streams: u32::try_from(settings.http3_max_concurrent_streams).unwrap_or(u32::MAX),
        stream_window: size.max(LEAST_WINDOW),
        connection_window: size.max(LEAST_WINDOW).saturating_mul(STREAM_WINDOWS),
        idle_timeout: entry.core.keepalive_timeout.timeout.max(LEAST_IDLE),
        gso: settings.quic_gso.unwrap_or(true),
        is_ipv4: matches!(client, Address::Ip(address) if address.is_ipv4()),
    }
}

/// The settings of HTTP/3 that a client remembers for early data, and that are limits, or allow it something.
fn remembered_settings(entry: &Location) -> [u64; 3] {
    let connects = entry.settings.get::<Http3Settings>().http3_extended_connect;
    [DECODER_TABLE.into(), BLOCKED_STREAMS.into(), connects.into()]
}

/// The limits that a client remembers for the early data of its next connection: limits of QUIC (RFC 9000 section 7.4.1) and
/// settings of HTTP/3 (RFC 9114 section 7.2.4.2). None of them may be smaller when the data is taken.
fn early_limits(entry: &Location, transport: &ConnectionSettings) -> Vec<u64> {
    [&transport.limits()[..], &remembered_settings(entry)].concat()
}

/// Logs and counts that a handshake has failed in the library.
pub(super) fn session_failed(client: &H3Client, failure: SessionFailure) -> Option<()> {
    failed(client, &HandshakeError::Failed(failure))
}

/// Logs and counts that there is no session.
pub(super) fn failed(client: &H3Client, error: &HandshakeError) -> Option<()> {
    let facts = &client.facts;
    facts.loop_state.shared.client_tls.failed(error);
    let servers = client.driver.http.servers_of(facts, || client.local());
    if let Some((_, servers, _)) = &servers {
        let server = facts.tls().map_or(&servers.default, |facts| servers.negotiated(facts));
        if let Some(zone) = &server.zone {
            zone.tls().failed(error);
        }
    }
    facts.log(error.level(), format_args!("{}{}", error.of_client(), HandshakeLogEnd(facts)));
    None
}
