//! A session of datagrams that is passed on.
//!
//! What the client sends goes to the server without this task ([`DatagramSession::pass_to`]). What the server sends is read
//! in batches and leaves to the client with what other sessions send in the same turn of the loop. When there is no room
//! towards clients, nothing is read, so that it waits in the kernel; a datagram for which there is no room towards the server
//! is lost.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use freerun_proto::Status;
use freerun_runtime::deadline::Deadline;
use freerun_runtime::log::{Errno, Level};
use freerun_runtime::loops;
use freerun_runtime::net::udp::{BATCH, Datagrams, Receiver};
use freerun_serve::Subject;
use freerun_serve::upstream::relay::pace::RatePace;
use freerun_upstream::{AttemptFailure, Lease, now};

use super::error::tell_consequence;
use super::record::Record;
use super::settings::ProxySettings;
use crate::client::datagrams::{Counts, DatagramLimits, DatagramSession, EndReason, Header};
use crate::session::Session;
use crate::session::handler::status;

/// The number of datagrams that are taken from a server's socket at first; with more to come, a whole batch.
const FEW: usize = 4;

/// The number of batches that are taken in a row before other tasks have their turn.
const IN_A_ROW: usize = 4;

/// A session whose server was reached.
pub(super) struct RelayedDatagrams {
    client: Rc<DatagramSession>,
    upstream: Rc<Datagrams>,
    lease: Option<Lease>,
    record: Rc<Record>,
    /// The number of datagrams that are taken at a time.
    most: usize,
    /// Whether the kernel has been asked to put datagrams together.
    is_bulk: bool,
    /// Whether the server has sent anything, and how many bytes.
    was_heard: bool,
    heard: u64,
    rate: Option<Box<DatagramRate>>,
}

/// The limit of what is read from the server (`proxy_download_rate`).
struct DatagramRate {
    pace: RatePace,
    deadline: Deadline,
}

/// The reason that a session is over.
#[derive(Debug)]
enum Over {
    /// All that was expected has come.
    Done,
    Ending(EndReason),
    Receive(io::Error),
    Send(io::Error),
}

impl RelayedDatagrams {
    /// A session that begins with this header in front of what the client sends.
    pub(super) fn new(
        session: &Session,
        client: Rc<DatagramSession>,
        settings: &ProxySettings,
        (upstream, lease, header): (Datagrams, Lease, Header),
        record: Rc<Record>,
    ) -> RelayedDatagrams {
        let pace = RatePace::new(settings.proxy_download_rate.of(session), loops::millis(), 0);
        let rate = pace.map(|pace| Box::new(DatagramRate { pace, deadline: Deadline::default() }));
        let upstream = Rc::new(upstream);
        client.keep_for(settings.proxy_timeout);
        let limits = DatagramLimits { requests: settings.proxy_requests, responses: settings.proxy_responses };
        client.limit_rate(RatePace::new(settings.proxy_upload_rate.of(session), loops::millis(), 0));
        client.pass_to(upstream.clone(), header, limits);
        let lease = Some(lease);
        RelayedDatagrams {
            client,
            upstream,
            lease,
            record,
            most: FEW,
            is_bulk: false,
            was_heard: false,
            heard: 0,
            rate,
        }
    }

