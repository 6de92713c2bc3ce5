//! The end of a session: its lines in the logs.

use freerun_proto::Status;

use crate::session::Session;
use crate::session::handler::{HandlerRun, Phase};

/// Ends a session with a status: the handlers of the phase `log` run, and its places in the counts of limits become free.
pub fn finish(session: &Session, status: Status) {
    session.set_status(status);
    if let Some(datagrams) = session.client.datagrams() {
        let counts = datagrams.counts();
        session.received.set(counts.received);
        session.sent.set(counts.sent);
        datagrams.leave();
    }
    session.loop_state.shared.sessions.end(status.code(), session.received.get(), session.sent.get());
    session.count_end();
    session.set_logged();
    let server = session.server();
    for handler in server.handlers(Phase::Log) {
        if let HandlerRun::Now(run) = handler {
            run(session);
        }
    }
    session.release();
}
