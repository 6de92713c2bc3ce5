//! A server that speaks HTTP/2 behind the server under test: it does what a test says, step by step, or answers by
//! itself.

use super::block::{FieldBlock, Fields};
use super::frame::Frame;
use super::message::Message;
use super::names::setting;
use super::wire::{Carrier, Wire};
use crate::{ConnectionEnd, Peer, TestUpstream};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A server's side of a connection. What it can do with frames is in [`Wire`].
#[derive(Debug)]
pub struct Http2Peer {
    wire: Wire,
    /// The streams that were returned already.
    returned: Vec<u32>,
}

impl Deref for Http2Peer {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for Http2Peer {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

/// A request, as far as it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRequest {
    /// The stream.
    pub stream: u32,
    /// The message that has come on it.
    pub message: Message,
}

impl StreamRequest {
    /// The first field of this name, pseudo-fields among them.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.message.field(name)
    }

    /// `:path`.
    pub fn path(&self) -> &str {
        self.field(":path").unwrap_or_default()
    }

    /// `:method`.
    pub fn method(&self) -> &str {
        self.field(":method").unwrap_or_default()
    }
}

/// A whole response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerReply {
    /// The status; 0 answers nothing.
    pub status: u16,
    /// The fields, without `:status`.
    pub fields: Fields,
    /// The body.
    pub body: Vec<u8>,
    /// The fields behind the body.
    pub trailers: Fields,
}

impl ServerReply {
    /// A response of 200 with this body and its length.
    pub fn ok(body: impl AsRef<[u8]>) -> ServerReply {
        let body = body.as_ref().to_vec();
        ServerReply { status: 200, ..ServerReply::default() }
            .field("content-length", &body.len().to_string())
            .body(body)
    }

    /// The response with a further field.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> ServerReply {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The response with this body; its length is not set.
    #[must_use]
    pub fn body(self, body: impl AsRef<[u8]>) -> ServerReply {
        ServerReply { body: body.as_ref().to_vec(), ..self }
    }

