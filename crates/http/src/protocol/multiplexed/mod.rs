//! One request of a connection that carries several at once: the driver of such a protocol hands over its stream, and
//! the request goes the same way as any other request.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::num::NonZeroU16;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_proto::Version;
use freerun_proto::head::{self, FieldFault, FieldRules};
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;

use crate::arrive;
use crate::connection::file_out::FileOut;
use crate::connection::stream::{ResponseHead, Stream};
use crate::connection::takeover::Takeover;
use crate::connection::tunnel_end::TunnelEnd;
use crate::content::pull::Reader;
use crate::content::{aio, direct, open};
use crate::finish;
use crate::http_loop::HttpLoop;
use crate::log_error;
use crate::message::body::ClientBody;
use crate::message::field_block::FieldBlock;
use crate::message::persistence::Persistence;
use crate::message::scratch::RequestScratch;
use crate::phases::{self, Answer};
use crate::protocol::tls;
use crate::request::ClientStream;
use crate::request::Connection;
use crate::request::core_settings::CoreSettings;
use crate::request::generation::Answering;
use crate::request::location::Server;
use crate::request::response::{Body, FileRange, Response, Source};
use crate::request::{Head, Request};
use crate::settings::http2::Http2Settings;
use crate::settings::server::ServerSettings;
use crate::write::WriteError;
use crate::write::beside::meanwhile;
use crate::write::decide::{Decided, Framing, decide};
use crate::write::fields::{self, HeadSink};
use crate::write::pace::Pace;

/// A file range up to this size is read, if it is in memory: that is cheaper than further system calls.
const SMALL_FILE: u64 = 32 * 1024;

/// A request as its driver has received it.
pub struct Arrived {
    /// The head, in a buffer that the driver has written.
    pub head: Head,
    /// Whether a body follows; of CONNECT, whether the stream goes on.
    pub has_body: bool,
    /// `Content-Length`, which the driver enforces.
    pub declared: Option<u64>,
    /// The number of the request on its connection, from 1.
    pub serial: u64,
    /// Why the request is malformed, if it is: it is answered with the fault's status then.
    pub fault: Option<FieldFault>,
    /// How many fields were received, as `max_headers` counts them.
    pub received: usize,
}

/// The rules of a server for the fields of a request.
pub fn field_rules(settings: &SettingsSet) -> FieldRules {
    let server = settings.get::<ServerSettings>();
    FieldRules {
        max_headers: server.max_headers as usize,
        ignore_invalid_headers: server.ignore_invalid_headers,
        underscores_in_headers: server.underscores_in_headers,
        extended_connect: settings.get::<Http2Settings>().http2_extended_connect,
    }
}

