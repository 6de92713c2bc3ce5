//! The body of the request on its way to an upstream server.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use freerun_conf::text_of;
use freerun_http::body;
use freerun_http::body::collect::{CollectedBody, KeptBody};
use freerun_http::connection::client_gone::ClientGone;
use freerun_http::content::aio;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_proto::Method;
use freerun_proto::h1::CloseReason;
use freerun_runtime::files::{ClientPresence, FileError, Via};
use freerun_runtime::pool::PoolError;
use freerun_runtime::timer::Timer;

use crate::client::client_watch::ClientWatch;
use crate::client::error::UpstreamError;
use crate::exchange::BodyPlan;
use crate::exchange::family::{Family, RequestBody, UpstreamProtocol};

/// The most bytes in memory at a time of a body that is streamed or read from a file.
pub const PIECE: usize = 64 * 1024;

/// The most bytes of a streamed body that are kept to be sent again. More is not kept: a server that refuses a request does
/// that before it has taken much of its body.
const KEPT: usize = 64 * 1024;

/// A body, and its source.
pub enum OutgoingBody {
    /// There is no body.
    None,
    /// The body is in memory.
    Memory(Bytes),
    /// The body is in a temporary file, or was read for another use.
    Kept(Rc<CollectedBody>),
    /// The body is read from the client as it is sent.
    Stream(StreamedBody),
}

/// Part of a body that has come, while the body is read from the client as it is sent.
#[derive(Default)]
pub struct StreamedBody {
    /// Whether some of it was read.
    has_begun: bool,
    /// All that was read, up to [`KEPT`]: for a server that may say that it has not looked at the request, and where it was
    /// read before anything was sent.
    kept: Option<Vec<u8>>,
}

impl StreamedBody {
    /// Nothing has come. `is_kept` says whether it is kept to be sent again.
    fn new(is_kept: bool) -> StreamedBody {
        StreamedBody { has_begun: false, kept: is_kept.then(Vec::new) }
    }

    /// The bytes from a position on that another try has sent before.
    pub fn from(&self, at: u64) -> &[u8] {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        self.kept.as_deref().and_then(|kept| kept.get(at..)).unwrap_or_default()
    }

    /// Notes that a piece was read.
    fn came(&mut self, piece: &[u8]) {
        self.has_begun = true;
        match &mut self.kept {
            Some(kept) if kept.len() + piece.len() <= KEPT => kept.extend_from_slice(piece),
            kept => *kept = None,
        }
    }
}

impl OutgoingBody {
    /// The body, if it is ready to be passed on. `None`: it has to be collected first.
    pub fn ready(request: &Request, family: &dyn Family) -> Option<OutgoingBody> {
        // If the body was refused or discarded before an error page led here, nothing is left of it: as in nginx it is
        // empty.
        let given_up = !request.is_subrequest() && request.body.is_given_up();
        match family.body(request) {
            RequestBody::Client if given_up => return Some(OutgoingBody::Memory(Bytes::new())),
            RequestBody::Client => {}
            // As in nginx, the client's body is read all the same: it is checked, and `$request_body` may be used.
            _ if !(request.is_subrequest() || request.body.is_done() || is_begun(request) || given_up) => return None,
            RequestBody::None => return Some(OutgoingBody::None),
            RequestBody::Set(bytes) => return Some(OutgoingBody::Memory(bytes)),
        }
        let kept = request.find_shared::<KeptBody>().and_then(|kept| kept.0.borrow().clone());
        if kept.is_none() && is_begun(request) {
            // A request that is a GET, or became one on its way here (`X-Accel-Redirect`, an error page), needs no body.
            let needs_none = matches!(request.asked.method, Method::Get | Method::Head);
            return (needs_none || request.asked.method != request.head.method()).then_some(OutgoingBody::None);
        }
        if request.is_subrequest() || request.body.is_done() {
            // The body of the client's request, if it was read.
            if let Some(kept) = kept.filter(|_| !request.lineage.without_body) {
                return Some(OutgoingBody::Kept(kept));
            }
            return Some(match request.body.declared_length() {
                Some(0) => OutgoingBody::Memory(Bytes::new()),
                _ => OutgoingBody::None,
            });
        }
        let known = request.body.declared_length().is_some();
        // A body that has come completely with the head can be sent to several servers.
        let streams = !family.table(request.settings()).proxy_request_buffering
            && !request.has_whole_body()
            && (known || family.passes_unknown_length(request));
        // Other protocols do not tell that a request was not looked at.
        let is_kept = family.protocol(request) != UpstreamProtocol::Sequential;
        streams.then(|| OutgoingBody::Stream(StreamedBody::new(is_kept)))
    }

