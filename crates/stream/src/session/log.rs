//! The error log's lines about sessions, with nginx's context behind the message.

use std::fmt;

use freerun_runtime::log::Level;
use freerun_serve::listen::address::Peer;

use super::Session;
use crate::client::ClientSide;

/// The part of an error log line behind the client and the server.
pub trait LogContext {
    /// Writes it, with a comma and a space before it: `, upstream: "127.0.0.1:12346", bytes from/to client:0/0, …`.
    ///
    /// # Errors
    /// The errors of the formatter.
    fn write(&self, session: &Session, to: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl Session {
    /// Logs a message, with what is being done, the client and the server behind it. The message is formatted only if its
    /// level is written.
    pub(super) fn write_log(&self, level: Level, message: fmt::Arguments<'_>) {
        let server = self.server.borrow();
        let log = server.error_log(&self.generation);
        log.write_about(level, self.own_level(), Some(self.number), format_args!("{message}{}", Context(self)));
    }

    /// The end of the session's log lines at this moment.
    pub fn context(&self) -> Context<'_> {
        Context(self)
    }

    /// Logs a message as it is.
    pub fn log_bare(&self, level: Level, message: fmt::Arguments<'_>) {
        let server = self.server.borrow();
        let log = server.error_log(&self.generation);
        log.write_about(level, self.own_level(), Some(self.number), message);
    }

    /// The level of the error log that the client has for itself.
    fn own_level(&self) -> Option<Level> {
        self.loop_state.shared.client_levels.of(self.peer())
    }
}

/// The end of a line of the log.
pub struct Context<'s>(&'s Session);

impl fmt::Display for Context<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let session = self.0;
        if !session.step().is_empty() {
            write!(to, " while {}", session.step())?;
        }
        let kind = match session.client {
            ClientSide::Stream(_) => "",
            ClientSide::Datagrams(_) => "udp ",
        };
        write!(to, ", {kind}client: {}, server: {}", Peer(session.peer()), session.listen.name)?;
        let more = session.extra.get().and_then(|extra| extra.log_context.borrow().clone());
        more.map_or(Ok(()), |more| more.write(session, to))
    }
}
