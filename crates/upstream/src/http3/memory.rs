//! The memory of all connections of HTTP/3 to upstream servers together. Parts of responses wait until they are read, and parts of
//! requests until they are acknowledged.
//!
//! A server may fill the window of a connection, and all windows together have a bound. Each connection gets a part of what is
//! left, so that the first ones are fast, and many are possible.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use freerun_quic::settings::ConnectionSettings;

/// The bytes of all windows together.
const ALL: u64 = 1 << 30;

/// The part of the rest that a new connection gets.
const PART: u64 = 512;

/// The least and the most bytes of a connection's window.
const LEAST: u64 = 64 << 10;
const MOST: u64 = 2 << 20;

/// The most bytes of a stream's window, as with HTTP/2.
const STREAM: u64 = 1 << 20;

/// The time without a datagram from the server after which a connection without requests ends.
const IDLE: Duration = Duration::from_secs(75);

const _: () = assert!(LEAST <= MOST && MOST <= u32::MAX as u64 && MOST < ALL, "a window is a number of 32 bits");

/// The bytes of the windows of all connections.
static GRANTED: AtomicU64 = AtomicU64::new(0);

/// The number of connections that have a window.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// The memory of all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionMemory {
    /// The number of connections, and of tries to make one.
    pub connections: u64,
    /// Number of bytes that servers may send before they are read.
    pub window_bytes: u64,
    /// Number of bytes of requests that QUIC may keep until servers have acknowledged them.
    pub unacknowledged: u64,
}

impl ConnectionMemory {
    /// The current values.
    pub fn now() -> ConnectionMemory {
        ConnectionMemory {
            connections: CONNECTIONS.load(Relaxed),
            window_bytes: GRANTED.load(Relaxed),
            unacknowledged: UNACKNOWLEDGED.load(Relaxed),
        }
    }
}

/// The window of a connection. Dropping it gives the bytes to others.
#[derive(Debug)]
pub struct ReceiveWindow(u64);

impl ReceiveWindow {
    /// The window of a new connection. `None`: the other connections have all bytes.
    pub fn take() -> Option<ReceiveWindow> {
        let window = ReceiveWindow::take_of(&GRANTED)?;
        CONNECTIONS.fetch_add(1, Relaxed);
        Some(window)
    }

    fn take_of(granted: &AtomicU64) -> Option<ReceiveWindow> {
        let share = |granted: u64| (ALL.saturating_sub(granted) / PART).clamp(LEAST, MOST);
        let grant = |granted: u64| Some(granted + share(granted)).filter(|sum| *sum <= ALL);
        let before = granted.fetch_update(Relaxed, Relaxed, grant).ok()?;
        Some(ReceiveWindow(share(before)))
    }

    /// The settings of the connection.
    pub fn settings(&self) -> ConnectionSettings {
        let number = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        ConnectionSettings {
            max_streams: 0,
            stream_window: number(self.0.min(STREAM)),
            connection_window: number(self.0),
            idle_timeout: IDLE,
            gso: true,
            is_ipv4: false,
        }
    }
}

impl Drop for ReceiveWindow {
    fn drop(&mut self) {
        let before = GRANTED.fetch_sub(self.0, Relaxed);
        debug_assert!(before >= self.0, "a window is given back that nobody had");
        CONNECTIONS.fetch_sub(1, Relaxed);
    }
}

/// The bytes of requests that QUIC may keep, of all connections.
static UNACKNOWLEDGED: AtomicU64 = AtomicU64::new(0);

/// The bytes of requests that QUIC may keep for a connection. They are counted among the bytes of all connections.
#[derive(Debug, Default)]
pub(super) struct UnacknowledgedBytes(Cell<u64>);

impl UnacknowledgedBytes {
    /// The bytes of all other connections.
    pub(super) fn of_others(&self) -> u64 {
        UNACKNOWLEDGED.load(Relaxed).saturating_sub(self.0.get())
    }

    /// Changes the bytes of this connection.
    pub(super) fn set(&self, bytes: u64) {
        let before = self.0.replace(bytes);
        if before != bytes {
            // In this order the sum never falls below what is counted.
            UNACKNOWLEDGED.fetch_add(bytes, Relaxed);
            UNACKNOWLEDGED.fetch_sub(before, Relaxed);
        }
    }
}

impl Drop for UnacknowledgedBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_become_smaller_and_have_an_end() {
        let granted = AtomicU64::new(0);
        let taken: Vec<u64> = std::iter::from_fn(|| {
            let window = ReceiveWindow::take_of(&granted)?;
            let bytes = window.0;
            // The bytes of this test are not those of the process.
            std::mem::forget(window);
            Some(bytes)
        })
        .collect();
        assert_eq!((taken[0], taken.last()), (MOST, Some(&LEAST)));
        assert!(taken.is_sorted_by(|one, other| one >= other) && taken.len() > 2000, "{}", taken.len());
        assert_eq!(taken.iter().sum::<u64>(), granted.load(Relaxed));
        assert!(ALL - granted.load(Relaxed) < LEAST);
    }
}
