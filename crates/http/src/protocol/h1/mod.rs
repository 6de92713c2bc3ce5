//! The driver of HTTP/1: the requests of a connection one after the other, and the waiting between them.
//!
//! An idle connection holds neither a buffer nor the future of a request, which keeps ten thousand of them small.

mod file;
mod linger;
pub mod read;
mod runner;
mod send;
pub mod tunnel_request;
pub mod upgraded;
mod words;
mod writer;

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use freerun_proto::{BodyFraming, Version};
use freerun_runtime::log::{Errno, Level};
use freerun_runtime::timer::Timer;
use freerun_runtime::{buffers, loops};
use freerun_serve::predictor::Sampled;

use crate::arrive;
use crate::body::{self, BodyError, finish_discarding};
use crate::connection::idle::{self, Waiting};
use crate::connection::takeover::Takeover;
use crate::http_loop::HttpLoop;
use crate::message::persistence::CloseReason;
use crate::message::scratch::RequestScratch;
use crate::phases::{self, Answer, keepalive};
use crate::protocol::h1::read::Reading;
use crate::protocol::h1::runner::{Post, RequestRunner, RunnerPool};
use crate::protocol::h1::upgraded::Upgraded;
use crate::protocol::proxy_header;
use crate::protocol::unanswered::{self, Awaited, End};
use crate::request::core_settings::{CoreSettings, LingeringClose};
use crate::request::response::{Body, Response};
use crate::request::{ClientStream, Connection, Head, Request};
use crate::settings::server::ServerSettings;
use crate::write::WriteError;
use crate::{finish, log_error};

/// How long a connection without a request is kept.
#[derive(Clone, Copy)]
struct Keep {
    /// The time until it is closed.
    most: Duration,
    /// The time until it may be closed to make room, or because the worker is shutting down (`keepalive_min_timeout`).
    least: Duration,
}

impl Keep {
    fn most(most: Duration) -> Keep {
        Keep { most, least: Duration::ZERO }
    }
}

/// What the connection does after a request.
enum After {
    /// Serves another request; bytes of it may be here already.
    Next(Vec<u8>, Keep),
    /// Leaves HTTP, while the connection goes on.
    Upgraded(Box<Upgraded>),
    /// Reads on for a while, because the client may still be sending, so that it sees the response.
    Linger(Duration, Duration),
    /// Closes.
    Close,
}

/// The state that the connections of HTTP/1 share on a loop.
pub struct Driver {
    http: Rc<HttpLoop>,
    /// The unused runners.
    runners: RunnerPool,
    /// Whether a connection's first bytes are usually there when it is accepted. Most clients send a request right
    /// after the handshake. A loop that was busy finds it there, and reading it at once saves a registration, which
    /// costs three times as much as a read that finds nothing. A loop that was waiting for the connection comes too
    /// early.
    first_reads: Sampled,
}

impl Driver {
    /// The driver of one loop.
    pub fn new(http: Rc<HttpLoop>) -> Rc<Driver> {
        Rc::new(Driver { http, runners: RunnerPool::default(), first_reads: Sampled::new(3, 1) })
    }

    /// A runner for the requests of a connection.
    fn take_runner(self: &Rc<Self>, connection: &Rc<Connection>) -> RequestRunner {
        self.runners.take(self, connection)
    }

    /// Drops the unused runners, which hold on to the driver, when the loop ends.
    pub fn forget(&self) {
        self.runners.clear();
    }
}

/// Serves a connection to its end.
///
/// The future is written by hand and not as an `async fn`, for its size: it is the whole task of a connection that
/// waits for its next request.
pub struct Serve {
    connection: Rc<Connection>,
    state: State,
}

enum State {
    /// Requests are being served.
    Active(RequestRunner),
    /// Between two requests. The driver is kept here, where no other part holds it; an idle connection is not larger
    /// for that.
    Idle(idle::Key, Rc<Driver>),
    /// Another protocol than HTTP is served.
    Upgraded(Box<Upgraded>),
    /// The connection has ended, or it could not be entered among the idle ones.
    Over,
}

