//! Datagrams on a loop: UDP sockets that take and send many of them with one system call, for sessions of `stream` and
//! for QUIC.
//!
//! The kernel's own work for a datagram is the same whoever asks for it; what a server can save is the calls. A socket
//! takes [`BATCH`] datagrams with one `recvmmsg(2)`; each may be up to 64 that the kernel has received in a row from
//! one sender (`UDP_GRO`). Datagrams of one size to one peer leave as one message that the kernel takes apart
//! (`UDP_SEGMENT`), and different messages together with `sendmmsg(2)`. The memory for them is lent by the loop: it has
//! one set of buffers for all of its sockets.
//!
//! 1. `runs`: which datagrams may leave as one message;
//! 2. [`Datagrams`]: a socket of a loop;
//! 3. [`SendQueue`]: datagrams to many peers, until the end of a loop's turn;
//! 4. [`steering`]: which socket of several gets a datagram.

mod datagram_buffers;
mod queue;
mod runs;
mod socket;
pub mod steering;

pub use datagram_buffers::{BATCH, LONGEST_RUN};
pub use freerun_sys::datagrams::{DatagramDetail, DatagramOptions, Ecn, ReceivedDatagrams, Receiver};
pub use queue::SendQueue;
pub use runs::{DatagramTarget, Runs, most_in_run};
pub use socket::{Datagrams, UnsentDatagrams};

/// The most bytes that a datagram can carry, over IPv4 (RFC 768: a length of 16 bits, less the headers).
pub const LONGEST: usize = 65_507;

#[cfg(test)]
mod tests;
