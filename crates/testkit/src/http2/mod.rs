//! HTTP/2 of the harness (RFC 9113), at the level of frames: [`Http2`] is a client, [`Http2Peer`] a server behind the
//! server under test. Both send whatever a test wants, right or wrong, and check strictly what comes.

mod block;
mod client;
mod flood;
mod frame;
mod message;
mod names;
mod rules;
mod server;
#[cfg(test)]
mod tests;
mod windows;
mod wire;

pub use block::{FieldBlock, Fields};
pub use client::Http2;
pub use flood::FloodOutcome;
pub use frame::Frame;
pub use message::{Away, Message, StreamEnd, StreamResponse};
pub use names::{PREFACE, code, flag, kind, setting};
pub use server::{Http2Peer, Http2Server, ServerReply, StreamRequest, answering};
pub use wire::{FrameHeader, Wire};
