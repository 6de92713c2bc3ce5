//! The driver of HTTP/1: the requests of a connection one after the other.
//!
//! [`requests`](mod@requests) serves them until none has come. A [`Continuation`] says what the connection does then. The
//! caller owns the connection, waits with it for the next request, and calls again.

mod file;
mod linger;
mod one_request;
pub mod read;
mod requests;
mod send;
pub mod tunnel_request;
mod upgraded_connection;
mod words;
mod writer;

pub use requests::{Continuation, requests};
pub use upgraded_connection::UpgradedConnection;

use crate::request::ClientConnection;

/// Answers a client whose request was ended by a panic. Nothing may have been sent to it.
pub fn answer_panic(connection: &ClientConnection) {
    let sorry = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    // The panic is in the log; a client that cannot take these bytes notices that the connection is closed.
    let _ = connection.transport.try_write(&[std::io::IoSlice::new(sorry)], false);
}
