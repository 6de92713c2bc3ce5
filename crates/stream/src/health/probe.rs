//! A check of a server: a connection, the bytes that are sent on it, and the bytes that have to come.

use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::Arc;

use freerun_runtime::net::udp::{DatagramTarget, Receiver, Runs};
use freerun_runtime::timer::{self, Timer};
use freerun_serve::configuration::services::Services;
use freerun_serve::loops::state::LoopState;
use freerun_serve::tls::computed::PairReader;
use freerun_serve::tls::handshake::HandshakeHelpers;
use freerun_serve::upstream::ProxyProtocol;
use freerun_transport::Transport;
use freerun_upstream::connect::{connect, connect_datagrams};
use freerun_upstream::{Peer, UpstreamAddress};

use super::StreamCheck;
use super::matching::Match;
use crate::proxy::ProxySettings;

/// The most bytes that are looked at.
const MOST: usize = 256 * 1024;

/// The most bytes that are read at a time.
const PIECE: usize = 16 * 1024;

/// The number of datagrams that are taken at a time.
const FEW: usize = 4;

/// The lane of the checks in the pool for handshakes.
const LANE: u64 = 0;

/// The number of a client where there is none.
const NOBODY: u64 = 0;

/// The point where a check has failed, as the text for the log.
type ProbeFailure = &'static str;

/// Checks a server.
///
/// # Errors
/// The point where it failed.
pub(super) async fn check(
    check: &StreamCheck,
    peer: &Arc<Peer>,
    loop_state: &Rc<LoopState>,
) -> Result<(), ProbeFailure> {
    let timeout = check.timeout();
    match timer::timeout(timeout, run(check, peer, loop_state)).await {
        Ok(done) => done,
        Err(_) => Err("waiting for the end of the check"),
    }
}

const CONNECTING: ProbeFailure = "connecting to upstream";
const SENDING: ProbeFailure = "sending to upstream";
const CHECKING: ProbeFailure = "checking the response";

async fn run(check: &StreamCheck, peer: &Arc<Peer>, loop_state: &Rc<LoopState>) -> Result<(), ProbeFailure> {
    let settings = check.settings.get::<ProxySettings>();
    let address = check.rules.checking.address(peer);
    let generation = loop_state.generation();
    let services = &generation.services;
    if check.rules.udp {
        return ask(check, settings, &address, services).await;
    }
    let connecting = connect(&address, &settings.fixed_options(), services.socket_paths(NOBODY)).await;
    let mut transport = connecting.map_err(|_| CONNECTING)?;
    transport.write_all(&settings.proxy_protocol.of_nobody()).await.map_err(|_| CONNECTING)?;
    if settings.proxy_ssl {
        transport = transport.into_tls();
        secure(check, settings, peer, &transport, loop_state).await?;
    }
    let Some(block) = check.rules.matching.as_ref().and_then(|matching| matching.get()) else { return Ok(()) };
    let matching = &block.matching;
    transport.write_all(&matching.send).await.map_err(|_| SENDING)?;
    let mut received = Vec::new();
    while !matching.is_met(&received) {
        received.reserve(PIECE);
        let came = transport.read(&mut received).await;
        if !matches!(came, Ok(1..)) || received.len() >= MOST {
            return if matching.is_met(&received) { Ok(()) } else { Err(CHECKING) };
        }
    }
    Ok(())
}

/// Asks a server by a datagram, and waits for a datagram that matches.
async fn ask(
    check: &StreamCheck,
    settings: &ProxySettings,
    address: &UpstreamAddress,
    services: &Services,
) -> Result<(), ProbeFailure> {
    // The configuration is refused without something to send.
    let matching = &check.rules.matching.as_ref().and_then(|matching| matching.get()).ok_or(CHECKING)?.matching;
    let connecting = connect_datagrams(address, &settings.fixed_options(), services.socket_paths(NOBODY)).await;
    let socket = connecting.map_err(|_| CONNECTING)?;
    let header = match settings.proxy_protocol {
        // Its text would be in front of the first datagram of a session, and there is none.
        ProxyProtocol::Off | ProxyProtocol::V1 => Vec::new(),
        ProxyProtocol::V2 => settings.proxy_protocol.of_nobody(),
    };
    let question = [&header[..], &matching.send].concat();
    let mut runs = Runs::default();
    runs.push(DatagramTarget::default(), &question, None);
    let mut sent = Ok(());
    socket.send(&runs, |_| sent = Err(SENDING));
    sent?;
    let mut looked_at = 0;
    while looked_at < MOST {
        let came = poll_fn(|context| socket.poll_receive(context, FEW, |received| look(matching, received))).await;
        let (is_met, len) = came.map_err(|_| CHECKING)?;
        if is_met {
            return Ok(());
        }
        looked_at += len;
    }
    Err(CHECKING)
}

/// Whether one of the datagrams that have come is what is expected, and how much was looked at.
fn look(matching: &Match, received: &Receiver) -> (bool, usize) {
    let (mut is_met, mut len) = (false, 0);
    for one in received.iter() {
        let size = one.segment.unwrap_or(one.bytes.len()).max(1);
        is_met |= one.bytes.is_empty() && matching.is_met(b"");
        is_met |= one.bytes.chunks(size).any(|datagram| matching.is_met(datagram));
        len += one.bytes.len().max(1);
    }
    (is_met, len)
}

/// Has a TLS session on a new connection, as sessions of clients have it.
async fn secure(
    check: &StreamCheck,
    settings: &ProxySettings,
    peer: &Arc<Peer>,
    transport: &Transport,
    loop_state: &Rc<LoopState>,
) -> Result<(), ProbeFailure> {
    const HANDSHAKING: ProbeFailure = "SSL handshaking to upstream";
    let tls = settings.proxy_pass.as_ref().and_then(|pass| pass.tls.get()).ok_or(HANDSHAKING)?;
    let generation = loop_state.generation();
    let services = &generation.services;
    let reader = PairReader::of(services, NOBODY, pending::<()>);
    let name = settings.fixed_tls_name();
    // A certificate whose name has variables belongs to a session, and there is none.
    let outgoing = tls.outgoing(&name, &peer.name, None, None, &reader).await.map_err(|_| HANDSHAKING)?;
    let helpers =
        HandshakeHelpers { pool: services.pools.handshakes(), lane: LANE, figures: &loop_state.shared.upstream_tls };
    let opened = outgoing.open(transport, &mut Timer::default(), check.timeout(), helpers).await;
    opened.map_err(|_| HANDSHAKING)
}
