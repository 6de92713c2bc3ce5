//! The log's words for what goes wrong on a connection as a whole.

use std::fmt;
use std::io;

use freerun_proto::h2::ConnectionError;
use freerun_proto::h2::flood::Flood;
use freerun_runtime::log::{Errno, Level};

use crate::files::read_error::ReadError;
use crate::log::Peer;
use crate::protocol::h2::shared::SharedConnection;

impl SharedConnection {
    /// Logs that the client has broken the rules, which ends the connection.
    pub(super) fn log_failure(&self, failure: &ConnectionError) {
        self.connection.loop_state.shared.http2.failed(failure.flood);
        let (what, code) = (failure.what, failure.code.name());
        match failure.flood {
            Some(Flood::Fields) => self.log(format_args!("client sent too large header"), CONNECTION),
            _ => self.log(format_args!("client broke the rules of HTTP/2: {what} ({code})"), CONNECTION),
        }
    }

    /// Logs that the client has ended the connection, if requests were being served.
    pub(super) fn log_end(&self, error: Option<&io::Error>) {
        if self.look(|machine| machine.failure().is_some() || machine.used_slots() == 0) {
            return;
        }
        match error {
            Some(error) => self.log(format_args!("recv() failed ({})", Errno(error)), CONNECTION),
            None => self.log(format_args!("client prematurely closed connection"), CONNECTION),
        }
    }

    /// Logs that the client has not done in time what it had to do.
    pub(super) fn log_timeout(&self, doing: &str) {
        self.log(format_args!("client timed out (110: Connection timed out)"), doing);
    }

    /// Logs that a file cannot be read after a part of it was sent.
    pub(super) fn log_unreadable(&self, error: &ReadError) {
        let (client, server) = (Peer(&self.connection.first_peer), &self.connection.listen.name);
        let doing = "while sending response to client";
        self.connection.log(Level::Crit, format_args!("{error} {doing}, client: {client}, server: {server}"));
    }

    fn log(&self, what: fmt::Arguments<'_>, doing: &str) {
        let (client, server) = (Peer(&self.connection.first_peer), &self.connection.listen.name);
        self.connection.log(Level::Info, format_args!("{what} {doing}, client: {client}, server: {server}"));
    }
}

/// An activity of a client that no request of it explains.
pub(super) const CONNECTION: &str = "while processing HTTP/2 connection";
