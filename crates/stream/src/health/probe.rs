//! One check of one server: a connection, what is sent on it, and what has to come.

use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;

use freerun_runtime::timer::{self, Timer};
use freerun_serve::loop_state::LoopState;
use freerun_serve::tls::computed::PairReader;
use freerun_serve::tls::handshake::Helpers;
use freerun_transport::Transport;
use freerun_upstream::Peer;
use freerun_upstream::connect::connect;

use super::StreamCheck;
use crate::proxy::ProxySettings;

/// The most bytes that are looked at.
const MOST: usize = 256 * 1024;

/// The most bytes that are read at a time.
const PIECE: usize = 16 * 1024;

/// The lane of the checks in the pool for handshakes.
const LANE: u64 = 0;

/// The point where a check has failed, as the text for the log.
type Failed = &'static str;

/// Checks a server.
///
/// # Errors
/// The point where it failed.
pub(super) async fn check(check: &StreamCheck, peer: &Arc<Peer>, loop_state: &Rc<LoopState>) -> Result<(), Failed> {
    let timeout = check.timeout();
    match timer::timeout(timeout, run(check, peer, loop_state)).await {
        Ok(done) => done,
        Err(_) => Err("waiting for the end of the check"),
    }
}

async fn run(check: &StreamCheck, peer: &Arc<Peer>, loop_state: &Rc<LoopState>) -> Result<(), Failed> {
    const CONNECTING: Failed = "connecting to upstream";
    let settings = check.settings.get::<ProxySettings>();
    let address = check.rules.checking.address(peer);
    let mut transport = connect(&address, &settings.fixed_options()).await.map_err(|_| CONNECTING)?;
    transport.write_all(&settings.proxy_protocol.of_nobody()).await.map_err(|_| CONNECTING)?;
    if settings.proxy_ssl {
        transport = transport.into_tls();
        secure(check, settings, peer, &transport, loop_state).await?;
    }
    let Some(block) = check.rules.matching.as_ref().and_then(|matching| matching.get()) else { return Ok(()) };
    let matching = &block.matching;
    transport.write_all(&matching.send).await.map_err(|_| "sending to upstream")?;
    let mut received = Vec::new();
    while !matching.is_met(&received) {
        received.reserve(PIECE);
        let came = transport.read(&mut received).await;
        if !matches!(came, Ok(1..)) || received.len() >= MOST {
            return if matching.is_met(&received) { Ok(()) } else { Err("checking the response") };
        }
    }
    Ok(())
}

/// Has a TLS session on a new connection, as sessions of clients have it.
async fn secure(
    check: &StreamCheck,
    settings: &ProxySettings,
    peer: &Arc<Peer>,
    transport: &Transport,
    loop_state: &Rc<LoopState>,
) -> Result<(), Failed> {
    const HANDSHAKING: Failed = "SSL handshaking to upstream";
    let tls = settings.proxy_pass.as_ref().and_then(|pass| pass.tls.get()).ok_or(HANDSHAKING)?;
    let generation = loop_state.generation();
    let services = &generation.services;
    let reader = PairReader::of(services, 0, pending::<()>);
    let name = settings.fixed_tls_name();
    // A certificate whose name has variables belongs to a session, and there is none.
    let outgoing = tls.outgoing(&name, &peer.name, None, None, &reader).await.map_err(|_| HANDSHAKING)?;
    let helpers = Helpers { pool: services.pools.handshakes(), lane: LANE, figures: &loop_state.shared.upstream_tls };
    let opened = outgoing.open(transport, &mut Timer::default(), check.timeout(), helpers).await;
    opened.map_err(|_| HANDSHAKING)
}
