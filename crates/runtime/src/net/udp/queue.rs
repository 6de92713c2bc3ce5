//! Datagrams to the peers of one socket, gathered until the end of a loop's turn: the datagrams of many sessions leave
//! with one call.

use std::io::IoSlice;

use super::runs::{self, DatagramRun, DatagramTarget};
use super::socket::{Datagrams, SendProgress, UnsentDatagrams};

/// The most bytes that wait to be sent, besides a single run that is longer than the room left.
const MOST_BYTES: usize = 256 * 1024;

/// The most runs that wait to be sent.
const MOST_RUNS: usize = 1024;

/// The bytes from which on a run is rather sent from where it is than copied.
const COPIED: usize = 16 * 1024;

const _: () = assert!(COPIED < MOST_BYTES, "what is copied has room");

/// Datagrams that wait to be sent by a socket.
#[derive(Debug, Default)]
pub struct SendQueue {
    bytes: Vec<u8>,
    runs: Vec<DatagramRun>,
    /// Number of runs at the beginning that have been sent, and of their bytes.
    sent: (usize, usize),
}

impl SendQueue {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether no further datagram should be appended before those that are there were sent.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= MOST_BYTES || self.runs.len() >= MOST_RUNS
    }

    /// Appends a datagram, or several of `segment` bytes each that follow each other in `bytes`. Returns `false` if the
    /// queue is full: then it is lost.
    pub fn push(&mut self, target: DatagramTarget, bytes: &[u8], segment: Option<usize>) -> bool {
        if self.is_full() {
            return false;
        }
        let is_single = segment.is_none_or(|segment| segment >= bytes.len());
        let joins = is_single
            && self.runs.len() > self.sent.0
            && self.runs.last_mut().is_some_and(|last| last.join(&target, bytes.len()));
        if !joins {
            runs::split(target, bytes, segment, |run, _| self.runs.push(run));
        }
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// Whether datagrams of this length should be sent at once by [`Datagrams::send`] instead: copying them would cost
    /// more than it saves. Only if the queue is empty do they keep their order.
    pub fn is_long(len: usize) -> bool {
        len >= COPIED
    }

    /// Sends what there is. `failed` is called with the datagrams that could not be sent.
    /// Returns whether all is done; if not, the socket is full, and the rest stays.
    pub fn flush(&mut self, socket: &Datagrams, failed: impl FnMut(UnsentDatagrams)) -> bool {
        if self.runs.is_empty() {
            return true;
        }
        let (sent, mut at) = self.sent;
        let parts: Vec<_> = self.runs[sent..]
            .iter()
            .map(|run| {
                let part = IoSlice::new(&self.bytes[at..at + run.len]);
                at += run.len;
                part
            })
            .collect();
        debug_assert_eq!(at, self.bytes.len(), "runs and bytes are appended together");
        let pieces: Vec<_> = self.runs[sent..].iter().zip(parts.chunks(1)).collect();
        match socket.send_all(&pieces, failed) {
            SendProgress::Done => {
                self.clear();
                true
            }
            SendProgress::Full(now) => {
                let bytes: usize = self.runs[sent..sent + now].iter().map(|run| run.len).sum();
                self.sent = (sent + now, self.sent.1 + bytes);
                false
            }
        }
    }

    /// Forgets what there is, and returns how many datagrams are lost by it.
    pub fn clear(&mut self) -> usize {
        let lost = self.runs[self.sent.0..].iter().map(|run| run.count).sum();
        self.runs.clear();
        self.bytes.clear();
        // A burst of long runs does not hold memory for good.
        self.bytes.shrink_to(MOST_BYTES);
        self.sent = (0, 0);
        lost
    }
}
