//! Whether the connection is kept for another request (`keepalive_*`): every decision about it, in the order in which a
//! request comes to them. Errors in between add reasons of their own ([`CloseReason`]).

use freerun_proto::{HeaderId, Method};

use crate::message::persistence::{CloseReason, Persistence};
use crate::request::ClientConnection;
use crate::request::Request;

/// Begins with the wish of the head; `still_listens` is whether the newest configuration listens at the address.
pub fn asked(request: &mut Request, still_listens: bool) {
    request.answered.persistence = Persistence::asked(request.head.parsed.keep_alive, still_listens);
}

/// Applies the settings of the location. If one location does not want the connection kept, later locations of the
/// request cannot overrule it.
pub fn in_location(request: &mut Request) {
    let core = request.core();
    let mut may =
        !core.keepalive_timeout.timeout.is_zero() && request.arrival.serial < u64::from(core.keepalive_requests);
    if let Some(user_agent) = request.head.value(HeaderId::UserAgent) {
        let is_post = request.head.method() == Method::Post;
        may &= !core.keepalive_disable.concerns(user_agent, is_post);
    }
    if !may {
        request.answered.persistence.close(CloseReason::Settings);
    }
}

/// Applies the state of the connection and the worker, before the head of the response is written.
pub fn before_response(connection: &ClientConnection, request: &mut Request) {
    // If a location was chosen, its settings have been applied already.
    if request.place.location.is(&request.place.server.entry) {
        in_location(request);
    }
    let core = &*request.place.location.core;
    let persistence = &mut request.answered.persistence;
    if core.keepalive_timeout.timeout.is_zero() {
        persistence.close(CloseReason::Settings);
    }
    if connection.accepted.checked_add(core.keepalive_time).is_some_and(|end| request.arrival.started >= end) {
        persistence.close(CloseReason::Age);
    }
    if connection.loop_state.is_draining() && connection.goes_to().is_none() {
        persistence.close(CloseReason::Draining);
    }
    if connection.is_closing() {
        persistence.close(CloseReason::MakesRoom);
    }
}
