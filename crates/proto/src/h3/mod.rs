//! HTTP/3 (RFC 9114) without sockets: one side of a connection, as a machine. It takes the bytes of QUIC streams, tells
//! what has happened, and makes the bytes to send.
//!
//! Both sides use it. QUIC has flow control and retransmission, so there is less to do than in [`crate::h2`].
//! [`H3Connection`] knows what the frames mean, and its owner moves bytes between it and the QUIC streams. Header
//! compression is [`qpack`]; what a peer may cost is in [`crate::flood`].
//!
//! # What the owner does
//!
//! **Streams of its own.** The machine has bytes for three unidirectional streams, [`OwnStream`]. As long as
//! [`H3Connection::wants_to_write`] names one of them, the owner opens it, if it has not yet, writes of
//! [`H3Connection::output`] what QUIC takes, and says so by [`H3Connection::wrote`]. The control stream has its settings from
//! the beginning. The encoder's stream is best written before streams of responses, the decoder's at the end of a turn.
//! None of them is ever finished or reset.
//!
//! **Receiving.** Bytes of every stream of the peer go to [`H3Connection::receive`], with `fin` if nothing follows them. It
//! is called again with what is left of them until it returns no [`H3Event`]. The bytes of [`H3Event::Data`] are a part of
//! those that were given, so that an owner of `Bytes` gets at them by `slice_ref`, without a copy. A reset of a stream
//! goes to [`H3Connection::peer_resets`], and a request not to send (STOP_SENDING) to [`H3Connection::peer_stops`].
//!
//! **Blocked streams.** A head may need entries of the dynamic table that are still on their way. Then there is
//! [`H3Event::Blocked`], and the stream takes no further bytes: the owner keeps the rest, and reads no more of the stream.
//! When [`H3Connection::take_unblocked`] returns the stream, it gives the rest, or nothing, to `receive` again.
//! `take_unblocked` is to be looked at whenever bytes of a unidirectional stream were received.
//!
//! **Large heads.** [`H3Event::TooLarge`] comes instead of a request's head that passes a limit. The owner answers it, and
//! nothing else of the request comes.
//!
//! **Ends of streams.** [`H3Event::Reset`] that is not `by_peer` ends broken and refused requests, and unknown streams.
//! The owner resets its half of the stream, if it has one, and stops reading (STOP_SENDING), both with the code of the
//! event. If it is `by_peer`, the owner does the same with `H3_REQUEST_CANCELLED`. The
//! machine throws away what still comes of a request's stream. It does not know refused unidirectional streams again,
//! so their bytes must not come.
//!
//! **Responses and requests.** [`H3Connection::head`] and [`H3Connection::trailers`] append bytes for the stream to the
//! owner's buffer. For a piece of a body, [`H3Connection::data`] returns the head of its frame, and the owner writes the
//! piece behind it. [`H3Connection::end`] says how the stream ends. How much may be written is QUIC's business; so are
//! priorities among streams, which are in [`H3Event::Priority`] and [`H3Connection::priority`].
//!
//! **Ends of connections.** An error, or [`H3Connection::failure`], is what the QUIC connection is closed with. A graceful
//! end has two steps: [`H3Connection::announce_end`], then after a round trip [`H3Connection::finish`].
//!
//! **Time.** Requests whose heads do not come are found by [`H3Connection::awaited_since`] and ended by
//! [`H3Connection::take_late`].
//!
//! # A client
//!
//! A client opens a bidirectional stream and gives its number to [`H3Connection::open`]. Everything else is the same; its
//! `Head` may be of an interim response. [`H3Connection::take_unprocessed`] returns the streams that the server has not
//! looked at.

pub mod frame;
pub mod qpack;
pub mod settings;

mod connection;
mod control;
mod fields;
mod invariants;
mod lists;
mod output;
mod reader;
mod receive;
mod send;
mod stream;
#[cfg(test)]
mod tests;
mod unidirectional;

pub use crate::priority::Priority;
pub use crate::role::Role;
pub use connection::{H3Config, H3Connection, H3ConnectionError};
pub use frame::{DataHead, H3ErrorCode};
pub use output::OwnStream;
pub use receive::H3Event;
pub use stream::StreamId;
