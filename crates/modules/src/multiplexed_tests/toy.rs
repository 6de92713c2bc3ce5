//! A toy protocol that carries several requests at once, and its driver, with the features of HTTP/2 that matter here.
//!
//! A frame is a kind, the number of its stream, the length of its payload (both four bytes, big-endian), and the
//! payload. The client begins a stream with a head in the syntax of HTTP/1, or with the fields of one of HTTP/2. It opens
//! windows as it reads bytes; the server does not send more than they allow. There is no window for bodies of requests, because a test sends little.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use freerun_http::connection::idle::{AwaitedRequest, Keep, Key};
use freerun_http::connection::stream::{ResponseHead, Stream, StreamError};
use freerun_http::http_loop::HttpLoop;
use freerun_http::message::head::Head;
use freerun_http::message::scratch::RequestScratch;
use freerun_http::protocol::multiplexed::{ArrivedRequest, field_rules, serve};
use freerun_http::request::ClientConnection;
use freerun_http::request::response::Field;
use freerun_http::settings::http2::Http2Settings;
use freerun_proto::head::{FieldHead, FieldHeadBuilder, FieldRules, Pseudo};
use freerun_proto::{BodyFraming, HeadRules, HeaderId, Method, Version, parse_request};
use freerun_runtime::loops;
use freerun_serve::accept::service::{AcceptedConnection, CloseAnswer, Service};
use freerun_serve::loops::state::LoopState;

use super::wire::Wire;

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The head of a request, or of a response.
    Head = 1,
    /// The head of an interim response.
    Interim,
    /// A piece of a body.
    Data,
    /// The trailer fields.
    Trailers,
    /// The message is complete.
    End,
    /// The stream is over, and its message is not complete.
    Reset,
    /// The peer may send this number of further bytes.
    Window,
    /// The fields of the head of a request of HTTP/2, `name=value` on lines, and pseudo-header fields are among them. The first
    /// byte is `.` if there is no body.
    Fields,
}

impl Kind {
    const ALL: [Kind; 8] =
        [Kind::Head, Kind::Interim, Kind::Data, Kind::Trailers, Kind::End, Kind::Reset, Kind::Window, Kind::Fields];

    fn of(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The number of bytes before the payload of a frame.
const FRAME_HEAD: usize = 9;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    pub stream: u32,
    pub payload: Bytes,
}

impl Frame {
    /// Appends the encoded frame.
    pub fn write(kind: Kind, stream: u32, payload: &[u8], out: &mut impl Extend<u8>) {
        out.extend([kind as u8]);
        out.extend(stream.to_be_bytes());
        out.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        out.extend(payload.iter().copied());
    }

    /// Takes the first frame from the input, if it is complete.
    pub fn read(input: &mut BytesMut) -> io::Result<Option<Frame>> {
        let Some(head) = input.get(..FRAME_HEAD) else { return Ok(None) };
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let (kind, stream, len) = (head[0], number(1), number(5) as usize);
        if input.len() < FRAME_HEAD + len {
            return Ok(None);
        }
        let kind = Kind::of(kind).ok_or(io::ErrorKind::InvalidData)?;
        let payload = input.split_to(FRAME_HEAD + len).split_off(FRAME_HEAD).freeze();
        Ok(Some(Frame { kind, stream, payload }))
    }
}

/// The state that the requests of a connection share with its driver.
#[derive(Default)]
struct Shared {
    /// The number of bytes of each response that may be sent before the client opens its window.
    window: usize,
    streams: HashMap<u32, State>,
    /// The number of requests that go on.
    requests: usize,
    out: BytesMut,
    driver: Option<Waker>,
}

/// The driver's state of a stream.
#[derive(Default)]
struct State {
    body: VecDeque<Bytes>,
    has_ended: bool,
    is_gone: bool,
    window: usize,
    waiting: Vec<Waker>,
}

impl State {
    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

/// The stream of one request.
struct ToyStream {
    shared: Rc<RefCell<Shared>>,
    number: u32,
}

impl ToyStream {
    fn state<T>(&self, use_it: impl FnOnce(&mut State) -> T) -> T {
        use_it(self.shared.borrow_mut().streams.entry(self.number).or_default())
    }

