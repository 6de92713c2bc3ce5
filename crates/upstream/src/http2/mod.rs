//! Connections of HTTP/2 to upstream servers, each with many exchanges at a time.
//!
//! The machine in [`freerun_proto::h2`] knows the protocol. Here are the bytes and the time: a task for each connection
//! reads and writes (`drive.rs`). The code that has a request answered works on an [`Http2Stream`], whose bytes are
//! [records](crate::exchange::record). A connection stays on its loop. The pool holds a [`Http2Connection`] as a handle of it,
//! and hands out slots of it; a slot becomes a stream by [`Http2Stream::of`].
//!
//! | what happens | what the exchanges on the connection see |
//! |---|---|
//! | the server resets a stream | [`Reset`]; [`Refused`] if it has not looked at the request |
//! | the server closes the connection in order (GOAWAY) | [`GoneAway`], if it has not looked at the request; the others go on |
//! | the server breaks the rules | [`Invalid`] |
//! | the connection ends, or is broken | the end of the stream, or the error of the system call |
//! | the server does not answer a PING while they wait | `TimedOut` |
//!
//! [`Reset`]: crate::exchange::record::ExchangeFault::Reset
//! [`Refused`]: crate::exchange::record::ExchangeFault::Refused
//! [`GoneAway`]: crate::exchange::record::ExchangeFault::GoneAway
//! [`Invalid`]: crate::exchange::record::ExchangeFault::Invalid

mod connection;
mod drive;
mod handle;
mod stream;
#[cfg(test)]
mod tests;

pub use handle::Http2Connection;
pub use stream::Http2Stream;