/// Serves a request, from its head to its log line. The driver runs this future beside those of the connection's other
/// requests. If the client resets the stream, the future ends by itself, as it does under HTTP/1 when the client has
/// gone.
pub async fn serve(
    http: Rc<HttpLoop>,
    connection: Rc<Connection>,
    stream: Rc<dyn Stream>,
    arrived: Arrived,
    scratch: &mut RequestScratch,
) {
    let Some((generation, servers, _)) = http.servers(&connection) else { return stream.reset() };
    let settings = servers.entry.settings.get::<ServerSettings>();
    connection.loop_state.stats.requests.add_alone();
    connection.requests.set(connection.requests.get().max(arrived.serial));
    let client = ClientStream::of_stream(connection.clone(), stream.clone());
    let place = (servers.server.clone(), servers.entry.clone());
    let mut request = Request::new(client, generation, place, arrived.head, arrived.serial, loops::now());
    request.answered.persistence = Persistence::Kept;
    // What follows CONNECT is not the request's: a tunnel takes it from the stream, or nobody.
    if arrived.has_body && !request.is_connect() {
        let expects_continue = request.head.parsed.expect_continue;
        request.body = ClientBody::of_stream(arrived.declared, request.head.most_bytes(), expects_continue);
    }
    let mut response_end = ResponseEnd { stream: &*stream, is_whole: false };
    loops::note(connection.number, "answering");
    let whole = arrived.fault.as_ref().is_none_or(FieldFault::is_of_the_whole_head);
    let mut routed = Ok(());
    if request.head.is_understood() {
        routed = arrive::route_server(&mut request, &servers, whole, settings.merge_slashes, scratch);
    }
    let too_many = FieldFault::TooManyHeaders;
    let fault = match arrived.fault {
        None if routed.is_ok() && has_too_many_fields(&request, arrived.received) => Some(&too_many),
        ref fault => fault.as_ref(),
    };
    let routed = match (routed, fault) {
        (Ok(()), Some(fault)) => {
            log_error!(request, Info, "{fault} while reading client request headers");
            Err(fault.status())
        }
        (Ok(()), None) => {
            if !request.place.server.is_same(&servers.server) {
                apply_name_rules(&mut request.head, &servers, &request.place.server);
            }
            arrive::judge_protocol(&request, &servers).and_then(|()| arrive::refuse_methods(&mut request))
        }
        (Err(status), _) => Err(status),
    };
    if routed.is_ok() && tls::verify_anew(&connection, &request, &servers).await.is_none() {
        finish::finish(&mut request);
        return stream.reset();
    }
    let answer = match routed.and_then(|()| arrive::judge_tls(&mut request, &servers)) {
        Ok(()) => phases::respond(&mut request).await,
        Err(status) => phases::respond_with_status(&mut request, status).await,
    };
    match answer {
        Answer::Response(mut response) => {
            let is_whole = match response.takeover.take() {
                Some(takeover) => take_over(&mut request, &*stream, &response, takeover).await,
                None => {
                    let sent = send(&mut request, &*stream, response).await;
                    if let Err(error) = &sent {
                        log_failure(&request, error);
                    }
                    sent.is_ok()
                }
            };
            response_end.is_whole = is_whole;
            request.sent.complete = is_whole;
        }
        Answer::Close => {
            if request.sent.status == 0 {
                request.sent.status = 444;
            }
        }
    }
    drop(response_end);
    finish::finish(&mut request);
    // Only these parts are passed on: passing the whole request would move it.
    scratch.keep(request.head, request.asked.path, request.asked.args, request.asked.host);
}

/// Chooses the fields of a head by the rules for names of the server that the request is for, if they are others than those of
/// the default server, by which the head was made.
fn apply_name_rules(head: &mut Head, made_by: &Answering, server: &Server) {
    let rules = field_rules(&server.entry.settings);
    let made_by = field_rules(&made_by.entry.settings);
    let names = |rules: FieldRules| (rules.ignore_invalid_headers, rules.underscores_in_headers);
    if head.version() >= Version::Http2 && names(rules) != names(made_by) {
        head::apply_name_rules(&mut head.parsed, &head.buffer, &rules);
    }
}

/// Whether the server that was chosen allows fewer fields. The default server, by whose limit the head was read, may allow more.
fn has_too_many_fields(request: &Request, received: usize) -> bool {
    let most = request.place.server.entry.settings.get::<ServerSettings>().max_headers as usize;
    most != 0 && received > most
}

/// Resets a stream whose response is not complete when this value is dropped, even after a panic: the end must not look
/// like that of a complete response, and no client should wait for the rest in vain.
struct ResponseEnd<'s> {
    stream: &'s dyn Stream,
    is_whole: bool,
}

impl Drop for ResponseEnd<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.stream.reset();
        }
    }
}

/// A head as a list of fields.
#[derive(Default)]
struct FieldList(FieldBlock);

thread_local! {
    /// The memory for the fields of the next response.
    static SPARE: Cell<FieldBlock> = Cell::default();
}

impl HeadSink for FieldList {
    fn start(&mut self, request: &Request, response: &Response, core: &CoreSettings) {
        fields::own_start(request, response, core, self);
    }

    fn lines(&mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if let Some(colon) = memchr::memchr(b':', line) {
                self.field(&line[..colon], line[colon + 1..].trim_ascii_start());
            }
        }
    }

    fn begin(&mut self, name: &[u8]) {
        self.0.begin(name);
    }

    fn push(&mut self, value: &[u8]) {
        self.0.value(|text| freerun_proto::encode::push_value(value, text));
    }

    fn push_clean(&mut self, value: &[u8]) {
        self.0.value(|text| text.extend_from_slice(value));
    }

    fn end(&mut self) {
        self.0.end();
    }
}

