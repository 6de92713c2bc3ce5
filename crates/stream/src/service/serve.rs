//! The task of a session.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use freerun_proto::Status;
use freerun_runtime::log::Level;
use freerun_serve::Subject;
use freerun_serve::accept::loop_listeners::services_of_this_loop;
use freerun_serve::accept::service::{AcceptedConnection, words_of_panic};
use freerun_serve::listen::ListenSpec;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::loops::state::LoopState;

use crate::client::ClientSide;
use crate::path::finish::finish;
use crate::path::to_content;
use crate::session::handler::{ContentFuture, SessionEnd, status};
use crate::session::{Leftover, Session};

/// Serves a session to its end.
///
/// The future is written by hand and not as an `async fn`, for its size: a session that waits in its content handler
/// keeps nothing of the phases before.
pub struct SessionFuture {
    /// `None` when the session has ended.
    session: Option<Rc<Session>>,
    state: ServeState,
}

enum ServeState {
    /// The phases before the content.
    Phases(Pin<Box<dyn Future<Output = Result<(), Status>>>>),
    /// The content handler.
    Content(ContentFuture),
    /// The session has ended.
    Over,
}

impl SessionFuture {
    /// Serves a session that has just begun.
    pub fn new(session: Rc<Session>) -> SessionFuture {
        let of = session.clone();
        let phases = Box::pin(async move { to_content(&of).await });
        SessionFuture { session: Some(session), state: ServeState::Phases(phases) }
    }

    /// The number of the generation that the session has begun with, unless it has ended.
    pub fn generation(&self) -> Option<u64> {
        self.session.as_ref().map(|session| session.generation.number)
    }

    /// Polls the session; ready with how it ends.
    fn poll_end(&mut self, session: &Rc<Session>, context: &mut Context<'_>) -> Poll<SessionEnd> {
        if let ServeState::Phases(phases) = &mut self.state {
            match ready!(phases.as_mut().poll(context)) {
                Ok(()) => {
                    // Its server is known now.
                    session.count_begin();
                    match session.server().content {
                        Some(content) => self.state = ServeState::Content((content.start)(session.clone())),
                        None => {
                            session.log(Level::Error, format_args!("no handler for server"));
                            return Poll::Ready(SessionEnd::Status(status::INTERNAL_SERVER_ERROR));
                        }
                    }
                }
                Err(status) => return Poll::Ready(SessionEnd::Status(status)),
            }
        }
        match &mut self.state {
            ServeState::Content(running) => running.as_mut().poll(context),
            ServeState::Phases(_) | ServeState::Over => Poll::Ready(SessionEnd::Status(status::INTERNAL_SERVER_ERROR)),
        }
    }

    /// Ends the session.
    fn end(&mut self, end: SessionEnd) {
        // What runs holds the session.
        self.state = ServeState::Over;
        let Some(session) = self.session.take() else { return };
        let loop_state = session.loop_state.clone();
        match end {
            SessionEnd::Status(status) => finish(&session, status),
            SessionEnd::Pass(listen) => {
                finish(&session, status::OK);
                if pass_on(session, listen, &loop_state) {
                    // The connection is counted further on.
                    return;
                }
            }
        }
        loop_state.admission.end();
    }
}

impl Future for SessionFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(session) = this.session.clone() else { return Poll::Ready(()) };
        let polled = catch_unwind(AssertUnwindSafe(|| this.poll_end(&session, context)));
        let end = match polled {
            Ok(polled) => ready!(polled),
            Err(panic) => {
                session.log(Level::Alert, format_args!("session ended by a panic: {}", words_of_panic(&*panic)));
                SessionEnd::Status(status::INTERNAL_SERVER_ERROR)
            }
        };
        drop(session);
        this.end(end);
        Poll::Ready(())
    }
}

impl Drop for SessionFuture {
    fn drop(&mut self) {
        // It is ended from outside (`worker_shutdown_timeout`), or the process ends.
        self.end(SessionEnd::Status(status::OK));
    }
}

/// Hands the session's connection to the service of another listening socket. False if that was not possible: the connection
/// is closed.
fn pass_on(session: Rc<Session>, listen: LoopLocal<ListenSpec>, loop_state: &LoopState) -> bool {
    let number = session.number;
    let Some(session) = Rc::into_inner(session) else {
        debug_assert!(false, "something holds a session whose content handler has ended");
        return false;
    };
    let Leftover { client, peer, received, tls, passes } = session.into_leftover();
    // A session of datagrams has no connection.
    let ClientSide::Stream(transport) = client else { return false };
    let passes = passes.saturating_add(1);
    let accepted = AcceptedConnection { number, transport, received, tls, peer, listen, now: false, passes };
    let Some(services) = services_of_this_loop() else { return false };
    debug_assert_eq!(services.loop_state.index, loop_state.index);
    services.passed(accepted)
}
