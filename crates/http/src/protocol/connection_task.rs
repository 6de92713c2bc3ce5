//! The task of a connection: it has the connection opened, runs the protocol that follows, and waits between requests.
//!
//! An idle connection holds neither a buffer nor the future of a request, which keeps ten thousand of them small.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use freerun_runtime::log::Level;
use freerun_serve::accept::loop_listeners;
use freerun_serve::accept::service::{MovingConnection, words_of_panic};

use crate::connection::idle::{self, AwaitedRequest, Keep};
use crate::connection::send_state::SendStage;
use crate::http_loop::HttpLoop;
use crate::protocol::connection_runner::{self, ConnectionAnswer, ConnectionRunner, ConnectionWork, Next};
use crate::protocol::h1::{self, Continuation, UpgradedConnection};
use crate::protocol::h2;
use crate::protocol::opening::FirstReads;
use crate::protocol::runner_pool::RunnerPool;
use crate::request::ClientConnection;

/// The state that the tasks of connections share on a loop.
pub struct Driver {
    pub(super) http: Rc<HttpLoop>,
    /// The driver of HTTP/2.
    pub(super) h2: Rc<h2::H2Driver>,
    pub(super) first_reads: FirstReads,
    /// The unused runners.
    runners: RunnerPool<ConnectionWork, ConnectionAnswer>,
}

impl Driver {
    /// The driver of one loop.
    pub fn new(http: Rc<HttpLoop>, h2: Rc<h2::H2Driver>) -> Rc<Driver> {
        let (first_reads, runners) = (FirstReads::default(), connection_runner::pool());
        Rc::new(Driver { http, h2, first_reads, runners })
    }

    /// A runner that opens this connection, or serves its next requests.
    fn take_runner(self: &Rc<Self>, connection: &Rc<ClientConnection>) -> ConnectionRunner {
        self.runners.take((self.clone(), connection.clone()))
    }
}

/// Serves a connection to its end.
///
/// The future is written by hand and not as an `async fn`, for its size: it is the whole task of a connection that
/// waits for its next request.
pub struct ConnectionTask {
    connection: Rc<ClientConnection>,
    state: ConnectionState,
}

enum ConnectionState {
    /// The connection is being opened, or requests of HTTP/1 are being served.
    Active(ConnectionRunner),
    /// Between two requests. The driver is kept here, where no other part holds it; an idle connection is not larger
    /// for that.
    Idle(idle::Key, Rc<Driver>),
    /// Another protocol than HTTP is served.
    Upgraded(Box<UpgradedConnection>),
    /// HTTP/2 is served.
    Http2(Box<h2::Serve>),
    /// The connection has ended, or it could not be entered among the idle ones.
    Over,
}

impl ConnectionTask {
    /// Serves a connection that was just accepted.
    pub fn new(driver: &Rc<Driver>, connection: Rc<ClientConnection>) -> ConnectionTask {
        let state = ConnectionState::Active(driver.take_runner(&connection));
        ConnectionTask { connection, state }
    }

    /// Serves a connection without a request that another loop has had.
    pub fn adopted(driver: &Rc<Driver>, connection: Rc<ClientConnection>, keep: Keep) -> ConnectionTask {
        let key = driver.http.idle.enter(&connection, AwaitedRequest::Next, keep);
        ConnectionTask { connection, state: ConnectionState::Idle(key, driver.clone()) }
    }

    /// Whether another loop may have the connection now. It is held here and among the idle ones, and nowhere else.
    pub fn may_move(&self) -> bool {
        matches!(self.state, ConnectionState::Idle(..))
            && self.connection.may_move()
            && Rc::strong_count(&self.connection) == 2
    }

    /// Lets go of a connection that [may move](ConnectionTask::may_move).
    pub fn into_moving(mut self) -> Option<MovingConnection> {
        let ConnectionState::Idle(key, driver) = std::mem::replace(&mut self.state, ConnectionState::Over) else {
            return None;
        };
        let keep = driver.http.idle.leave(key)?;
        Some(Rc::get_mut(&mut self.connection)?.moving(keep))
    }

    /// Whether another protocol than HTTP is served, for a request that began with this generation.
    pub fn is_tunnel_of(&self, generation: u64) -> bool {
        matches!(&self.state, ConnectionState::Upgraded(upgraded) if upgraded.generation() == Some(generation))
    }

    /// Whether another loop has taken the connection over, which has sent nothing while it was here.
    pub fn is_taken(&self) -> bool {
        self.connection.is_taken()
    }

    /// Polls the opening, or the requests of HTTP/1. A panic ends them and the connection, not the loop. Ready with how long
    /// to wait for the next request, or with `None` if the connection goes on in another state, or is to be closed.
    fn poll_active(&mut self, context: &mut Context<'_>) -> Poll<Option<(Keep, Rc<Driver>)>> {
        let ConnectionState::Active(runner) = &mut self.state else { return Poll::Ready(None) };
        let (driver, next) = match std::panic::catch_unwind(AssertUnwindSafe(|| runner.poll(context))) {
            Ok(Poll::Ready(answer)) => answer,
            Ok(Poll::Pending) => {
                if self.connection.loop_state.is_cut() {
                    return self.cut_off();
                }
                if self.connection.has_places() && self.connection.transport.poll_ended(context).is_ready() {
                    self.connection.free_places();
                }
                return Poll::Pending;
            }
            Err(panic) => {
                report_panic(&self.connection, &*panic);
                self.state = ConnectionState::Over;
                return Poll::Ready(None);
            }
        };
        if let ConnectionState::Active(runner) = std::mem::replace(&mut self.state, ConnectionState::Over) {
            driver.runners.give_back(runner);
        }
        match next {
            Next::Http1(Continuation::Idle(keep)) => return Poll::Ready(Some((keep, driver))),
            Next::Http1(Continuation::Upgraded(upgraded)) => self.state = ConnectionState::Upgraded(upgraded),
            Next::Http1(Continuation::Close) => {}
            Next::Http2(http2) => self.state = ConnectionState::Http2(http2),
        }
        Poll::Ready(None)
    }