/// Sends the head of a response; `ends` says that nothing follows. The request notes how long it is, and what a log may ask
/// of it.
fn send_head(request: &mut Request, stream: &dyn Stream, response: &Response, decided: &Decided, ends: bool) {
    let mut list = FieldList(SPARE.take());
    list.0.clear();
    fields::print(request, response, decided, &mut list);
    let fields = list.0;
    if request.generation.http.keeps_sent_head {
        let sent_head = &mut request.answered.head;
        sent_head.clear();
        fields.iter().for_each(|(name, value)| freerun_proto::encode::field(sent_head, name, value));
        request.answered.location = None;
    }
    request.sent.bytes += fields.text_len() as u64;
    let status = response.told_as.map_or(request.sent.status, NonZeroU16::get);
    let head = ResponseHead { status, fields };
    stream.send_head(&head, ends);
    SPARE.set(head.fields);
}

/// Sends the head that ends HTTP on the stream, and lets the takeover have the stream until both sides have ended. Returns
/// whether they did so in order. What a driver makes of the status 101 is its business: HTTP/2 has 200 in its place (RFC 8441
/// section 5).
async fn take_over(
    request: &mut Request,
    stream: &dyn Stream,
    response: &Response,
    mut takeover: Box<dyn Takeover<Request>>,
) -> bool {
    let decided = decide(request, response, true);
    stream.become_tunnel();
    send_head(request, stream, response, &decided, false);
    takeover.begin(Vec::new());
    loops::note(request.client.number, "tunnelling");
    let is_whole = poll_fn(|context| takeover.poll(TunnelEnd::Stream(stream), context)).await;
    let sent = takeover.end(request);
    request.sent.bytes += sent;
    request.sent.body_bytes += sent;
    is_whole
}

/// Sends a response. The request notes how much was sent.
async fn send(request: &mut Request, stream: &dyn Stream, mut response: Box<Response>) -> Result<(), WriteError> {
    let decided = decide(request, &response, false);
    let has_trailers = decided.framing == Framing::Stream && response.has_trailers();
    let nothing = decided.framing == Framing::None || response.body.is_empty() && !has_trailers;
    send_head(request, stream, &response, &decided, nothing);
    let body = std::mem::replace(&mut response.body, Body::Empty);
    let mut trailers = std::mem::take(&mut response.trailers);
    let late = response.late_trailers;
    drop(response);
    if nothing {
        note_sent(request, stream);
        return Ok(());
    }
    stream.limit_frames(request.settings().get::<Http2Settings>().http2_chunk_size.0.into());
    if let Body::Bytes(bytes) = &body
        && !has_trailers
        && !Pace::is_expected(request)
        && stream.certain_room() >= bytes.len()
    {
        let bytes = bytes.clone();
        request.sent.bytes += bytes.len() as u64;
        request.sent.body_bytes += bytes.len() as u64;
        stream.send_data(bytes, true);
        // Nearly always it is written together with other responses.
        let sent = poll_fn(|context| Poll::Ready(stream.poll_sent(context))).await;
        if let Poll::Ready(sent) = sent {
            note_sent(request, stream);
            return Ok(sent?);
        }
        let sent = Sender::new(request, stream).rest().await;
        note_sent(request, stream);
        return sent;
    }
    let mut sender = Sender::new(request, stream);
    let source = body.into_source(request);
    let owed = source.remaining();
    let sent = sender.body(request, source, owed, !has_trailers).await;
    request.sent.bytes += sender.sent;
    request.sent.body_bytes += sender.sent;
    note_sent(request, stream);
    sent?;
    if has_trailers {
        for make in [late.passed, late.added].into_iter().flatten() {
            make(request, &mut trailers);
        }
        match trailers.is_empty() {
            true => stream.send_data(Bytes::new(), true),
            false => stream.send_trailers(&trailers),
        }
        request.answered.trailers = trailers;
    }
    let sent = sender.rest().await;
    note_sent(request, stream);
    sent
}

/// Notes how many bytes the response has taken with its frames, if the driver knows it.
fn note_sent(request: &mut Request, stream: &dyn Stream) {
    if let Some(bytes) = stream.sent_bytes() {
        request.sent.bytes = bytes;
    }
}

/// The state that sending one body needs throughout.
struct Sender<'s> {
    stream: &'s dyn Stream,
    timer: Timer,
    pace: Pace,
    send_timeout: std::time::Duration,
    sent: u64,
}

