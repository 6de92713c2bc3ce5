//! A client that speaks HTTP/2.

use super::block::FieldBlock;
use super::frame::Frame;
use super::message::{Message, StreamEnd, StreamResponse};
use super::names::{PREFACE, flag, kind, setting};
use super::wire::{Carrier, Wire};
use crate::{ConnectionEnd, TestClient, Tls};
use std::ops::{Deref, DerefMut};

/// A client's side of a connection. What it can do with frames is in [`Wire`]; here is what makes requests of them.
#[derive(Debug)]
pub struct Http2 {
    wire: Wire,
    next: u32,
    scheme: &'static str,
    authority: String,
}

impl Deref for Http2 {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for Http2 {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

impl Http2 {
    /// Sends the preface and empty SETTINGS on a connection, over TCP ("prior knowledge") or TLS.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn new(client: TestClient) -> Http2 {
        Http2::with(client, &[])
    }

    /// Sends the preface and these SETTINGS on a connection.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn with(client: TestClient, settings: &[(u16, u32)]) -> Http2 {
        let mut http2 = Http2::bare(client);
        http2.send_bytes(PREFACE).send(Frame::settings(settings));
        http2
    }

    /// Sends nothing; the test sends the preface.
    pub fn bare(client: TestClient) -> Http2 {
        let scheme = if client.is_tls() { "https" } else { "http" };
        Http2 { wire: Wire::new(Carrier::Client(client)), next: 1, scheme, authority: "localhost".to_owned() }
    }

    /// Begins TLS with `h2` as the only protocol of ALPN, then HTTP/2 with these SETTINGS.
    ///
    /// # Panics
    /// There is no session, or the server does not choose `h2`.
    #[track_caller]
    pub fn tls(client: TestClient, tls: &Tls, settings: &[(u16, u32)]) -> Http2 {
        let client = client.tls(&tls.clone().alpn(&["h2"]));
        assert_eq!(client.agreed().alpn.as_deref(), Some("h2"), "the protocol of ALPN");
        Http2::with(client, settings)
    }

    /// Names this server in the requests that follow instead of `localhost`.
    pub fn set_authority(&mut self, authority: &str) -> &mut Http2 {
        self.authority = authority.to_owned();
        self
    }

    /// The pseudo-fields of a request on this connection.
    pub fn block(&self, method: &str, path: &str) -> FieldBlock {
        FieldBlock::request_to(self.scheme, &self.authority, method, path)
    }