    /// Passes datagrams on; ready when the session is over, with its status. It has to be the same task each time.
    pub(super) fn poll(&mut self, session: &Session, context: &mut Context<'_>) -> Poll<Status> {
        debug_assert!(self.lease.is_some(), "a session that has ended goes on");
        let over = ready!(self.poll_over(context));
        Poll::Ready(self.end(session, over))
    }

    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<Over> {
        if let Some(error) = self.client.take_failure() {
            return Poll::Ready(Over::Send(error));
        }
        if self.client.is_done() {
            return Poll::Ready(Over::Done);
        }
        if let Poll::Ready(ending) = self.client.poll_ending(context) {
            return Poll::Ready(Over::Ending(ending));
        }
        for _ in 0..IN_A_ROW {
            ready!(self.client.poll_room(context));
            if let Some(rate) = &mut self.rate {
                ready!(rate.poll(self.heard, context));
            }
            let (client, most) = (&self.client, self.most);
            let received = ready!(self.upstream.poll_receive(context, most, |received| pass_back(client, received)));
            let (count, bytes) = match received {
                Ok(received) => received,
                Err(error) => return Poll::Ready(Over::Receive(error)),
            };
            if !std::mem::replace(&mut self.was_heard, true) {
                let at = loops::nanos();
                self.record.with(|last| last.answered(at));
                let took = self.record.since(at);
                if let Some(lease) = &self.lease {
                    lease.first_byte(took, now());
                }
            }
            self.heard += bytes;
            self.client.touch();
            self.grow(count);
            if self.client.is_done() {
                return Poll::Ready(Over::Done);
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes more at a time from a server that sends more, and has the kernel put its datagrams together.
    fn grow(&mut self, count: usize) {
        if count < self.most {
            self.most = FEW;
            return;
        }
        self.most = BATCH;
        if !std::mem::replace(&mut self.is_bulk, true) {
            self.upstream.gather();
        }
    }

    /// Logs why the session is over, tells the server's account, and returns the status.
    fn end(&mut self, session: &Session, over: Over) -> Status {
        let Some(lease) = self.lease.take() else { return status::OK };
        let at = loops::nanos();
        self.record.end(at);
        let took = self.record.since(at);
        let counts = self.note(session);
        lease.bytes(counts.passed, self.heard);
        let what = match over {
            Over::Receive(error) => {
                session.set_step("proxying and reading from upstream");
                session.log(Level::Error, format_args!("recv() failed ({})", Errno(&error)));
                Err(AttemptFailure::Connect)
            }
            Over::Send(error) => {
                session.set_step("proxying and sending to upstream");
                session.log(Level::Error, format_args!("sendmmsg() failed ({})", Errno(&error)));
                Err(AttemptFailure::Connect)
            }
            Over::Ending(EndReason::TimedOut) if self.client.lacks_answers() => {
                session.log(Level::Error, format_args!("upstream timed out (110: Connection timed out)"));
                Err(AttemptFailure::Timeout)
            }
            Over::Ending(EndReason::TimedOut) => Ok("timed out"),
            Over::Ending(EndReason::GivesWay) => Ok("session gives way to a new one (udp_sessions)"),
            Over::Ending(EndReason::Closed) => Ok("session closed"),
            Over::Done => Ok("done"),
        };
        let failure = match what {
            Ok(what) => {
                session.log_bare(Level::Info, format_args!("udp {what}, {}", Totals(&counts, self.heard)));
                tell_consequence(session, lease.succeeded(took, now()));
                return status::OK;
            }
            Err(failure) => failure,
        };
        // A server that has answered was there when it was chosen.
        let verdict = if self.was_heard { lease.broken(failure, now()) } else { lease.failed(failure, now()) };
        tell_consequence(session, verdict);
        status::BAD_GATEWAY
    }

    /// Ends the session, if it has not ended.
    pub(super) fn stop(&mut self, session: &Session) {
        if self.lease.is_some() {
            self.end(session, Over::Ending(EndReason::Closed));
        }
    }

    /// Notes the bytes so far, for the log.
    fn note(&self, session: &Session) -> Counts {
        let counts = self.client.counts();
        session.received.set(counts.received);
        session.sent.set(counts.sent);
        let heard = self.heard;
        self.record.with(|last| (last.sent, last.received) = (counts.passed, heard));
        counts
    }
}

impl Drop for RelayedDatagrams {
    fn drop(&mut self) {
        self.client.leave();
    }
}

/// Sends to the client what its server has sent. Returns the number of pieces, and of bytes.
fn pass_back(client: &DatagramSession, received: &Receiver) -> (usize, u64) {
    let mut sum = (0, 0);
    for one in received.iter() {
        client.send(one.bytes, one.segment);
        sum = (sum.0 + 1, sum.1 + one.bytes.len() as u64);
    }
    sum
}

impl DatagramRate {
    /// Ready when more may be read, after `heard` bytes.
    fn poll(&mut self, heard: u64, context: &mut Context<'_>) -> Poll<()> {
        if self.pace.allows(heard, loops::millis()) > 0 {
            return Poll::Ready(());
        }
        self.deadline.poll_until(self.pace.next(heard), context)
    }
}

/// nginx's figures of a session that is over.
struct Totals<'c>(&'c Counts, u64);

impl fmt::Display for Totals<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals(counts, heard) = self;
        let Counts { requests, responses, received, sent, passed, .. } = counts;
        write!(to, "packets from/to client:{requests}/{responses}, bytes from/to client:{received}/{sent}")?;
        write!(to, ", bytes from/to upstream:{heard}/{passed}")
    }
}