    /// Ends the request that goes on, which logs itself, and the connection.
    #[cold]
    fn cut_off(&mut self) -> Poll<Option<(Keep, Rc<Driver>)>> {
        let requests = std::mem::replace(&mut self.state, ConnectionState::Over);
        if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(requests))) {
            report_panic(&self.connection, &*panic);
        }
        Poll::Ready(None)
    }

    /// Polls the protocol that follows HTTP. A panic ends it and the connection.
    fn poll_upgraded(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let ConnectionState::Upgraded(upgraded) = &mut self.state else { return Poll::Ready(()) };
        match std::panic::catch_unwind(AssertUnwindSafe(|| upgraded.poll(context))) {
            Ok(polled) => polled,
            Err(panic) => {
                log_panic(&self.connection, &*panic);
                // Neither protocol has an answer to this, but the client must not take what it has for the whole.
                self.connection.transport.cut_on_close();
                Poll::Ready(())
            }
        }
    }

    /// Polls HTTP/2. A panic ends the connection.
    fn poll_http2(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let ConnectionState::Http2(http2) = &mut self.state else { return Poll::Ready(()) };
        match std::panic::catch_unwind(AssertUnwindSafe(|| http2.poll(context))) {
            Ok(polled) => polled,
            Err(panic) => {
                log_panic(&self.connection, &*panic);
                Poll::Ready(())
            }
        }
    }

    /// Ready with whether the socket can be read, even if only its end.
    fn poll_idle(&self, context: &mut Context<'_>) -> Poll<bool> {
        self.connection.transport.poll_readable(context).map(|ready| ready.is_ok())
    }

    /// Takes the connection out of the idle ones, if it is among them.
    #[inline]
    fn leave_idle(&mut self) -> Option<Rc<Driver>> {
        match std::mem::replace(&mut self.state, ConnectionState::Over) {
            ConnectionState::Idle(key, driver) => {
                driver.http.idle.leave(key);
                Some(driver)
            }
            _ => None,
        }
    }
}

impl Future for ConnectionTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.connection.polls.was_polled() && !self.connection.stays() {
            return Poll::Ready(());
        }
        loop {
            if let ConnectionState::Idle(..) = self.state {
                let Poll::Ready(goes_on) = self.poll_idle(context) else {
                    self.connection.polls.rest();
                    return Poll::Pending;
                };
                if !self.connection.stays() {
                    return Poll::Ready(());
                }
                let Some(driver) = self.leave_idle().filter(|_| goes_on) else { return Poll::Ready(()) };
                self.state = ConnectionState::Active(driver.take_runner(&self.connection));
            }
            if let ConnectionState::Upgraded(_) = self.state {
                return self.poll_upgraded(context);
            }
            if let ConnectionState::Http2(_) = self.state {
                return self.poll_http2(context);
            }
            let keep = ready!(self.poll_active(context));
            if let ConnectionState::Upgraded(_) | ConnectionState::Http2(_) = self.state {
                continue;
            }
            match keep {
                Some((mut keep, driver)) if !self.connection.is_closing() => {
                    if let Some(to) = self.connection.goes_to()
                        && let Some(connection) = Rc::get_mut(&mut self.connection)
                    {
                        connection.loop_state.shedding.spend();
                        let moving = connection.moving(keep);
                        loop_listeners::move_to(&connection.loop_state, to, moving);
                        return Poll::Ready(());
                    }
                    let connection = &self.connection;
                    let is_fresh = connection.requests.get() == 0;
                    let still_listens = driver.http.renew_connection(connection);
                    if (connection.loop_state.is_draining() || !still_listens) && !is_fresh {
                        keep.most = keep.most.min(keep.least);
                        if keep.most.is_zero() {
                            return Poll::Ready(());
                        }
                    }
                    let waiting = if is_fresh { AwaitedRequest::First } else { AwaitedRequest::Next };
                    if is_fresh {
                        connection.offer();
                    }
                    let key = driver.http.idle.enter(connection, waiting, keep);
                    connection.loop_state.admission.one_may_leave();
                    self.state = ConnectionState::Idle(key, driver);
                }
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        // The streams of a connection hold it, too, until they know that it has ended.
        self.leave_idle();
        self.connection.free_places();
        if !self.connection.stays() {
            // The socket is another loop's.
            self.connection.release();
        } else if Rc::strong_count(&self.connection) > 1 {
            // A request that goes on in the background must not keep the client waiting for the end.
            self.connection.transport.end();
        }
        self.connection.loop_state.admission.end();
    }
}

fn log_panic(connection: &ClientConnection, panic: &(dyn std::any::Any + Send)) {
    connection.log(Level::Alert, format_args!("request ended by a panic: {}", words_of_panic(panic)));
}

/// Logs a panic, and answers the client if it got nothing. A response that has begun is cut off so that it does not look
/// whole, whatever its framing was.
fn report_panic(connection: &ClientConnection, panic: &(dyn std::any::Any + Send)) {
    log_panic(connection, panic);
    match connection.sending.stage() {
        SendStage::Nothing => h1::answer_panic(connection),
        SendStage::Begun => connection.transport.reset_on_close(),
        SendStage::Ended => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each idle connection has one: a larger state costs ten thousand times what it adds.
    #[test]
    fn the_task_of_a_connection_stays_small() {
        assert!(size_of::<ConnectionTask>() <= 40, "{}", size_of::<ConnectionTask>());
    }
}
