//! The use of a connection after a response has ended HTTP on it (RFC 9110 section 7.8).

use std::task::{Context, Poll};

use crate::connection::tunnel_end::TunnelEnd;

/// The protocol that follows the response which ended HTTP: on a connection, or on a stream of a connection that
/// carries several requests at once. `R` is the request.
pub trait Takeover<R> {
    /// Called first, with the bytes that the client has sent behind its request already.
    fn begin(&mut self, rest: Vec<u8>);

    /// Polls the exchange between the client and its other end. Ready when it is over, with whether it has ended in
    /// order: one of them has ended, and the client has all bytes.
    fn poll(&mut self, client: TunnelEnd<'_>, context: &mut Context<'_>) -> Poll<bool>;

    /// Called last, with the request that led to it, before its log line is written, to record how it ended. Returns
    /// how many bytes were sent to the client.
    fn end(&mut self, request: &R) -> u64;
}