impl Serve {
    /// Serves a connection that was just accepted.
    pub fn new(driver: &Rc<Driver>, connection: Rc<Connection>) -> Serve {
        let state = State::Active(driver.take_runner(&connection));
        Serve { connection, state }
    }

    /// Polls the requests. A panic ends them and the connection, not the loop. Ready with how long to wait for the next
    /// request, or with `None` if the connection is to be closed.
    fn poll_active(&mut self, context: &mut Context<'_>) -> Poll<Option<(Keep, Rc<Driver>)>> {
        let State::Active(runner) = &mut self.state else { return Poll::Ready(None) };
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| runner.future.as_mut().poll(context)));
        if let Err(panic) = polled {
            report_panic(&self.connection, &*panic);
            self.state = State::Over;
            return Poll::Ready(None);
        }
        let Some(keep) = runner.post.answer.take() else { return Poll::Pending };
        let upgraded = runner.post.upgraded.take();
        let State::Active(runner) = std::mem::replace(&mut self.state, State::Over) else { return Poll::Ready(None) };
        let driver = runner.post.driver.clone();
        driver.runners.give_back(runner);
        if let Some(upgraded) = upgraded {
            self.state = State::Upgraded(upgraded);
        }
        Poll::Ready(keep.map(|keep| (keep, driver)))
    }

    /// Polls the protocol that follows HTTP. A panic ends it and the connection.
    fn poll_upgraded(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let State::Upgraded(upgraded) = &mut self.state else { return Poll::Ready(()) };
        match std::panic::catch_unwind(AssertUnwindSafe(|| upgraded.poll(context))) {
            Ok(polled) => polled,
            Err(panic) => {
                report_panic(&self.connection, &*panic);
                Poll::Ready(())
            }
        }
    }

    /// Ready with whether the socket can be read, even if only its end.
    fn poll_idle(&self, context: &mut Context<'_>) -> Poll<bool> {
        self.connection.transport.poll_readable(context).map(|ready| ready.is_ok())
    }

    /// Takes the connection out of the idle ones, if it is among them.
    fn leave_idle(&mut self) -> Option<Rc<Driver>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Idle(key, driver) => {
                driver.http.idle.leave(key);
                Some(driver)
            }
            _ => None,
        }
    }
}

impl Future for Serve {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if let State::Idle(..) = self.state {
                let goes_on = ready!(self.poll_idle(context));
                let Some(driver) = self.leave_idle().filter(|_| goes_on) else { return Poll::Ready(()) };
                self.state = State::Active(driver.take_runner(&self.connection));
            }
            if let State::Upgraded(_) = self.state {
                return self.poll_upgraded(context);
            }
            let keep = ready!(self.poll_active(context));
            if let State::Upgraded(_) = self.state {
                continue;
            }
            let connection = &self.connection;
            match keep {
                Some((mut keep, driver)) if !connection.is_closing() => {
                    let is_fresh = connection.requests.get() == 0;
                    if connection.loop_state.is_draining() && !is_fresh {
                        keep.most = keep.most.min(keep.least);
                        if keep.most.is_zero() {
                            return Poll::Ready(());
                        }
                    }
                    driver.http.renew_connection(connection);
                    let waiting = if is_fresh { Waiting::First } else { Waiting::Next };
                    let key = driver.http.idle.enter(connection, waiting, keep.most, keep.least);
                    connection.loop_state.admission.one_may_leave();
                    self.state = State::Idle(key, driver);
                }
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        self.leave_idle();
        if Rc::strong_count(&self.connection) > 1 {
            // A request that goes on in the background must not keep the client waiting for the end.
            self.connection.transport.end();
        }
        self.connection.loop_state.admission.end();
    }
}

fn report_panic(connection: &Connection, panic: &(dyn std::any::Any + Send)) {
    let what = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let what = what.unwrap_or("no message");
    connection.log(Level::Alert, format_args!("request ended by a panic: {what}"));
    if !connection.responding.get() {
        let sorry = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        // The panic is in the log; a client that cannot take these bytes notices that the connection is closed.
        let _ = connection.transport.try_write(&[std::io::IoSlice::new(sorry)], false);
    }
}

