//! Lingering close: the bytes that a client still sends are read and discarded for a while.
//!
//! Closing a socket with unread bytes sends a reset, which can destroy the response before the client has read it.

use std::time::Duration;

use freerun_runtime::buffers;
use freerun_runtime::timer::Timer;

use crate::request::ClientConnection;

/// Ends the sending side and reads until the client closes, is silent for `pause`, or `total` has passed.
pub async fn linger(connection: &ClientConnection, timer: &mut Timer, pause: Duration, total: Duration) {
    connection.transport.shutdown_write();
    let start = std::time::Instant::now();
    let mut scratch = buffers::take();
    loop {
        freerun_runtime::loops::consume_budget().await;
        let left = total.saturating_sub(start.elapsed());
        if left.is_zero() {
            break;
        }
        scratch.clear();
        match timer.within(pause.min(left), connection.transport.read(&mut scratch)).await {
            Some(Ok(n)) if n > 0 => {}
            _ => break,
        }
    }
    scratch.clear();
    buffers::give_back(scratch);
}
