//! The server's side of an HTTP/1 connection (RFC 9112) without sockets and without a clock.
//!
//! The machine has one value for each state, in the order of the wire. A state takes the bytes or the facts that it waits for,
//! and names what comes next; a driver only reads, writes and waits.
//!
//! | state | what it waits for | what it decides |
//! |---|---|---|
//! | [`ExpectHead`] | the bytes of a head, or the end of the input | where the request begins, whether it is pipelined, whether there is one at all |
//! | [`RequestBody`] | the bytes of the body | which bytes are the body's, where it ends, which bytes are the next request's |
//! | [`Persistence`] | reasons to close the connection | whether another request may follow, and why not |
//! | [`ResponseFacts`] | the head of the response | how the client learns where the response ends ([`ResponseFraming`]) |
//! | [`ResponseBody`] | the pieces of the response | the bytes around each piece; whether the announced length is right |
//! | [`ExchangeEnd`] | the rest of the request | the next request, discarding what is left, lingering, or closing |
//!
//! The order of calls for one request:
//!
//! 1. [`ExpectHead::receive`] with all bytes that have come, until it is complete or fails; [`ExpectHead::end`] when no more
//!    bytes come. [`RequestBody::new`] and [`Persistence::asked`] follow from a complete head.
//! 2. [`RequestBody::next_wanted`] while somebody wants the body. The body may be handed on, and read apart from its request
//!    ([`RequestBody::lend`]). Whoever finds a reason to close the connection adds it ([`Persistence::close`]).
//! 3. [`Persistence::apply_location`] for each location of the request. Then [`RequestBody::skip`], so that the head of the
//!    response can say whether the connection goes on, [`Persistence::apply_refused_tunnel`] for a CONNECT without a tunnel,
//!    [`Persistence::apply_connection`] and [`ResponseFacts::frame`]. A response that ends HTTP takes the last call alone.
//! 4. [`ResponseBody::begin_piece`] and [`ResponseBody::end_piece`] around each piece, then [`ResponseBody::end`]. A response
//!    that is cut short ends the connection ([`ResponseFraming::cut`]).
//! 5. [`ExchangeEnd::new`], then [`ExchangeEnd::step`] until it is one of the last steps. [`RequestBody::next_request`] says where the next head begins.
//!
//! Memory belongs to the driver: bytes stay in its buffer, and the states keep places in it.
//!
//! HTTP/2 is one value ([`h2::Connection`](crate::h2::Connection)), because each of its frames concerns all streams. Here, each
//! state has its own owner: the driver reads heads, a handler or another task reads the body, and whoever finds a reason to
//! close the connection has neither.
//!
//! The requests, their bodies and the framing of the responses do not depend on how the bytes are cut. Two things do depend on
//! what has come when a response begins. Its head can announce the end of the connection only if the rest of an unwanted body
//! is already known to be wrong. And the connection lingers only if the client may still be sending ([`EndStep::Linger`]).

mod exchange_end;
mod expect_head;
mod persistence;
mod request_body;
mod response;
#[cfg(test)]
mod tests;

pub use exchange_end::{DiscardResult, EndStep, ExchangeEnd, LingerMode};
pub use expect_head::{ExpectHead, HeadEnd};
pub use persistence::{CloseReason, Persistence, ReuseFacts};
pub use request_body::{BodyPiece, RequestBody};
pub use response::{CutSignal, LengthMismatch, ResponseBody, ResponseFacts, ResponseFraming, write_last_chunk};
