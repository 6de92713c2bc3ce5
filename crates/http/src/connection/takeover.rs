//! What goes on with a client once a response has ended HTTP with it (RFC 9110 section 7.8).

use std::task::{Context, Poll};

use crate::connection::tunnel_end::TunnelEnd;

/// What goes on with a client after the response that ended HTTP with it: on a connection, or on a stream of one that carries
/// several requests at once. `R` is the request.
pub trait Takeover<R> {
    /// Called before all else: what the client has sent behind its request already.
    fn begin(&mut self, rest: Vec<u8>);

    /// Goes on, between the client and whatever else there is; ready when it is over.
    fn poll(&mut self, client: TunnelEnd<'_>, context: &mut Context<'_>) -> Poll<()>;

    /// Called after all else, with the request that led to it, before the log has its line: what is to be known of the end.
    /// Returns how many bytes were sent to the client.
    fn end(&mut self, request: &R) -> u64;
}
