//! The facts that decide whether the connection is kept for another request (`keepalive_*`), in the order in which a request
//! comes to them. The decision is [`Persistence`]'s; errors in between add reasons of their own
//! ([`CloseReason`](freerun_proto::h1::CloseReason)).

use std::time::Instant;

use freerun_proto::h1::{Persistence, ReuseFacts};
use freerun_proto::{HeaderId, Method};

use crate::connection::IdleConnection;
use crate::request::ClientConnection;
use crate::request::Request;
use crate::request::core_settings::CoreSettings;
use crate::request::generation::ServedBy;

/// The facts about a connection that decide whether it is kept after the request with this number, from 1; `now` is the time
/// that its age is counted to. A protocol with streams asks here when a request begins.
#[inline]
pub fn reuse_facts(
    connection: &impl IdleConnection<ServedBy>,
    core: &CoreSettings,
    serial: u64,
    now: Instant,
) -> ReuseFacts {
    ReuseFacts {
        is_unwanted: core.keepalive_timeout.timeout.is_zero(),
        is_spent: ReuseFacts::is_last(serial, u64::from(core.keepalive_requests)),
        ..facts_of_connection(connection, core, now)
    }
}

/// The facts that do not depend on the location of a request. HTTP/1 asks for them before each response, when it has
/// [applied](in_location) the others.
#[inline]
fn facts_of_connection(connection: &impl IdleConnection<ServedBy>, core: &CoreSettings, now: Instant) -> ReuseFacts {
    let facts = connection.facts();
    ReuseFacts {
        is_old: facts.accepted.checked_add(core.keepalive_time).is_some_and(|end| now >= end),
        is_draining: facts.loop_state.is_draining(),
        makes_room: connection.close_request().is_made(),
        ..ReuseFacts::default()
    }
}

/// Begins with the wish of the head; `still_listens` is whether the newest configuration listens at the address.
pub fn asked(request: &mut Request, still_listens: bool) {
    request.answered.persistence = Persistence::asked(request.head.parsed.keep_alive, still_listens);
}

/// Applies the settings of the location. If one location does not want the connection kept, later locations of the
/// request cannot overrule it.
pub fn in_location(request: &mut Request) {
    let core = request.core();
    let mut is_wanted = !core.keepalive_timeout.timeout.is_zero();
    if let Some(user_agent) = request.head.value(HeaderId::UserAgent) {
        let is_post = request.head.method() == Method::Post;
        is_wanted &= !core.keepalive_disable.concerns(user_agent, is_post);
    }
    let requests_max = u64::from(core.keepalive_requests);
    request.answered.persistence.apply_location(is_wanted, request.arrival.serial, requests_max);
}

/// Applies the state of the connection and the worker, before the head of the response is written.
pub fn before_response(connection: &ClientConnection, request: &mut Request) {
    // If a location was chosen, its settings have been applied already.
    if request.place.location.is(&request.place.server.entry) {
        in_location(request);
    }
    let core = &*request.place.location.core;
    let mut facts = facts_of_connection(connection, core, request.arrival.started);
    // Another loop goes on with a connection that moves.
    facts.is_draining = facts.is_draining && connection.goes_to().is_none();
    request.answered.persistence.apply_connection(facts);
}