    /// Sends a frame, whatever it is.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn send(&mut self, frame: Frame) -> &mut Http2 {
        self.send_all(&[frame])
    }

    /// Sends frames in one piece, whatever they are.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn send_all(&mut self, frames: &[Frame]) -> &mut Http2 {
        self.wire.send_all(frames);
        self
    }

    /// Sends these bytes as they are; nothing is accounted for.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn send_bytes(&mut self, bytes: impl AsRef<[u8]>) -> &mut Http2 {
        self.wire.send_bytes(bytes);
        self
    }

    /// The connection below, with what was received and not read.
    ///
    /// # Panics
    /// It is not a client's.
    pub fn client(&mut self) -> &mut TestClient {
        match self.wire.carrier() {
            Carrier::Client(client) => client,
            Carrier::Peer(_) => unreachable!("made from a client"),
        }
    }

    /// Drops the connection with a reset.
    pub fn drop_with_reset(self) {
        if let Carrier::Client(client) = self.wire.into_carrier() {
            client.reset();
        }
    }

    // ---- requests -------------------------------------------------------------------------------------------------

    /// The number of the next stream; each call gives another one.
    pub fn next_stream(&mut self) -> u32 {
        let stream = self.next;
        self.next += 2;
        stream
    }

    /// Begins a stream with a block and ends it: a request without a body.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn ask(&mut self, block: impl AsRef<[u8]>) -> u32 {
        let stream = self.next_stream();
        self.wire.send(Frame::headers(stream, block).end());
        stream
    }

    /// Begins a stream with a block; its body has still to come.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn begin(&mut self, block: impl AsRef<[u8]>) -> u32 {
        let stream = self.next_stream();
        self.wire.send(Frame::headers(stream, block));
        stream
    }

    /// Asks for a path with GET, and does not wait for the answer.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn ask_for(&mut self, path: &str) -> u32 {
        self.ask(self.block("GET", path))
    }

    /// GETs a path.
    ///
    /// # Panics
    /// Sending fails. The answer contains its own end. The same holds for the methods below.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> StreamResponse {
        let stream = self.ask_for(path);
        self.answer(stream)
    }

    /// GETs a path with further fields.
    #[track_caller]
    pub fn get_with(&mut self, path: &str, fields: &[(&str, &str)]) -> StreamResponse {
        let stream = self.ask(self.block("GET", path).fields(fields));
        self.answer(stream)
    }

    /// Sends a request without a body.
    #[track_caller]
    pub fn request(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> StreamResponse {
        let stream = self.ask(self.block(method, path).fields(fields));
        self.answer(stream)
    }

    /// Sends a request with a body and its length.
    #[track_caller]
    pub fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> StreamResponse {
        let body = body.as_ref();
        let stream = self.begin(self.block("POST", path).field("content-length", body.len().to_string()));
        self.upload(stream, body, true);
        self.answer(stream)
    }

    /// Sends a block as a request, and reads the answer.
    #[track_caller]
    pub fn exchange(&mut self, block: impl AsRef<[u8]>) -> StreamResponse {
        let stream = self.ask(block);
        self.answer(stream)
    }

    /// Sends a body, as the windows allow, and reads what comes meanwhile. It stops when the stream or the connection
    /// is over. Returns how many bytes were sent.
    #[track_caller]
    pub fn upload(&mut self, stream: u32, body: &[u8], ends: bool) -> usize {
        let most = self.wire.setting(setting::MAX_FRAME_SIZE).min(16_384) as usize;
        let mut sent = 0;
        if body.is_empty() && ends {
            self.wire.send(Frame::data(stream, []).end());
        }
        while sent < body.len() {
            let come = match self.wire.room(stream) {
                0 => self.wire.try_frame().map(drop),
                _ => self.wire.poll(),
            };
            if come.is_err() || self.message_so_far(stream).reset.is_some() {
                break;
            }
            let length = self.wire.room(stream).min(most).min(body.len() - sent);
            if length == 0 {
                continue;
            }
            let frame = Frame::data(stream, &body[sent..sent + length]);
            sent += length;
            let frame = if ends && sent == body.len() { frame.end() } else { frame };
            if self.wire.try_send(&[frame]).is_err() {
                break;
            }
        }
        sent
    }

    fn message_so_far(&self, stream: u32) -> Message {
        let known = self.wire.message(stream);
        // Without the body, which may be long.
        let (whole, reset) = known.map_or((false, None), |message| (message.whole, message.reset));
        Message { whole, reset, ..Message::default() }
    }

    /// Waits until a stream has ended, in whatever way.
    #[track_caller]
    pub fn answer(&mut self, stream: u32) -> StreamResponse {
        let end = loop {
            let message = self.message_so_far(stream);
            if message.whole {
                break StreamEnd::Whole;
            }
            if let Some(code) = message.reset {
                break StreamEnd::Reset(code);
            }
            if let Some(away) = self.wire.away().iter().find(|away| away.last < stream) {
                break StreamEnd::Away(away.code);
            }
            if let Err(ending) = self.wire.try_frame() {
                break StreamEnd::Gone(ending, self.wire.away().last().map(|away| away.code));
            }
        };
        let message = self.wire.message(stream).cloned().unwrap_or_default();
        self.wire.take_message(stream);
        StreamResponse { stream, status: message.status(), message, end }
    }

    /// Waits until the head of an answer has come.
    ///
    /// # Panics
    /// The connection or the stream ends before.
    #[track_caller]
    pub fn head(&mut self, stream: u32) -> u16 {
        self.wait("the head of an answer", |wire| wire.fields(stream).is_some());
        self.wire.message(stream).map_or(0, Message::status)
    }

    /// Waits until `length` bytes of a body have come.
    ///
    /// # Panics
    /// The connection ends before.
    #[track_caller]
    pub fn body_of(&mut self, stream: u32, length: usize) -> Vec<u8> {
        let come = |wire: &Wire| wire.message(stream).is_some_and(|message| message.body.len() >= length);
        self.wait("a part of a body", come);
        self.wire.message(stream).map(|message| message.body.clone()).unwrap_or_default()
    }

    /// Reads frames until a condition holds.
    ///
    /// # Panics
    /// The connection ends before.
    #[track_caller]
    pub fn wait(&mut self, what: &str, holds: impl Fn(&Wire) -> bool) {
        while !holds(&self.wire) {
            if let Err(ending) = self.wire.try_frame() {
                panic!("{ending:?} instead of {what}; {}", self.wire.history());
            }
        }
    }

    /// Waits for RST_STREAM of a stream, which may come after its END_STREAM, and returns its code.
    ///
    /// # Panics
    /// The connection ends before.
    #[track_caller]
    pub fn reset_of(&mut self, stream: u32) -> u32 {
        self.wait("RST_STREAM", |wire| wire.message(stream).is_some_and(|message| message.reset.is_some()));
        self.wire.message(stream).and_then(|message| message.reset).unwrap_or_default()
    }

    /// Reads to the end of the connection; the code of the last GOAWAY, and how the connection ended.
    #[track_caller]
    pub fn end(&mut self) -> (Option<u32>, ConnectionEnd) {
        let ending = self.wire.ending();
        (self.wire.away().last().map(|away| away.code), ending)
    }

    /// Waits for the server's SETTINGS, and for its acknowledgement of the client's SETTINGS.
    ///
    /// # Panics
    /// They do not come.
    #[track_caller]
    pub fn greeted(&mut self) -> &mut Http2 {
        let taken =
            |wire: &Wire| wire.seen().iter().any(|seen| seen.kind == kind::SETTINGS && seen.flags & flag::ACK != 0);
        self.wait("SETTINGS", |wire| wire.settings().is_some() && taken(wire));
        self
    }
}
