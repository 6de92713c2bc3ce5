//! The log's words for what goes wrong on a connection as a whole.

use std::fmt;

use freerun_proto::flood::Flood;
use freerun_proto::h3::H3ConnectionError;
use freerun_quic::connection::ConnectionError;
use freerun_runtime::log::Level;

use crate::log::Peer;
use crate::protocol::h3::client::H3Client;

impl H3Client {
    /// Logs that the client has broken the rules of HTTP/3, which ends the connection.
    pub(super) fn log_failure(&self, failure: &H3ConnectionError) {
        self.facts.loop_state.shared.http3.failed(failure.flood);
        let (what, code) = (failure.what, failure.code.name());
        match failure.flood {
            Some(Flood::Fields) => self.log(format_args!("client sent too large header")),
            _ => self.log(format_args!("client broke the rules of HTTP/3: {what} ({code})")),
        }
    }

    /// Logs that the connection has ended while requests were being served.
    pub(super) fn log_end(&self, reason: &ConnectionError) {
        if self.has_no_streams() {
            return;
        }
        match reason {
            ConnectionError::TimedOut => self.log(format_args!("client timed out (110: Connection timed out)")),
            ConnectionError::ConnectionClosed(_)
            | ConnectionError::ApplicationClosed(_)
            | ConnectionError::Reset
            | ConnectionError::LocallyClosed => self.log(format_args!("client prematurely closed connection")),
            error => self.log(format_args!("client broke the rules of QUIC: {error}")),
        }
    }

    fn log(&self, what: fmt::Arguments<'_>) {
        let peer = self.peer();
        let (client, server) = (Peer(peer.as_deref().unwrap_or(&self.facts.first_peer)), &self.facts.listen.name);
        let doing = "while processing HTTP/3 connection";
        self.facts.log(Level::Info, format_args!("{what} {doing}, client: {client}, server: {server}"));
    }
}