/// Serves one connection after the other, each until it has no request.
async fn serve(post: Rc<Post>) {
    let mut scratch = RequestScratch::default();
    loop {
        let connection = std::future::poll_fn(|_| match post.connection.take() {
            Some(connection) => Poll::Ready(connection),
            None => Poll::Pending,
        });
        let connection = connection.await;
        let keep = requests(&connection, &post, &mut scratch).await;
        drop(connection);
        post.answer.set(Some(keep));
    }
}

/// Serves requests until there is none. Returns how long to wait for the next request, or `None` if the connection is
/// to be closed.
async fn requests(connection: &Rc<Connection>, post: &Post, scratch: &mut RequestScratch) -> Option<Keep> {
    let driver = &*post.driver;
    let http = &*driver.http;
    let mut buffer = Vec::new();
    if !connection.was_polled.replace(true) {
        let first = &driver.first_reads;
        let read = if first.pays() {
            buffer = buffers::take();
            let read = connection.transport.try_read(&mut buffer);
            first.came_out(matches!(read, Ok(1..)));
            read
        } else {
            Err(std::io::ErrorKind::WouldBlock.into())
        };
        match read {
            Ok(1..) => {}
            // A client that has sent nothing yet waits among the idle connections: without a buffer, and the first to
            // be closed when there are too many connections.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                buffers::give_back(buffer);
                let (_, servers, _) = http.servers(connection)?;
                return Some(Keep::most(servers.entry.settings.get::<ServerSettings>().client_header_timeout));
            }
            ended => {
                buffers::give_back(buffer);
                let (_, servers, _) = http.servers(connection)?;
                let awaited = if servers.proxy_protocol { Awaited::ProxyHeader } else { Awaited::First };
                unanswered::log(http, connection, awaited, &ended.err().map_or(End::Closed, End::Broken));
                return None;
            }
        }
    }
    let mut timer = Timer::default();
    if connection.requests.get() == 0 && connection.proxied().is_none() {
        let (_, servers, _) = http.servers(connection)?;
        if servers.proxy_protocol {
            let timeout = servers.entry.settings.get::<ServerSettings>().client_header_timeout;
            let Some(header) = proxy_header::read(http, connection, &mut timer, timeout, &mut buffer).await else {
                buffers::give_back(buffer);
                return None;
            };
            connection.set_proxied(header);
            if buffer.is_empty() {
                buffers::give_back(buffer);
                return Some(Keep::most(timeout));
            }
        }
    }
    loop {
        // A client that always has its next request ready must not keep the others waiting.
        loops::consume_budget().await;
        let serial = connection.requests.get() + 1;
        connection.requests.set(serial);
        match one_request(http, connection, &mut timer, buffer, serial, scratch).await {
            After::Next(rest, keep) if rest.is_empty() => return Some(keep),
            After::Next(rest, _) => buffer = rest,
            After::Linger(pause, total) => {
                linger::linger(connection, &mut timer, pause, total).await;
                return None;
            }
            After::Upgraded(upgraded) => {
                post.upgraded.set(Some(upgraded));
                return None;
            }
            After::Close => return None,
        }
    }
}

