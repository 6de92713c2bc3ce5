//! Handlers of a session: at named phases, and the content handler that has it to its end.

use std::pin::Pin;
use std::rc::Rc;

use freerun_conf::SettingsSet;
use freerun_proto::Status;
use freerun_serve::listen::ListenSpec;
use freerun_serve::loops::local::LoopLocal;

use super::Session;

/// The statuses of sessions: `$status`. nginx has no others.
pub mod status {
    use freerun_proto::Status;

    /// The session has ended well.
    pub const OK: Status = Status::OK;
    /// The client sends something that cannot be understood, such as a bad PROXY protocol header.
    pub const BAD_REQUEST: Status = Status::BAD_REQUEST;
    /// Access is forbidden.
    pub const FORBIDDEN: Status = Status::FORBIDDEN;
    /// An error of the server, or of a TLS handshake.
    pub const INTERNAL_SERVER_ERROR: Status = Status::INTERNAL_SERVER_ERROR;
    /// No server can be reached.
    pub const BAD_GATEWAY: Status = Status::BAD_GATEWAY;
    /// The number of connections is limited.
    pub const SERVICE_UNAVAILABLE: Status = Status::SERVICE_UNAVAILABLE;
}

/// The steps on the way of a session, in their order.
///
/// The handshake of TLS comes between `Access` and `Preread`, and content after `Preread`; they have no handlers of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The first one, behind the PROXY protocol header.
    PostAccept,
    /// Before access is judged: limits.
    PreAccess,
    /// Whether the client may use the server.
    Access,
    /// The phase that learns the client's protocol from the first bytes.
    Preread,
    /// The phase after the session has ended.
    Log,
}

/// The number of phases.
pub const PHASES: usize = 5;

/// The verdict of a handler about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseOutcome {
    /// The session goes on.
    Declined,
    /// The session ends with this status.
    End(Status),
}

/// The progress of a handler that looks at the first bytes of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrereadProgress {
    /// The handler needs more bytes.
    NeedMore,
    /// The handler has seen what it wants to know, or there is nothing that it could see.
    Done,
    /// The session ends with this status.
    End(Status),
}

/// The function of a handler.
#[derive(Clone, Copy)]
pub enum HandlerRun {
    /// The handler answers at once.
    Now(fn(&Session) -> PhaseOutcome),
    /// The first function answers at once, if it can. If not, the second one answers when the loop has looked at its events:
    /// sessions whose clients have just gone have ended then. Only before the content.
    NowOrAfterEvents(fn(&Session) -> Option<PhaseOutcome>, fn(&Session) -> PhaseOutcome),
    /// The handler looks at the first bytes, all that have come so far, and is called again when there are more. Only
    /// for [`Phase::Preread`].
    Preread(fn(&Session, &[u8]) -> PrereadProgress),
}

/// A handler of a module.
#[derive(Clone, Copy)]
pub struct Handler {
    /// Its phase. Handlers of one phase run in the order of the modules.
    pub phase: Phase,
    /// Whether a server with these settings needs it, so that a module that is not configured costs nothing.
    pub wanted: fn(&SettingsSet) -> bool,
    /// The function.
    pub run: HandlerRun,
}

/// The end of a session, as its content handler reports it.
pub enum SessionEnd {
    /// With this status.
    Status(Status),
    /// Its connection is handed to the service of another listening socket.
    Pass(LoopLocal<ListenSpec>),
}

/// A content handler at work on a session.
pub type ContentFuture = Pin<Box<dyn Future<Output = SessionEnd>>>;

/// A directive of a server that chooses its content handler. Of several such directives in a server, the last one counts.
#[derive(Clone, Copy)]
pub struct ContentHandler {
    /// The name of the directive.
    pub directive: &'static str,
    /// Begins the work on a session that has passed all phases.
    pub start: fn(Rc<Session>) -> ContentFuture,
}