    /// Makes the body anew, if the configuration gives one (`proxy_set_body`).
    pub fn set_anew(&mut self, request: &Request, family: &dyn Family) {
        if let RequestBody::Set(bytes) = family.body(request) {
            *self = OutgoingBody::Memory(bytes);
        }
    }

    /// Collects the client's body, even if another one is sent.
    pub async fn collect(request: &mut Request, family: &dyn Family) -> Result<OutgoingBody, UpstreamError> {
        if is_begun(request) {
            log_error!(request, Error, "the request body was passed on before, and cannot be sent again");
            request.answered.persistence.close(CloseReason::BadBody);
            return Err(UpstreamError::BodySpent(body::status_of_spent(request)));
        }
        let collected = body::collect(request).await.map_err(UpstreamError::Body)?;
        Ok(match family.body(request) {
            RequestBody::Client => OutgoingBody::Kept(collected),
            RequestBody::None => OutgoingBody::None,
            RequestBody::Set(bytes) => OutgoingBody::Memory(bytes),
        })
    }

    /// The whole body, if it is in memory and has at most `most` bytes.
    pub fn small(&self, most: usize) -> Option<&[u8]> {
        let bytes = match self {
            OutgoingBody::Memory(bytes) => bytes,
            OutgoingBody::Kept(kept) => match &**kept {
                CollectedBody::Memory(bytes) => bytes,
                CollectedBody::File(_) => return None,
            },
            OutgoingBody::None | OutgoingBody::Stream(_) => return None,
        };
        (bytes.len() <= most).then_some(bytes)
    }

    /// The framing of the body that is announced to the upstream server.
    pub fn plan(&self, request: &Request) -> BodyPlan {
        match self {
            OutgoingBody::None => BodyPlan::None,
            OutgoingBody::Memory(bytes) => BodyPlan::Length(bytes.len() as u64),
            OutgoingBody::Kept(kept) => BodyPlan::Length(match &**kept {
                CollectedBody::Memory(bytes) => bytes.len() as u64,
                CollectedBody::File(file) => file.len(),
            }),
            OutgoingBody::Stream(_) => match request.body.declared_length() {
                Some(length) => BodyPlan::Length(length),
                None => BodyPlan::Unknown,
            },
        }
    }

    /// Whether the body can be sent once more.
    pub fn can_be_sent_again(&self) -> bool {
        !matches!(self, OutgoingBody::Stream(StreamedBody { has_begun: true, .. }))
    }

    /// Whether the body can be sent once more if the server has not looked at the request.
    pub fn can_be_repeated(&self) -> bool {
        self.can_be_sent_again() || matches!(self, OutgoingBody::Stream(StreamedBody { kept: Some(_), .. }))
    }

    /// Has a piece kept that is going to be taken before anything was sent: if nothing is, the request can be sent again.
    pub fn keep_first(&mut self) {
        if let OutgoingBody::Stream(streamed) = self
            && !streamed.has_begun
        {
            streamed.kept.get_or_insert_default();
        }
    }

    /// Whether pieces of the body come from the client while it is sent.
    pub fn is_stream(&self) -> bool {
        matches!(self, OutgoingBody::Stream(_))
    }