async fn one_request(
    http: &HttpLoop,
    connection: &Rc<Connection>,
    timer: &mut Timer,
    buffer: Vec<u8>,
    serial: u64,
    scratch: &mut RequestScratch,
) -> After {
    let Some((generation, servers, still_listens)) = http.servers(connection) else { return After::Close };
    let settings = servers.entry.settings.get::<ServerSettings>();
    let rules = read::rules(settings);
    loops::note(connection.number, "reading a request head");
    let pipelined = serial > 1 && !buffer.is_empty();
    let mut first_byte = loops::now();
    let timeout = settings.client_header_timeout;
    let reading = read::read(connection, timer, buffer, scratch.head(), &rules, timeout, &mut first_byte).await;
    let (head, fault) = match reading {
        Reading::Head(head) => (head, None),
        Reading::Bad(mut head, error) => {
            // A request line that was not understood is answered with a head, unlike a request of HTTP/0.9.
            if head.parsed.version == Version::Http09 {
                head.parsed.version = Version::Http10;
            }
            (head, Some(Fault::Protocol(error)))
        }
        Reading::TimedOut(head) => {
            let text = words::timed_out(&head, pipelined);
            (head, Some(Fault::Silent(408, text)))
        }
        Reading::Broken(head, error) => {
            let text = words::broken(&head, pipelined, error.as_ref());
            (head, Some(Fault::Silent(400, text)))
        }
        Reading::Nothing(end) => {
            unanswered::log(http, connection, if serial == 1 { Awaited::First } else { Awaited::Next }, &end);
            return After::Close;
        }
    };
    connection.loop_state.stats.requests.add_alone();
    let place = (servers.server.clone(), servers.entry.clone());
    let client = ClientStream::of_connection(connection.clone());
    let mut request = Request::new(client, generation, place, head, serial, first_byte);
    request.arrival.pipelined = pipelined;
    loops::note(connection.number, "answering");
    let answer = match fault {
        Some(Fault::Silent(status, text)) => {
            if !request.head.parsed.method_text.is_empty() {
                // The host and path are needed for the log only.
                let _ = arrive::route_server(&mut request, &servers, false, settings.merge_slashes, scratch);
            }
            log_error!(request, Info, "{text}");
            request.sent.status = status;
            if status == 408 {
                reset_if_wanted(connection, &request);
            }
            finish::finish(&mut request);
            return After::Close;
        }
        Some(Fault::Protocol(error)) => {
            // The part before the error chooses the server, and is in the log.
            let understood = !request.head.parsed.method_text.is_empty();
            let whole = error.is_of_the_whole_head();
            let routed = understood
                .then(|| arrive::route_server(&mut request, &servers, whole, settings.merge_slashes, scratch));
            let status = match routed {
                Some(Err(earlier)) => earlier,
                _ => {
                    log_error!(request, Info, "{}", words::bad(&request.head, pipelined, error));
                    error.status()
                }
            };
            phases::respond_with_status(&mut request, status).await
        }
        None => {
            keepalive::asked(&mut request, still_listens);
            let routed = arrive::route_server(&mut request, &servers, true, settings.merge_slashes, scratch);
            if routed.is_ok() && !request.place.server.is_same(&servers.server) {
                let chosen = request.place.server.entry.settings.get::<ServerSettings>();
                read::apply_names_rules(&mut request.head, &rules, chosen);
            }
            match routed.and_then(|()| arrive::refuse_methods(&mut request)) {
                Ok(()) => phases::respond(&mut request).await,
                Err(status) => phases::respond_with_status(&mut request, status).await,
            }
        }
    };
    let after = conclude(connection, &mut request, timer, answer).await;
    // Only these parts are passed on: passing the whole request would move it.
    scratch.keep(request.head, request.asked.path, request.asked.args, request.asked.host);
    after
}

/// Why a request does not reach the phases.
enum Fault {
    /// The head is wrong: the request is answered with the error's status.
    Protocol(freerun_proto::Error),
    /// The head is incomplete: the request is logged with this status, and the connection closed without a response.
    Silent(u16, String),
}