impl<'s> Sender<'s> {
    fn new(request: &Request, stream: &'s dyn Stream) -> Sender<'s> {
        let (timer, pace) = (Timer::default(), Pace::of(request, loops::now()));
        Sender { stream, timer, pace, send_timeout: request.core().send_timeout, sent: 0 }
    }

    /// Sends the body of a source. `owed` is the announced length; `ends` says that nothing follows the body.
    async fn body(
        &mut self,
        request: &Request,
        mut source: Box<dyn Source>,
        mut owed: Option<u64>,
        ends: bool,
    ) -> Result<(), WriteError> {
        let sends_files = self.stream.sends_files();
        loop {
            // A client as fast as the source must not keep other tasks from the loop.
            loops::consume_budget().await;
            // Nothing is pulled that could not be sent: a client whose windows are closed costs no memory.
            if source.remaining() != Some(0) {
                meanwhile(&mut Some(&mut source), self.room()).await?;
            }
            if sends_files && let Some(range) = source.next_in_file() {
                if let Some(owed) = &mut owed {
                    *owed = owed.checked_sub(range.len).ok_or(WriteError::Body)?;
                }
                let last = ends && source.remaining() == Some(0);
                if last && owed.is_some_and(|owed| owed > 0) {
                    return Err(WriteError::Body);
                }
                self.file(request, &mut source, range, last).await?;
                if last {
                    return Ok(());
                }
                continue;
            }
            let Some(piece) = source.next().await.map_err(|_| WriteError::Body)? else { break };
            if let Some(owed) = &mut owed {
                *owed = owed.checked_sub(piece.len() as u64).ok_or(WriteError::Body)?;
            }
            let last = ends && source.remaining() == Some(0);
            if last && owed.is_some_and(|owed| owed > 0) {
                return Err(WriteError::Body);
            }
            self.piece(&mut source, piece, last).await?;
            if last {
                return Ok(());
            }
        }
        if owed.is_some_and(|owed| owed > 0) {
            return Err(WriteError::Body);
        }
        if ends {
            self.stream.send_data(Bytes::new(), true);
        }
        Ok(())
    }

    /// Sends a range of a file: the kernel copies what is in memory into the socket. The rest is read, as are small ranges, for
    /// which that is cheaper, and files that are read past the page cache.
    async fn file(
        &mut self,
        request: &Request,
        source: &mut Box<dyn Source>,
        mut range: FileRange,
        last: bool,
    ) -> Result<(), WriteError> {
        let Some(aio) = aio::resolve(request) else { return Err(WriteError::Body) };
        let copies = range.len <= SMALL_FILE || direct::alignment(request, range.file.meta()).is_some();
        let reader = Reader::new(request);
        let (files, file) = (request.generation.files.clone(), range.file.clone());
        let file = Rc::new(FileOut::new(files, file, aio, request.client_key()));
        while range.len > 0 {
            loops::consume_budget().await;
            let room = meanwhile(&mut Some(&mut *source), self.room()).await?;
            let most = range.len.min(room as u64);
            let ready = if copies { 0 } else { file.sendable(range.offset, most).min(most) };
            if ready == 0 {
                let piece = reader.read(&mut range).await.map_err(|error| unreadable(request, &range, &error))?;
                self.piece(source, piece, last && range.len == 0).await?;
                continue;
            }
            let part = match self.pace.is_free() {
                true => ready,
                false => meanwhile(&mut Some(&mut *source), self.paced(ready)).await.min(ready),
            };
            self.stream.send_file(&file, range.offset, usize::try_from(part).unwrap_or(0), last && part == range.len);
            range.offset += part;
            range.len -= part;
            self.sent += part;
        }
        Ok(())
    }

    /// Sends a piece as far as there is room, and waits for more room; the source goes on meanwhile.
    async fn piece(&mut self, source: &mut Box<dyn Source>, mut piece: Bytes, last: bool) -> Result<(), WriteError> {
        while !piece.is_empty() {
            let wanted = piece.len();
            let mut source = Some(&mut *source);
            let allowed = match self.pace.is_free() {
                true => wanted,
                false => usize::try_from(meanwhile(&mut source, self.paced(wanted as u64)).await).unwrap_or(wanted),
            };
            let room = meanwhile(&mut source, self.room()).await?;
            let part = piece.split_to(wanted.min(allowed).min(room));
            self.sent += part.len() as u64;
            self.stream.send_data(part, last && piece.is_empty());
        }
        Ok(())
    }

    /// Returns how many of `wanted` bytes may be sent now by `limit_rate`; waits until it is at least one.
    async fn paced(&mut self, wanted: u64) -> u64 {
        loop {
            match self.pace.room(self.sent, wanted, loops::now()) {
                Ok(room) => return room,
                Err(wait) => drop(self.timer.within(wait, std::future::pending::<()>()).await),
            }
        }
    }

    /// Waits for room in the stream.
    async fn room(&mut self) -> Result<usize, WriteError> {
        let stream = self.stream;
        match self.in_time(|context| stream.poll_room(context)).await? {
            0 => Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            room => Ok(room),
        }
    }

    /// Waits until nothing that was sent waits for the client's windows or for other streams.
    async fn rest(&mut self) -> Result<(), WriteError> {
        let stream = self.stream;
        self.in_time(|context| stream.poll_sent(context)).await
    }

    /// Waits for the client, as long as `send_timeout` if its windows are closed.
    async fn in_time<T>(
        &mut self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Result<T, WriteError> {
        loop {
            if let Some(result) = self.timer.within(self.send_timeout, poll_fn(&mut poll)).await {
                return Ok(result?);
            }
            if self.stream.is_held() {
                self.stream.has_stalled();
                return Err(WriteError::TimedOut);
            }
        }
    }
}

/// Logs that a file could not be read.
fn unreadable(request: &Request, range: &FileRange, error: &io::Error) -> WriteError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        open::forget(request, &range.file);
        log_error!(request, Alert, "file was truncated while it was sent to the client");
    } else {
        log_error!(request, Crit, "{error} while sending response to client");
    }
    WriteError::Body
}