    fn send(&self, kind: Kind, payload: &[u8]) {
        let mut shared = self.shared.borrow_mut();
        let shared = &mut *shared;
        if shared.streams.get(&self.number).is_some_and(|state| !state.is_gone) {
            Frame::write(kind, self.number, payload, &mut shared.out);
            shared.driver.take().into_iter().for_each(Waker::wake);
        }
    }

    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        look: impl FnOnce(&mut State) -> Option<T>,
    ) -> Poll<Result<T, StreamError>> {
        self.state(|state| {
            if state.is_gone {
                return Poll::Ready(Err(StreamError::Reset));
            }
            match look(state) {
                Some(value) => Poll::Ready(Ok(value)),
                None => {
                    state.waiting.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

/// Encodes a head or trailers: the status, if there is one, and a line for each field.
fn lines<'f>(status: Option<u16>, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Vec<u8> {
    let mut out = status.map(|status| format!("{status}\n").into_bytes()).unwrap_or_default();
    for (name, value) in fields {
        out.extend_from_slice(&[name, b": ", value, b"\n"].concat());
    }
    out
}

impl Stream for ToyStream {
    fn poll_body(&self, context: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, StreamError>> {
        self.poll(context, |state| match state.body.front_mut() {
            Some(piece) if piece.len() > most => Some(Some(piece.split_to(most))),
            Some(_) => Some(state.body.pop_front()),
            None => state.has_ended.then_some(None),
        })
    }

    fn send_interim(&self, head: &ResponseHead) {
        self.send(Kind::Interim, &lines(Some(head.status), head.fields.iter()));
    }

    fn send_head(&self, head: &ResponseHead, ends: bool) {
        self.send(Kind::Head, &lines(Some(head.status), head.fields.iter()));
        if ends {
            self.send(Kind::End, b"");
        }
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<usize, StreamError>> {
        self.poll(context, |state| (state.window > 0).then_some(state.window))
    }

    fn send_data(&self, data: Bytes, ends: bool) {
        let left = self.state(|state| state.window.checked_sub(data.len()).map(|left| state.window = left));
        left.expect("nobody sends more than there is room for");
        if !data.is_empty() {
            self.send(Kind::Data, &data);
        }
        if ends {
            self.send(Kind::End, b"");
        }
    }

    fn send_trailers(&self, fields: &[Field]) {
        self.send(Kind::Trailers, &lines(None, fields.iter().map(|(name, value)| (&name[..], &value[..]))));
        self.send(Kind::End, b"");
    }

    fn reset(&self) {
        self.send(Kind::Reset, b"");
    }

    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        self.state(|state| {
            if state.is_gone {
                return Poll::Ready(());
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
    }

    fn certain_room(&self) -> usize {
        self.state(|state| state.window)
    }
}

/// The service for connections that use the toy protocol, beside `http` on the same loop.
pub struct ToyService {
    loop_state: Rc<LoopState>,
}

impl ToyService {
    /// The service's name in a listening socket's configuration.
    pub const NAME: &str = "toy";

    /// Makes the service of this loop.
    pub fn make(loop_state: &Rc<LoopState>) -> Rc<dyn Service> {
        Rc::new(ToyService { loop_state: loop_state.clone() })
    }
}

impl Service for ToyService {
    fn name(&self) -> &'static str {
        ToyService::NAME
    }

    fn accept(self: Rc<Self>, accepted: AcceptedConnection) {
        let AcceptedConnection { number, transport, peer, listen, .. } = accepted;
        let connection = ClientConnection::new(number, transport, peer, listen, self.loop_state.clone());
        drive(Wire::Bytes(Rc::new(connection)));
    }

    fn renew(self: Rc<Self>) {}

    fn drain(self: Rc<Self>) {}

    fn oldest_idle(&self) -> Option<u64> {
        None
    }

    fn close_oldest(&self) -> CloseAnswer {
        CloseAnswer::NoneIdle
    }

    fn give_back(&self) {}
}

/// Serves a connection with the toy protocol. Its first frame, a window for stream 0, gives the number of bytes of each
/// response that may be sent before the client opens its window.
pub fn drive(wire: Wire) {
    let (number, loop_state) = (wire.facts().number, wire.facts().loop_state.clone());
    let http = HttpLoop::of(&loop_state).unwrap();
    loops::spawn(number, "a toy protocol", async move {
        let shared = Rc::new(RefCell::new(Shared::default()));
        let mut driver = ToyDriver { http, wire, shared: shared.clone(), input: BytesMut::new(), idle: None };
        // However the connection ends, its streams have no driver afterwards.
        let _ = poll_fn(|context| driver.poll(context)).await;
        driver.leave_idle();
        driver.wire.end();
        for state in shared.borrow_mut().streams.values_mut() {
            state.is_gone = true;
            state.wake();
        }
        loop_state.admission.end();
    });
}

/// The driver of a connection.
struct ToyDriver {
    http: Rc<HttpLoop>,
    wire: Wire,
    shared: Rc<RefCell<Shared>>,
    input: BytesMut,
    /// The place among the idle connections, while there is no request.
    idle: Option<Key>,
}

impl ToyDriver {
    /// Ready when the connection is to end.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.set_driver(context);
        loop {
            while let Some(frame) = Frame::read(&mut self.input)? {
                self.leave_idle();
                take(&self.http, &self.wire, &self.shared, frame);
            }
            {
                let mut shared = self.shared.borrow_mut();
                if let Poll::Ready(sent) = self.wire.poll_write(context, &mut shared.out) {
                    sent?;
                }
                shared.driver = Some(context.waker().clone());
            }
            match self.wire.poll_read(context, &mut self.input)? {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(Ok(())),
                Poll::Pending if self.is_over() => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    self.enter_idle();
                    return Poll::Pending;
                }
            }
        }
    }

    /// Whether no request goes on, and everything is sent.
    fn is_idle(&self) -> bool {
        let shared = self.shared.borrow();
        shared.requests == 0 && shared.out.is_empty()
    }

    /// Whether the connection ends now, because it was asked to close, or because the worker is shutting down.
    fn is_over(&self) -> bool {
        let facts = self.wire.facts();
        let drains = facts.loop_state.is_draining() && facts.requests.get() > 0;
        self.is_idle() && (self.wire.is_closing() || drains)
    }

    fn enter_idle(&mut self) {
        if self.idle.is_some() || !self.is_idle() {
            return;
        }
        let facts = self.wire.facts();
        self.http.renew_connection_of(facts, || facts.listen.address());
        let is_fresh = facts.requests.get() == 0;
        let waiting = if is_fresh { AwaitedRequest::First } else { AwaitedRequest::Next };
        self.idle = Some(self.wire.enter_idle(&self.http, waiting, Keep::at_most(Duration::from_secs(600))));
        self.wire.facts().loop_state.admission.one_may_leave();
    }

    fn leave_idle(&mut self) {
        if let Some(key) = self.idle.take() {
            assert!(self.http.idle.leave(key).is_some(), "it is entered once and left once");
        }
    }
}

/// Makes the head of a request of its fields, in the payload of a frame.
fn built(payload: &[u8], rules: &FieldRules) -> FieldHead {
    let mut builder = FieldHeadBuilder::new(Vec::new(), None);
    let ends = payload[0] == b'.';
    for line in payload[1..].split(|byte| *byte == b'\n') {
        let at = line.iter().position(|byte| *byte == b'=').unwrap();
        let (name, value) = (&line[..at], &line[at + 1..]);
        match Pseudo::of(name) {
            Some(Pseudo::Unknown) => builder.unknown_pseudo(name),
            Some(which) => builder.pseudo(which, value, rules),
            None => builder.field(HeaderId::of(name), name, value, rules),
        }
    }
    builder.finish(Version::Http2, rules, ends)
}

/// Begins to serve a request.
fn begin(
    http: &Rc<HttpLoop>,
    wire: &Wire,
    shared: &Rc<RefCell<Shared>>,
    number: u32,
    FieldHead { buffer, parsed, fault, received, .. }: FieldHead,
) {
    let (has_body, declared) = match parsed.body {
        // The stream of a tunnel goes on.
        BodyFraming::None => (parsed.method == Method::Connect, None),
        BodyFraming::Length(length) => (true, Some(length)),
        BodyFraming::Chunked => (true, None),
    };
    let window = shared.borrow().window;
    shared.borrow_mut().streams.insert(number, State { window, ..State::default() });
    let stream = Rc::new(ToyStream { shared: shared.clone(), number });
    let arrived =
        ArrivedRequest { head: Head::new(buffer, parsed), has_body, declared, serial: number.into(), fault, received };
    let (http, client) = (http.clone(), wire.client(stream));
    shared.borrow_mut().requests += 1;
    let shared = shared.clone();
    loops::spawn(client.number, "a stream", async move {
        serve(&http, client, arrived, &mut RequestScratch::default()).await;
        let mut shared = shared.borrow_mut();
        shared.requests -= 1;
        shared.driver.take().into_iter().for_each(Waker::wake);
    });
}

fn take(http: &Rc<HttpLoop>, wire: &Wire, shared: &Rc<RefCell<Shared>>, frame: Frame) {
    let number = frame.stream;
    match frame.kind {
        Kind::Head => {
            let buffer = frame.payload.to_vec();
            let parsed = parse_request(&buffer, &HeadRules::default()).unwrap().unwrap();
            begin(
                http,
                wire,
                shared,
                number,
                FieldHead { buffer, parsed, fault: None, is_extended_connect: false, received: 0 },
            );
        }
        Kind::Fields => {
            let facts = wire.facts();
            let (_, servers, _) = http.servers_of(facts, || facts.listen.address()).unwrap();
            let settings = &servers.entry.settings;
            let rules = field_rules(settings, settings.get::<Http2Settings>().http2_extended_connect);
            begin(http, wire, shared, number, built(&frame.payload, &rules));
        }
        Kind::Window if number == 0 => {
            shared.borrow_mut().window = u32::from_be_bytes(frame.payload[..].try_into().unwrap()) as usize;
        }
        kind => {
            let mut shared = shared.borrow_mut();
            let Some(state) = shared.streams.get_mut(&number) else { return };
            match kind {
                Kind::Data => state.body.push_back(frame.payload),
                Kind::End => state.has_ended = true,
                Kind::Reset => state.is_gone = true,
                Kind::Window => state.window += u32::from_be_bytes(frame.payload[..].try_into().unwrap()) as usize,
                other => panic!("a client sends no {other:?}"),
            }
            state.wake();
        }
    }
}