    /// Whether the piece that was taken last is the last one of a body that comes from the client while it is sent.
    pub fn has_ended(&self, request: &Request, position: &Position) -> bool {
        matches!(self, OutgoingBody::Stream(streamed) if request.body.is_done() && streamed.from(position.at).is_empty())
    }

    /// The position at the beginning of the body.
    pub fn start(&self) -> Position {
        Position { at: 0, timer: Timer::default() }
    }

    /// The next piece, at most `most` bytes; `None` at the end. The future may be dropped and made again without losing
    /// bytes.
    pub async fn next(
        &mut self,
        request: &mut Request,
        position: &mut Position,
        most: usize,
        client: &ClientWatch,
    ) -> Result<Option<Bytes>, UpstreamError> {
        let most = most.min(PIECE);
        let kept = match self {
            OutgoingBody::None => return Ok(None),
            OutgoingBody::Memory(bytes) => return Ok(position.of(bytes, most)),
            OutgoingBody::Kept(kept) => kept,
            OutgoingBody::Stream(streamed) => {
                let before = streamed.from(position.at);
                if !before.is_empty() {
                    let piece = Bytes::copy_from_slice(&before[..before.len().min(most)]);
                    position.at += piece.len() as u64;
                    return Ok(Some(piece));
                }
                let is_whole = |kept: &Vec<u8>| kept.len() as u64 == position.at;
                debug_assert!(streamed.kept.as_ref().is_none_or(is_whole), "another try would leave bytes out");
                let piece = body::next_piece(request, &mut position.timer, most).await.map_err(UpstreamError::Body)?;
                if let Some(piece) = &piece {
                    streamed.came(piece);
                    position.at += piece.len() as u64;
                }
                return Ok(piece);
            }
        };
        match &**kept {
            CollectedBody::Memory(bytes) => Ok(position.of(bytes, most)),
            CollectedBody::File(file) => {
                let left = usize::try_from(file.len().saturating_sub(position.at)).unwrap_or(usize::MAX).min(most);
                if left == 0 {
                    return Ok(None);
                }
                let aio = aio::resolve(request).ok_or(UpstreamError::Ours)?;
                let gone = ClientGone::of(&request.client);
                let gone: Option<&dyn ClientPresence> = if client.is_watched() { Some(&gone) } else { None };
                let via = Via { aio: &aio, client: request.client_key(), gone };
                let files = &request.generation.files;
                let read = files.read_at(file.file(), position.at, left, BytesMut::new(), via).await;
                let piece = read.map_err(|error| match error {
                    FileError::Pool(PoolError::ClientGone) => UpstreamError::ClientGone,
                    error => {
                        let error = error.at(|| file.shown_path());
                        log_error!(request, Crit, "{error} while sending request to upstream");
                        UpstreamError::Ours
                    }
                })?;
                if piece.is_empty() {
                    let path = file.shown_path();
                    let path = text_of(&path);
                    log_error!(
                        request,
                        Crit,
                        "the temporary file \"{path}\" ended too early while sending request to upstream"
                    );
                    return Err(UpstreamError::Ours);
                }
                position.at += piece.len() as u64;
                Ok(Some(piece.freeze()))
            }
        }
    }
}

/// Whether the beginning of the client's body was streamed already, and is gone. A failed location may have led to
/// another one (`error_page 502 = @other`): there the rest must not be taken for the whole body.
fn is_begun(request: &Request) -> bool {
    !request.is_subrequest() && request.body.received() > 0
}

/// The position in a body in one try.
#[derive(Default)]
pub struct Position {
    at: u64,
    timer: Timer,
}

impl Position {
    /// Number of bytes that were taken.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    fn of(&mut self, bytes: &Bytes, most: usize) -> Option<Bytes> {
        let start = usize::try_from(self.at).unwrap_or(usize::MAX).min(bytes.len());
        let end = bytes.len().min(start.saturating_add(most));
        self.at = end as u64;
        (start < end).then(|| bytes.slice(start..end))
    }
}