    /// The response with a further field behind its body.
    #[must_use]
    pub fn trailer(mut self, name: &str, value: &str) -> ServerReply {
        self.trailers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Http2Peer {
    /// Reads the preface, and sends empty SETTINGS.
    ///
    /// # Panics
    /// The other side begins in another way; the methods below panic, too, if something else comes than they wait for.
    #[track_caller]
    pub fn new(peer: Peer) -> Http2Peer {
        Http2Peer::with(peer, &[])
    }

    /// Reads the preface, and sends these SETTINGS.
    #[track_caller]
    pub fn with(peer: Peer, settings: &[(u16, u32)]) -> Http2Peer {
        let mut peer = Http2Peer::bare(peer);
        peer.send(Frame::settings(settings));
        peer
    }

    /// Reads the preface, and sends nothing.
    #[track_caller]
    pub fn bare(peer: Peer) -> Http2Peer {
        let mut wire = Wire::new(Carrier::Peer(peer));
        wire.take_preface();
        Http2Peer { wire, returned: Vec::new() }
    }

    /// The connection below.
    pub fn peer(&mut self) -> &mut Peer {
        match self.wire.carrier() {
            Carrier::Peer(peer) => peer,
            Carrier::Client(_) => unreachable!("made from a peer"),
        }
    }

    /// The connection below, to end it.
    pub fn into_peer(self) -> Peer {
        match self.wire.into_carrier() {
            Carrier::Peer(peer) => peer,
            Carrier::Client(_) => unreachable!("made from a peer"),
        }
    }

    /// The next stream whose head has come, and that was not returned yet.
    #[track_caller]
    pub fn head(&mut self) -> StreamRequest {
        match self.try_next(|_| true) {
            Ok(asked) => asked,
            Err(ending) => panic!("{ending:?} instead of a request; {}", self.wire.history()),
        }
    }

    /// The next whole request that was not returned yet.
    #[track_caller]
    pub fn request(&mut self) -> StreamRequest {
        match self.try_request() {
            Ok(asked) => asked,
            Err(ending) => panic!("{ending:?} instead of a request; {}", self.wire.history()),
        }
    }

    /// The next whole request that was not returned yet.
    ///
    /// # Errors
    /// The end of the connection.
    pub fn try_request(&mut self) -> Result<StreamRequest, ConnectionEnd> {
        self.try_next(|message| message.whole)
    }

    fn try_next(&mut self, is: impl Fn(&Message) -> bool) -> Result<StreamRequest, ConnectionEnd> {
        loop {
            let ready = self.wire.messages().iter().filter(|(stream, message)| {
                !message.fields.is_empty() && is(message) && message.reset.is_none() && !self.returned.contains(stream)
            });
            if let Some((stream, message)) = ready.min_by_key(|(stream, _)| **stream) {
                let asked = StreamRequest { stream: *stream, message: message.clone() };
                self.returned.push(asked.stream);
                return Ok(asked);
            }
            self.wire.try_frame()?;
        }
    }

    /// The message of a stream when it has ended.
    #[track_caller]
    pub fn rest_of(&mut self, stream: u32) -> Message {
        while !self.wire.message(stream).is_some_and(Message::is_over) {
            self.wire.frame();
        }
        self.wire.take_message(stream)
    }

    /// Answers with a head; `ends` if there is no body.
    #[track_caller]
    pub fn answer_head(&mut self, stream: u32, status: u16, fields: &[(&str, &str)], ends: bool) {
        let frame = Frame::headers(stream, FieldBlock::status(status).fields(fields));
        self.wire.send(if ends { frame.end() } else { frame });
    }

    /// Answers with a whole response, as the windows allow.
    ///
    /// # Errors
    /// The end of the connection.
    pub fn try_answer(&mut self, stream: u32, reply: &ServerReply) -> Result<(), ConnectionEnd> {
        let gone = |_| ConnectionEnd::Reset;
        let write = |block: FieldBlock, fields: &Fields| {
            fields.iter().fold(block, |block, (name, value)| block.field(name, value))
        };
        let head = Frame::headers(stream, write(FieldBlock::status(reply.status), &reply.fields));
        let trailers = (!reply.trailers.is_empty()).then(|| write(FieldBlock::new(), &reply.trailers));
        if reply.body.is_empty() && trailers.is_none() {
            return self.wire.try_send(&[head.end()]).map_err(gone);
        }
        self.wire.try_send(&[head]).map_err(gone)?;
        let most = self.wire.setting(setting::MAX_FRAME_SIZE).min(16_384) as usize;
        let mut left = &reply.body[..];
        while !left.is_empty() {
            if self.wire.message(stream).is_some_and(|message| message.reset.is_some()) {
                return Ok(());
            }
            let (now, later) = left.split_at(self.wire.room(stream).min(most).min(left.len()));
            if now.is_empty() {
                self.wire.try_frame()?;
                continue;
            }
            left = later;
            let frame = Frame::data(stream, now);
            let frame = if left.is_empty() && trailers.is_none() { frame.end() } else { frame };
            self.wire.try_send(&[frame]).map_err(gone)?;
        }
        match trailers {
            Some(block) => self.wire.try_send(&[Frame::headers(stream, block).end()]).map_err(gone),
            None => Ok(()),
        }
    }

    /// Answers with a whole response, as the windows allow.
    #[track_caller]
    pub fn answer(&mut self, stream: u32, reply: &ServerReply) {
        if let Err(ending) = self.try_answer(stream, reply) {
            panic!("{ending:?} within an answer; {}", self.wire.history());
        }
    }
}

/// A server of HTTP/2 that answers by itself.
#[derive(Debug)]
pub struct Http2Server {
    address: String,
    connections: Arc<AtomicUsize>,
}

impl Http2Server {
    /// The address in the form of a `server` directive.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The number of connections that have come.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Calls `answer` for each whole request of each connection, one after the other, until the process ends. A reply with
/// the status 0 is RST_STREAM with INTERNAL_ERROR.
pub fn answering(
    upstream: TestUpstream,
    answer: impl Fn(&StreamRequest) -> ServerReply + Send + Sync + 'static,
) -> Http2Server {
    let (address, connections) = (upstream.address(), Arc::new(AtomicUsize::new(0)));
    let (count, answer) = (connections.clone(), Arc::new(answer));
    std::thread::spawn(move || {
        while let Some(peer) = upstream.try_accept(Duration::from_secs(3600)) {
            count.fetch_add(1, Ordering::SeqCst);
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut peer = Http2Peer::new(peer.patient());
                while let Ok(asked) = peer.try_request() {
                    peer.take_message(asked.stream);
                    let reply = answer(&asked);
                    let done = match reply.status {
                        0 => peer.try_send(&[Frame::reset(asked.stream, super::code::INTERNAL_ERROR)]).is_ok(),
                        _ => peer.try_answer(asked.stream, &reply).is_ok(),
                    };
                    if !done {
                        return;
                    }
                }
            });
        }
    });
    Http2Server { address, connections }
}
