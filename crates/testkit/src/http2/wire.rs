//! A connection of HTTP/2, from either side: frames go out as a test wants them, and come in with everything accounted
//! for that the protocol knows (windows, tables, streams).

use super::block::{Decoder, Fields};
use super::frame::Frame;
use super::message::{Away, Message};
use super::names::{PREFACE, flag, kind, setting};
use super::rules;
use super::windows::Windows;
use crate::{ConnectionEnd, Peer, TestClient};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::mem::take;
use std::time::Duration;

/// The carrier of the bytes.
#[derive(Debug)]
pub(super) enum Carrier {
    Client(TestClient),
    Peer(Peer),
}

/// A frame that has come, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The type ([`kind`]).
    pub kind: u8,
    /// The flags ([`flag`]).
    pub flags: u8,
    /// The stream.
    pub stream: u32,
    /// The length of the payload, in bytes.
    pub length: usize,
}

/// A side of a connection. SETTINGS and PING are answered, and windows are opened again as bodies come, unless the test
/// does that by hand. All reading panics if the other side breaks a rule of the protocol.
#[derive(Debug)]
pub struct Wire {
    carrier: Carrier,
    received: Vec<u8>,
    decoder: Decoder,
    answers: bool,
    windows: Windows,
    /// The settings of this side. A setting that is not in it has the protocol's default.
    own: BTreeMap<u16, u32>,
    /// Settings that were sent and that the other side has not answered, the oldest first.
    unanswered: Vec<Vec<(u16, u32)>>,
    theirs: Option<BTreeMap<u16, u32>>,
    messages: HashMap<u32, Message>,
    /// The block of fields that is coming: its stream, the flags of its HEADERS, the bytes so far.
    coming: Option<(u32, u8, Vec<u8>)>,
    away: Vec<Away>,
    seen: Vec<FrameHeader>,
    pongs: Vec<Vec<u8>>,
}

impl Wire {
    pub(super) fn new(carrier: Carrier) -> Wire {
        Wire {
            carrier,
            received: Vec::new(),
            decoder: Decoder::new(4096),
            answers: true,
            windows: Windows::default(),
            own: BTreeMap::new(),
            unanswered: Vec::new(),
            theirs: None,
            messages: HashMap::new(),
            coming: None,
            away: Vec::new(),
            seen: Vec::new(),
            pongs: Vec::new(),
        }
    }

    fn is_client(&self) -> bool {
        matches!(self.carrier, Carrier::Client(_))
    }

    // ---- how this side behaves ------------------------------------------------------------------------------------

    /// From now on SETTINGS and PING are not answered.
    pub fn silent(&mut self) -> &mut Wire {
        self.answers = false;
        self
    }

    /// From now on windows are opened by the test alone ([`open_window`](Self::open_window)).
    pub fn windows_by_hand(&mut self) -> &mut Wire {
        self.windows.by_hand = true;
        self
    }

    /// Sets how long to wait for the next byte from now on.
    pub fn set_timeout(&mut self, timeout: Duration) -> &mut Wire {
        match &mut self.carrier {
            Carrier::Client(client) => drop(client.set_timeout(timeout)),
            Carrier::Peer(peer) => peer.set_timeout(timeout),
        }
        self
    }

    // ---- sending --------------------------------------------------------------------------------------------------

    /// Sends these bytes as they are; nothing is accounted for.
    ///
    /// # Errors
    /// The error of `send(2)`.
    pub fn try_send_bytes(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        match &mut self.carrier {
            Carrier::Client(client) => client.try_send(bytes),
            Carrier::Peer(peer) => peer.try_send(bytes),
        }
    }

