//! A client of the toy protocol with blocking calls.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use bytes::BytesMut;
use freerun_http::request::Address;
use freerun_serve::tls::client_facts::TlsFacts;

use super::toy::{Frame, Kind, ToyService};
use crate::in_process::Server;

/// The way in which a response has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ended {
    /// The response has not ended.
    #[default]
    NotYet,
    /// The response is complete.
    Whole,
    /// The server has reset the stream.
    Reset,
}

/// The received part of a response.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub fields: String,
    pub body: Vec<u8>,
    pub trailers: String,
    pub ended: Ended,
}

impl Answer {
    /// The value of a field, by its name in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The carriers of a connection.
#[derive(Debug, Clone, Copy)]
pub enum Carrier {
    /// A byte stream.
    Bytes,
    /// Datagrams.
    Datagrams,
}

/// The client's end of a connection.
enum Socket {
    Bytes(UnixStream),
    Datagrams(UnixDatagram),
}

/// A connection with its streams.
pub struct Client {
    socket: Socket,
    input: BytesMut,
    answers: HashMap<u32, Answer>,
}

impl Client {
    /// Connects. Each response may be `window` bytes long before [`Client::open`] allows more.
    pub fn connect(server: &Server, window: usize) -> Client {
        Client::connect_over(Carrier::Bytes, server, window)
    }

    /// Connects as [`Client::connect`] does, over this carrier.
    pub fn connect_over(carrier: Carrier, server: &Server, window: usize) -> Client {
        let peer = Address::Ip(([192, 0, 2, 7], 4711).into());
        // A test that waits in vain fails after this time.
        let patience = Some(Duration::from_secs(60));
        let socket = match carrier {
            Carrier::Bytes => {
                let socket = server.connect_to(ToyService::NAME, peer);
                socket.set_read_timeout(patience).unwrap();
                Socket::Bytes(socket)
            }
            Carrier::Datagrams => {
                let socket = server.connect_datagrams(peer, None);
                socket.set_read_timeout(patience).unwrap();
                Socket::Datagrams(socket)
            }
        };
        Client::of(socket, window)
    }

    /// Connects over datagrams that a TLS session protects. The server knows these facts about it.
    pub fn connect_with_tls(server: &Server, window: usize, facts: TlsFacts) -> Client {
        let socket = server.connect_datagrams(Address::Ip(([192, 0, 2, 7], 4711).into()), Some(facts));
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client::of(Socket::Datagrams(socket), window)
    }

    fn of(socket: Socket, window: usize) -> Client {
        let mut client = Client { socket, input: BytesMut::new(), answers: HashMap::new() };
        client.open(0, u32::try_from(window).unwrap());
        client
    }

    fn write(&mut self, kind: Kind, stream: u32, payload: &[u8]) {
        let mut out = Vec::new();
        Frame::write(kind, stream, payload, &mut out);
        match &mut self.socket {
            Socket::Bytes(socket) => socket.write_all(&out).unwrap(),
            Socket::Datagrams(socket) => assert_eq!(socket.send(&out).unwrap(), out.len()),
        }
    }

    /// Begins a stream.
    pub fn ask(&mut self, stream: u32, head: &str) {
        self.write(Kind::Head, stream, head.as_bytes());
    }

    /// Begins a stream with the fields of a request of HTTP/2, `name=value`. It has no body, unless `has_body`.
    pub fn ask_by_fields(&mut self, stream: u32, fields: &[&str], has_body: bool) {
        let start = if has_body { "+" } else { "." };
        self.write(Kind::Fields, stream, format!("{start}{}", fields.join("\n")).as_bytes());
    }

    /// Sends a piece of the body.
    pub fn send(&mut self, stream: u32, piece: &[u8]) {
        self.write(Kind::Data, stream, piece);
    }

    /// Ends the body.
    pub fn end(&mut self, stream: u32) {
        self.write(Kind::End, stream, b"");
    }

    /// Resets the request.
    pub fn reset(&mut self, stream: u32) {
        self.write(Kind::Reset, stream, b"");
    }

    /// Opens the window for this number of further bytes.
    pub fn open(&mut self, stream: u32, bytes: u32) {
        self.write(Kind::Window, stream, &bytes.to_be_bytes());
    }

    /// The received part of a response.
    pub fn have(&self, stream: u32) -> Answer {
        self.answers.get(&stream).cloned().unwrap_or_default()
    }

    /// Waits until a response has ended.
    pub fn answer(&mut self, stream: u32) -> Answer {
        self.read_until(|answers| answers.get(&stream).is_some_and(|answer| answer.ended != Ended::NotYet));
        self.have(stream)
    }

    /// Waits until so much of a body has come.
    pub fn wait_for(&mut self, stream: u32, body: &[u8]) {
        self.read_until(|answers| answers.get(&stream).is_some_and(|answer| answer.body == body));
    }

    /// Waits until the server has closed the connection. Everything that it has sent was read before.
    pub fn wait_for_end(&mut self) {
        let mut piece = [0; 16];
        let read = match &mut self.socket {
            Socket::Bytes(socket) => socket.read(&mut piece).unwrap(),
            Socket::Datagrams(socket) => socket.recv(&mut piece).unwrap(),
        };
        assert_eq!((read, self.input.len()), (0, 0), "the server goes on");
    }

    fn read_until(&mut self, is_there: impl Fn(&HashMap<u32, Answer>) -> bool) {
        while !is_there(&self.answers) {
            while let Some(frame) = Frame::read(&mut self.input).unwrap() {
                self.take(frame);
            }
            if is_there(&self.answers) {
                return;
            }
            let mut piece = [0; 65536];
            let read = match &mut self.socket {
                Socket::Bytes(socket) => socket.read(&mut piece).unwrap(),
                Socket::Datagrams(socket) => socket.recv(&mut piece).unwrap(),
            };
            assert!(read > 0, "the server has closed the connection");
            self.input.extend_from_slice(&piece[..read]);
        }
    }

    fn take(&mut self, frame: Frame) {
        let answer = self.answers.entry(frame.stream).or_default();
        assert_eq!(answer.ended, Ended::NotYet, "{frame:?} behind the end");
        let text = || String::from_utf8(frame.payload.to_vec()).unwrap();
        match frame.kind {
            Kind::Head => {
                let text = text();
                let (status, fields) = text.split_once('\n').unwrap();
                (answer.status, answer.fields) = (status.parse().unwrap(), fields.to_owned());
            }
            Kind::Interim => {}
            Kind::Data => answer.body.extend_from_slice(&frame.payload),
            Kind::Trailers => answer.trailers = text(),
            Kind::End => answer.ended = Ended::Whole,
            Kind::Reset => answer.ended = Ended::Reset,
            Kind::Window | Kind::Fields => panic!("a server sends no such frame"),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Socket::Datagrams(socket) = &self.socket {
            // The server may have ended before.
            let _ = socket.send(b"");
        }
    }
}
