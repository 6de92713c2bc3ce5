//! Error log lines of requests and connections, with nginx's context behind the message.

use std::borrow::Borrow;
use std::fmt;
use std::rc::Rc;

use freerun_conf::text_of;
use freerun_runtime::log::Level;
pub use freerun_serve::listen::address::Peer;
use freerun_serve::loops::local::LoopLocal;

use crate::request::Request;
use crate::request::generation::LoopGeneration;
use crate::request::location::Location;

/// Logs a message about a request: `log_error!(request, Error, "format", …)`. The message is formatted only if its
/// level is written.
#[macro_export]
macro_rules! log_error {
    ($request:expr, $level:ident, $($message:tt)+) => {
        $crate::log::write(&$request, ::freerun_runtime::log::Level::$level, ::std::format_args!($($message)+))
    };
}

/// Logs a step that every request takes, at the level `debug`: `log_step!(request, "format", …)`. It does so only while some
/// client has a level of the error log for itself, because each such line would cost every request more than its step.
#[macro_export]
macro_rules! log_step {
    ($request:expr, $($message:tt)+) => {
        if $crate::log::some_are_followed(&$request) {
            $crate::log_error!($request, Debug, $($message)+);
        }
    };
}

/// Whether some client has a level of the error log for itself.
#[inline]
pub fn some_are_followed<R: Borrow<Request>>(request: &R) -> bool {
    request.borrow().client.loop_state.shared.client_levels.are_some()
}

/// Writes the message of [`log_error!`].
pub fn write<R: Borrow<Request>>(request: &R, level: Level, message: fmt::Arguments<'_>) {
    let request = request.borrow();
    let log = request.place.location.error_log(&request.generation);
    let own = own_level(request);
    if !log.admits(level, own) {
        return;
    }
    log.write_about(level, own, Some(request.client.number), format_args!("{message}{}", Context(request)));
}

/// The text behind each message about a request.
pub fn context(request: &Request) -> String {
    Context(request).to_string()
}

/// The level of the error log that the client has for itself.
#[inline]
fn own_level(request: &Request) -> Option<Level> {
    request.client.loop_state.shared.client_levels.of(request.peer())
}

/// Logs about a request that is out of reach because its response is being sent.
pub struct DetachedLog {
    generation: Rc<LoopGeneration>,
    location: LoopLocal<Location>,
    connection: u64,
    own: Option<Level>,
    context: String,
}

impl DetachedLog {
    /// A log whose messages have the context that the request has now.
    pub fn of(request: &Request) -> DetachedLog {
        DetachedLog {
            generation: request.generation.clone(),
            location: request.place.location.clone(),
            connection: request.client.number,
            own: own_level(request),
            context: Context(request).to_string(),
        }
    }

    /// Logs a message.
    pub fn write(&self, level: Level, message: fmt::Arguments<'_>) {
        let log = self.location.error_log(&self.generation);
        log.write_about(level, self.own, Some(self.connection), format_args!("{message}{}", self.context));
    }
}

struct Context<'r>(&'r Request);

impl fmt::Display for Context<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = self.0;
        write!(formatter, ", client: {}, server: {}", Peer(request.peer()), request.place.server.name)?;
        let line = request.head.request_line();
        if !line.is_empty() {
            write!(formatter, ", request: \"{}\"", text_of(line))?;
        }
        if request.is_subrequest() {
            write!(formatter, ", subrequest: \"{}\"", text_of(&request.asked.path))?;
        }
        if let Some(upstream) = &request.answered.passed_to {
            write!(formatter, ", upstream: \"{upstream}\"")?;
        }
        if let Some(host) = request.head.value(freerun_proto::HeaderId::Host) {
            write!(formatter, ", host: \"{}\"", text_of(host))?;
        }
        if let Some(referrer) = request.head.value(freerun_proto::HeaderId::Referer) {
            write!(formatter, ", referrer: \"{}\"", text_of(referrer))?;
        }
        Ok(())
    }
}