    /// Sends these bytes as they are; nothing is accounted for.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn send_bytes(&mut self, bytes: impl AsRef<[u8]>) -> &mut Wire {
        if let Err(error) = self.try_send_bytes(bytes) {
            panic!("sending: {error}");
        }
        self
    }

    /// Sends frames in one piece, whatever they are.
    ///
    /// # Errors
    /// The error of `send(2)`.
    pub fn try_send(&mut self, frames: &[Frame]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for frame in frames {
            self.account(frame);
            bytes.extend(frame.bytes());
        }
        self.try_send_bytes(bytes)
    }

    /// Sends a frame, whatever it is.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn send(&mut self, frame: Frame) -> &mut Wire {
        self.send_all(&[frame])
    }

    /// Sends frames in one piece, whatever they are.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn send_all(&mut self, frames: &[Frame]) -> &mut Wire {
        if let Err(error) = self.try_send(frames) {
            panic!("sending: {error}");
        }
        self
    }

    /// Notes the changes that a frame makes for this side when it goes out.
    fn account(&mut self, frame: &Frame) {
        let stream = frame.stream;
        match frame.kind {
            kind::DATA => self.windows.sent(stream, frame.payload.len()),
            kind::WINDOW_UPDATE => self.windows.opened(stream, frame.number(0).unwrap_or(0)),
            kind::RST_STREAM => self.messages.entry(stream).or_default().given_up = true,
            kind::SETTINGS if !frame.has(flag::ACK) => {
                let parameters = frame.parameters();
                // What is allowed holds at once, because the answer may come behind what makes use of it.
                for (name, value) in &parameters {
                    self.allow(*name, *value, false);
                }
                self.unanswered.push(parameters);
            }
            kind::HEADERS if self.is_client() => {
                self.messages.entry(stream).or_default();
                self.windows.begin(stream);
            }
            _ => {}
        }
    }

    /// A setting of this side holds; before it is answered, only if it allows more.
    fn allow(&mut self, name: u16, value: u32, answered: bool) {
        let present = self.own(name);
        if answered || value > present {
            self.own.insert(name, value);
            match name {
                setting::HEADER_TABLE_SIZE => self.decoder.allow(value),
                setting::INITIAL_WINDOW_SIZE => self.windows.set_own(value),
                _ => {}
            }
        }
    }

    /// The value of a setting of this side.
    fn own(&self, name: u16) -> u32 {
        self.own.get(&name).copied().unwrap_or_else(|| default(name))
    }

    /// Opens the window of a stream, or of the connection (0), by `more` bytes.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn open_window(&mut self, stream: u32, more: u32) -> &mut Wire {
        self.send(Frame::window(stream, more))
    }

    /// Makes a stream known whose HEADERS are sent as bare bytes.
    pub fn expect(&mut self, stream: u32) -> &mut Wire {
        self.messages.entry(stream).or_default();
        self.windows.begin(stream);
        self
    }

    /// Makes it known that SETTINGS without parameters were sent as bare bytes.
    pub fn expect_settings_taken(&mut self) -> &mut Wire {
        self.unanswered.push(Vec::new());
        self
    }

    // ---- receiving ------------------------------------------------------------------------------------------------

    /// The next frame. Its consequences are accounted for.
    ///
    /// # Errors
    /// The end of the connection, or of the time.
    ///
    /// # Panics
    /// The other side breaks a rule.
    #[track_caller]
    pub fn try_frame(&mut self) -> Result<Frame, ConnectionEnd> {
        loop {
            if let Some((frame, used)) = Frame::parse(&self.received) {
                self.received.drain(..used);
                if let Err(why) = self.take(&frame) {
                    panic!("against the rules: {why}; {}", self.history());
                }
                return Ok(frame);
            }
            match &mut self.carrier {
                Carrier::Client(client) => client.more(&mut self.received)?,
                Carrier::Peer(peer) => peer.more(&mut self.received)?,
            }
        }
    }

    /// The next frame.
    ///
    /// # Panics
    /// No frame comes.
    #[track_caller]
    pub fn frame(&mut self) -> Frame {
        match self.try_frame() {
            Ok(frame) => frame,
            Err(ending) => panic!("{ending:?} instead of a frame; {}", self.history()),
        }
    }

    /// Reads frames until one satisfies a condition.
    ///
    /// # Panics
    /// No such frame comes.
    #[track_caller]
    pub fn until(&mut self, what: &str, is: impl Fn(&Frame) -> bool) -> Frame {
        loop {
            match self.try_frame() {
                Ok(frame) if is(&frame) => return frame,
                Ok(_) => {}
                Err(ending) => panic!("{ending:?} instead of {what}; {}", self.history()),
            }
        }
    }

    /// Reads what has come already, and does not wait.
    ///
    /// # Errors
    /// The end of the connection.
    #[track_caller]
    pub fn poll(&mut self) -> Result<(), ConnectionEnd> {
        loop {
            while Frame::parse(&self.received).is_some() {
                self.try_frame()?;
            }
            let came = match &mut self.carrier {
                Carrier::Client(client) => client.more_at_once(&mut self.received)?,
                Carrier::Peer(_) => false,
            };
            if !came {
                return Ok(());
            }
        }
    }

    /// Reads to the end of the connection, and tells what it was.
    #[track_caller]
    pub fn ending(&mut self) -> ConnectionEnd {
        loop {
            if let Err(ending) = self.try_frame() {
                return ending;
            }
        }
    }

    /// Sends a PING and waits for the answer, so that all that was sent before has been read by the other side.
    ///
    /// # Panics
    /// No answer comes.
    #[track_caller]
    pub fn round_trip(&mut self) -> &mut Wire {
        let question = (self.pongs.len() as u64 | 0x7e57 << 48).to_be_bytes();
        self.send(Frame::ping(question));
        self.until("the answer to a PING", |frame| {
            frame.kind == kind::PING && frame.has(flag::ACK) && frame.payload == question
        });
        self
    }

    /// The client's preface; for a server.
    ///
    /// # Panics
    /// Something else comes.
    #[track_caller]
    pub(super) fn take_preface(&mut self) {
        let Carrier::Peer(peer) = &mut self.carrier else { unreachable!("a server has a peer") };
        let bytes = peer.bytes(PREFACE.len());
        assert!(bytes == PREFACE, "no preface: {}", bytes.escape_ascii());
    }

    fn take(&mut self, frame: &Frame) -> Result<(), String> {
        let (kind, flags, stream) = (frame.kind, frame.flags, frame.stream);
        self.seen.push(FrameHeader { kind, flags, stream, length: frame.payload.len() });
        rules::frame(frame, self.own(setting::MAX_FRAME_SIZE))?;
        if let Some((begun, ..)) = &self.coming
            && (kind, stream) != (kind::CONTINUATION, *begun)
        {
            return Err(format!("{frame:?} within a block of fields"));
        }
        if self.theirs.is_none() && (kind != kind::SETTINGS || frame.has(flag::ACK)) {
            return Err(format!("{frame:?} before SETTINGS"));
        }
        match kind {
            kind::DATA => self.take_data(frame),
            kind::HEADERS => self.take_headers(frame),
            kind::CONTINUATION => self.take_continuation(frame),
            kind::SETTINGS => self.take_settings(frame),
            kind::RST_STREAM => {
                let message = self.known(frame)?;
                if message.reset.is_some() {
                    return Err(format!("{frame:?} on a stream that was reset"));
                }
                message.reset = frame.number(0);
                Ok(())
            }
            kind::PING if frame.has(flag::ACK) => {
                self.pongs.push(frame.payload.clone());
                Ok(())
            }
            kind::PING => {
                self.reply(Frame { flags: flag::ACK, ..frame.clone() });
                Ok(())
            }
            kind::GOAWAY => {
                let (last, code) = (frame.number(0).unwrap_or(0), frame.number(4).unwrap_or(0));
                let text = String::from_utf8_lossy(&frame.payload[8..]).into_owned();
                let before = self.away.last().map_or(u32::MAX, |away| away.last);
                self.away.push(Away { last, code, text });
                if last > before { Err(format!("{frame:?} after one with {before}")) } else { Ok(()) }
            }
            kind::WINDOW_UPDATE => self.windows.got_update(stream, frame.number(0).unwrap_or(0)),
            _ => Ok(()),
        }
    }

    /// The message of a frame's stream, on which something may still come.
    fn known(&mut self, frame: &Frame) -> Result<&mut Message, String> {
        let message = self.messages.get_mut(&frame.stream);
        message.ok_or_else(|| format!("{frame:?} on a stream that nobody has begun"))
    }

    /// Answers, unless that is the test's business. If the other side has gone, it misses the answer.
    fn reply(&mut self, frame: Frame) {
        if self.answers {
            let _ = self.try_send(&[frame]);
        }
    }

    fn take_settings(&mut self, frame: &Frame) -> Result<(), String> {
        if frame.has(flag::ACK) {
            if self.unanswered.is_empty() {
                return Err("SETTINGS are answered that were not sent".to_owned());
            }
            for (name, value) in self.unanswered.remove(0) {
                self.allow(name, value, true);
            }
            return Ok(());
        }
        let parameters = frame.parameters();
        rules::settings(&parameters, self.is_client())?;
        let theirs = self.theirs.get_or_insert_default();
        theirs.extend(parameters.iter().copied());
        if let Some(size) = theirs.get(&setting::INITIAL_WINDOW_SIZE) {
            self.windows.set_theirs(*size);
        }
        self.reply(Frame::settings_taken());
        Ok(())
    }

    fn take_data(&mut self, frame: &Frame) -> Result<(), String> {
        let content = frame.content()?.to_vec();
        let message = self.known(frame)?;
        if message.is_over() || message.fields.is_empty() {
            return Err(format!("{frame:?} {}", if message.is_over() { "after the end" } else { "before the head" }));
        }
        message.body.extend(content);
        message.whole = frame.has(flag::END_STREAM);
        let open = !message.whole && !message.given_up;
        if message.whole {
            rules::length(message)?;
        }
        for (stream, more) in self.windows.received(frame.stream, frame.payload.len(), open)? {
            // A server that has gone misses it.
            let _ = self.try_send(&[Frame::window(stream, more)]);
        }
        Ok(())
    }

    fn take_headers(&mut self, frame: &Frame) -> Result<(), String> {
        if !self.is_client() && !self.messages.contains_key(&frame.stream) {
            let last = self.messages.keys().max().copied().unwrap_or(0);
            if frame.stream.is_multiple_of(2) || frame.stream < last {
                return Err(format!("{frame:?} after stream {last}"));
            }
            self.messages.insert(frame.stream, Message::default());
            self.windows.begin(frame.stream);
        }
        let message = self.known(frame)?;
        if message.is_over() {
            return Err(format!("{frame:?} after the end"));
        }
        self.coming = Some((frame.stream, frame.flags, frame.content()?.to_vec()));
        self.end_block(frame)
    }

    fn take_continuation(&mut self, frame: &Frame) -> Result<(), String> {
        match &mut self.coming {
            Some((_, _, block)) => block.extend(&frame.payload),
            None => return Err(format!("{frame:?} without HEADERS")),
        }
        self.end_block(frame)
    }

    /// Decodes a block if it ends with this frame.
    fn end_block(&mut self, frame: &Frame) -> Result<(), String> {
        if !frame.has(flag::END_HEADERS) {
            return Ok(());
        }
        let Some((stream, flags, block)) = self.coming.take() else { return Ok(()) };
        let (fields, ends) = (self.decoder.decode(&block)?, flags & flag::END_STREAM != 0);
        let response = self.is_client();
        let message = self.messages.entry(stream).or_default();
        message.whole = ends;
        if message.fields.is_empty() {
            rules::head(&fields, response)?;
            (message.fields, message.block) = (fields, block);
            if response && message.status() < 200 {
                if ends || message.status() == 101 {
                    return Err(format!("the end of a stream, or 101, in {:?}", message.fields));
                }
                message.interim.push(take(&mut message.fields));
            }
        } else {
            rules::trailers(&fields)?;
            if !ends {
                return Err("trailers that do not end the stream".to_owned());
            }
            message.trailers = fields;
            rules::length(message)?;
        }
        Ok(())
    }

    // ---- what is known --------------------------------------------------------------------------------------------

    /// The message that has come on a stream.
    pub fn message(&self, stream: u32) -> Option<&Message> {
        self.messages.get(&stream)
    }

    /// Takes what has come on a stream out of the memory of this side; the stream is still known.
    pub fn take_message(&mut self, stream: u32) -> Message {
        let known = self.messages.entry(stream).or_default();
        let (whole, reset, given_up) = (known.whole, known.reset, known.given_up);
        let fields = known.fields.clone();
        std::mem::replace(known, Message { fields, whole, reset, given_up, ..Message::default() })
    }

    pub(super) fn messages(&self) -> &HashMap<u32, Message> {
        &self.messages
    }

    /// The other side's settings; `None` before they have come.
    pub fn settings(&self) -> Option<&BTreeMap<u16, u32>> {
        self.theirs.as_ref()
    }

    /// The value of one of the other side's settings, or the protocol's default.
    pub fn setting(&self, name: u16) -> u32 {
        self.theirs.as_ref().and_then(|settings| settings.get(&name).copied()).unwrap_or_else(|| default(name))
    }

    /// The number of bytes of DATA that the other side takes now on a stream; 0 asks for the connection alone.
    pub fn room(&self, stream: u32) -> usize {
        self.windows.room(stream)
    }

    /// The GOAWAYs that have come, in their order.
    pub fn away(&self) -> &[Away] {
        &self.away
    }

    /// The frames that have come, in their order.
    pub fn seen(&self) -> &[FrameHeader] {
        &self.seen
    }

    /// The number of frames of a type that have come.
    pub fn count(&self, kind: u8) -> usize {
        self.seen.iter().filter(|seen| seen.kind == kind).count()
    }

    /// The last frames that have come, for a message.
    pub(super) fn history(&self) -> String {
        let last = &self.seen[self.seen.len().saturating_sub(12)..];
        let shown: Vec<String> = last
            .iter()
            .map(|seen| format!("{}({}, {:#x}, {})", kind::name(seen.kind), seen.stream, seen.flags, seen.length))
            .collect();
        format!("frames before: [{}], {:?}", shown.join(" "), self.away)
    }

    /// The connection below.
    pub(super) fn carrier(&mut self) -> &mut Carrier {
        &mut self.carrier
    }

    pub(super) fn into_carrier(self) -> Carrier {
        self.carrier
    }

    /// The fields of a message's head.
    pub(super) fn fields(&self, stream: u32) -> Option<&Fields> {
        self.messages.get(&stream).map(|message| &message.fields).filter(|fields| !fields.is_empty())
    }
}

/// The value of a setting that nobody has set (RFC 9113 section 6.5.2).
fn default(name: u16) -> u32 {
    match name {
        setting::HEADER_TABLE_SIZE => 4096,
        setting::ENABLE_PUSH => 1,
        setting::INITIAL_WINDOW_SIZE => 65_535,
        setting::MAX_FRAME_SIZE => 16_384,
        setting::MAX_CONCURRENT_STREAMS | setting::MAX_HEADER_LIST_SIZE => u32::MAX,
        _ => 0,
    }
}