fn log_failure(request: &Request, error: &WriteError) {
    match error {
        // The connection has ended, and a line says so for all its streams; or the client has canceled the stream, which is usual,
        // and may happen thousands of times a second.
        WriteError::Client(_) => {}
        WriteError::TimedOut => {
            log_error!(request, Info, "client timed out (110: Connection timed out) while sending response to client");
        }
        // The place that found the error has logged it.
        WriteError::Body => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::request::response::Field;
    use std::cell::Cell;

    use super::*;

    /// A stream that only counts how often it is reset.
    #[derive(Default)]
    struct Resets(Cell<u32>);

    impl Stream for Resets {
        fn poll_body(&self, _: &mut Context<'_>, _: usize) -> Poll<io::Result<Option<Bytes>>> {
            Poll::Pending
        }

        fn send_interim(&self, _: &ResponseHead) {}

        fn send_head(&self, _: &ResponseHead, _: bool) {}

        fn poll_room(&self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn send_data(&self, _: Bytes, _: bool) {}

        fn send_trailers(&self, _: &[Field]) {}

        fn reset(&self) {
            self.0.set(self.0.get() + 1);
        }

        fn poll_gone(&self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }

        fn certain_room(&self) -> usize {
            0
        }
    }

    #[test]
    fn a_panic_resets_the_stream_and_a_whole_response_does_not() {
        let stream = Resets::default();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _end = ResponseEnd { stream: &stream, is_whole: false };
            panic!("a handler's fault");
        }));
        assert!(panicked.is_err());
        assert_eq!(stream.0.get(), 1);
        drop(ResponseEnd { stream: &stream, is_whole: true });
        assert_eq!(stream.0.get(), 1);
    }

    #[test]
    fn ready_made_lines_become_fields() {
        let mut list = FieldList::default();
        list.lines(b"Content-Type: text/plain\r\nETag: \"a:b\"\r\n");
        list.begin(b"Location");
        list.push(b"http://");
        list.push(b"host/\r\nSet-Cookie: x");
        list.end();
        let fields: Vec<_> = list.0.iter().collect();
        let expected: [(&[u8], &[u8]); 3] =
            [(b"Content-Type", b"text/plain"), (b"ETag", b"\"a:b\""), (b"Location", b"http://host/  Set-Cookie: x")];
        assert_eq!(fields, expected);
    }
}
