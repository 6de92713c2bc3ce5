//! The first bytes of a connection without TLS: HTTP/2 with prior knowledge (RFC 9113 section 3.3), or HTTP/1.

use std::time::Duration;

use freerun_proto::h2::frame::PREFACE;
use freerun_runtime::timer::Timer;
use freerun_runtime::{buffers, loops};

use crate::protocol::early_end::End;
use crate::request::ClientConnection;

/// The kind of the first bytes.
pub enum FirstBytes {
    /// The beginning of HTTP/2.
    Http2,
    /// Something else.
    Other,
    /// Nothing, or less than it takes to tell: the client has gone, or is silent.
    Nothing(End),
}

/// Reads until it is clear which protocol the client speaks, as long as `timeout`. All bytes stay in the buffer.
pub async fn read(
    connection: &ClientConnection,
    timer: &mut Timer,
    timeout: Duration,
    buffer: &mut Vec<u8>,
) -> FirstBytes {
    let start = loops::now();
    loop {
        let len = buffer.len().min(PREFACE.len());
        if buffer[..len] != PREFACE[..len] {
            return FirstBytes::Other;
        }
        if len == PREFACE.len() {
            return FirstBytes::Http2;
        }
        if buffer.capacity() == 0 {
            *buffer = buffers::take();
        }
        let left = timeout.saturating_sub(loops::now().saturating_duration_since(start));
        match timer.within(left, connection.transport.read(buffer)).await {
            Some(Ok(1..)) => {}
            Some(Ok(0)) => return FirstBytes::Nothing(End::Closed),
            Some(Err(error)) => return FirstBytes::Nothing(End::Broken(error)),
            None => return FirstBytes::Nothing(End::TimedOut),
        }
    }
}