/// Sends the answer, logs, and decides what the connection does next.
async fn conclude(connection: &Rc<Connection>, request: &mut Request, timer: &mut Timer, answer: Answer) -> After {
    let location = request.place.location.clone();
    let core = &*location.core;
    let written = match answer {
        Answer::Response(mut response) => {
            if let Some(takeover) = response.takeover.take() {
                return take_over(connection, request, response, takeover).await;
            }
            body::look_at_rest(request);
            keepalive::before_response(connection, request);
            // The first response on a connection is not held back if it is sent in one piece, so it needs no
            // `TCP_NODELAY`.
            if request.answered.persistence.is_kept()
                && core.tcp_nodelay
                && (request.arrival.serial > 1 || request.sent.bytes > 0)
            {
                connection.set_nodelay();
            }
            let written = send::response(connection, request, response, false).await;
            body::take_back(request);
            written
        }
        Answer::Close => {
            if request.sent.status == 0 {
                request.sent.status = 444;
            }
            request.answered.persistence.close(CloseReason::NoResponse);
            if matches!(request.sent.status, 444 | 408) {
                reset_if_wanted(connection, request);
            }
            finish::finish(request);
            return After::Close;
        }
    };
    connection.responding.set(false);
    if let Err(error) = &written {
        log_write_error(request, error);
        if matches!(error, WriteError::TimedOut) {
            reset_if_wanted(connection, request);
        }
    }
    finish::finish(request);
    if written.is_err() {
        return After::Close;
    }
    let unread = !request.body.is_done();
    if request.answered.persistence.is_kept() {
        return match finish_discarding(request, timer, core.lingering_timeout, core.lingering_time).await {
            Ok(()) => {
                let keep = Keep { most: core.keepalive_timeout.timeout, least: core.keepalive_min_timeout };
                After::Next(rest_of(request), keep)
            }
            Err(BodyError::Status(_)) => linger_or_close(core, true),
            Err(BodyError::TimedOut | BodyError::Broken(_)) => After::Close,
        };
    }
    let pipelined = request.head.buffer.len() > request.body.used();
    let may_be_sending = unread || pipelined || (!was_emptied_now(request) && has_more(connection, request));
    linger_or_close(core, may_be_sending)
}

/// Sends the head that ends HTTP; then another protocol goes on.
async fn take_over(
    connection: &Rc<Connection>,
    request: &mut Request,
    mut response: Box<Response>,
    takeover: Box<dyn Takeover<Request>>,
) -> After {
    request.answered.persistence.close(CloseReason::Upgraded);
    connection.set_nodelay();
    response.body = Body::Empty;
    let written = send::response(connection, request, response, true).await;
    connection.responding.set(false);
    match written {
        Ok(()) => After::Upgraded(Box::new(Upgraded::new(takeover, connection, request))),
        Err(error) => {
            log_write_error(request, &error);
            finish::finish(request);
            After::Close
        }
    }
}

/// Applies `reset_timedout_connection`.
fn reset_if_wanted(connection: &Connection, request: &Request) {
    if request.settings().get::<ServerSettings>().reset_timedout_connection {
        connection.transport.reset_on_close();
    }
}

/// Whether the socket was found empty within this poll: bytes that have come since then could as well come after the
/// closing.
fn was_emptied_now(request: &Request) -> bool {
    let Head { buffer, parsed } = &request.head;
    let short = buffer.len() < buffer.capacity() && matches!(parsed.body, BodyFraming::None | BodyFraming::Length(0));
    short && !request.arrival.pipelined && request.arrival.started == loops::now()
}

/// Whether unread bytes have come: closing the socket with them would reset the connection.
fn has_more(connection: &Connection, request: &mut Request) -> bool {
    let mut scratch = std::mem::take(&mut request.head.buffer);
    scratch.clear();
    let has_more = matches!(connection.transport.try_read(&mut scratch), Ok(1..));
    buffers::give_back(scratch);
    has_more
}

fn linger_or_close(core: &CoreSettings, may_be_sending: bool) -> After {
    match core.lingering_close {
        LingeringClose::Off => After::Close,
        LingeringClose::On if !may_be_sending => After::Close,
        _ => After::Linger(core.lingering_timeout, core.lingering_time),
    }
}

/// Takes the received bytes of the next request, in the head's buffer; without any, the buffer goes back to the loop.
/// Line ends that some clients send behind a body are not part of it (RFC 9112 section 2.2).
fn rest_of(request: &mut Request) -> Vec<u8> {
    let used = request.body.used();
    let mut buffer = std::mem::take(&mut request.head.buffer);
    if buffer.iter().skip(used).all(|byte| matches!(byte, b'\r' | b'\n')) {
        buffers::give_back(buffer);
        return Vec::new();
    }
    buffer.drain(..used);
    buffer
}

fn log_write_error(request: &Request, error: &WriteError) {
    match error {
        WriteError::Client(error) => {
            log_error!(request, Info, "send() failed ({}) while sending response to client", Errno(error));
        }
        WriteError::TimedOut => {
            log_error!(request, Info, "client timed out (110: Connection timed out) while sending response to client")
        }
        WriteError::Body => {}
    }
}
