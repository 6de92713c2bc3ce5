//! Whether the connection is kept for another request (`keepalive_*`): every place that decides it, in the order in which a
//! request comes to them. Faults on the way add reasons of their own ([`CloseReason`]).

use freerun_proto::{HeaderId, Method};

use crate::message::persistence::{CloseReason, Persistence};
use crate::request::Connection;
use crate::request::Request;

/// What the head asks for; `still_listens` is whether the newest configuration listens at the address.
pub fn asked(request: &mut Request, still_listens: bool) {
    request.answered.persistence = Persistence::asked(request.head.parsed.keep_alive, still_listens);
}

/// What the location has to say: one that does not want the connection kept cannot be overruled by those that the request
/// comes to later.
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

/// What the connection and the worker have to say, before the head of the response is written.
pub fn before_response(connection: &Connection, request: &mut Request) {
    // Otherwise each location that the request came through has had its say.
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
    if connection.loop_state.is_draining() {
        persistence.close(CloseReason::Draining);
    }
    if connection.is_closing() {
        persistence.close(CloseReason::MakesRoom);
    }
}
