//! The sending of requests to nginx and to the server that is tried, from a loop of this process.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use freerun_conf::text_of;
use freerun_runtime::files::{FileSystem, SocketPaths};
use freerun_runtime::loops::{self, LoopHandle};
use freerun_runtime::pool::{PoolSet, Pools};
use freerun_runtime::timer;
use freerun_serve::http_client::{
    ExchangeTls, HttpClient, HttpClientError, OutgoingRequest, TransferLimits, WholeResponse,
};
use freerun_serve::tls::handshake::HandshakeHelpers;
use freerun_serve::tls::handshake::figures::TlsFigures;
use freerun_serve::tls::handshake::outgoing_session::OutgoingTls;
use freerun_tls::session::{ClientConfig, ClientSettings};
use freerun_upstream::UpstreamAddress;
use serde::Serialize;

use super::comparison::{AnswerResult, AskedAddresses, Difference, DifferenceKind, MAX_BODY, TrialAnswer, compare};
use super::interruption::LOOK;
use super::request_list::{ReplayedRequest, is_safe};
use super::sites::SiteListener;

/// The longest time for an address to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// The largest head of an answer, in bytes.
const MAX_HEAD: usize = 256 << 10;

/// The most requests whose answers differ: behind them no more are sent.
pub const MAX_DIFFERENT: usize = 10_000;

/// The most parts that change from one answer to the next and are counted by their names.
const MAX_UNSTABLE: usize = 50;

/// Bounds of a replay.
#[derive(Debug, Clone, Copy)]
pub struct ReplayLimits {
    /// The most requests to each server in a second.
    pub rate: u32,
    /// The most requests at the same time.
    pub concurrency: usize,
    /// The longest time for a response.
    pub timeout: Duration,
    /// The longest time for all requests.
    pub total: Duration,
}

/// The result of one request.
#[derive(Debug)]
pub struct ReplayResult {
    /// The place of the request in the list.
    pub request: usize,
    /// The differences that stayed when both were asked again.
    pub differences: Vec<Difference>,
    /// Whether parts of the answer change from one request to the next, also in nginx's answers, or differ only at times.
    pub is_unstable: bool,
    /// The times of nginx's answer and of freerun's; `None` if one of them has not answered.
    pub times: Option<(Duration, Duration)>,
    /// Whether neither has answered, for the same reason.
    pub has_no_answer: bool,
    /// Whether the bodies of both were too long to be compared.
    pub is_too_long: bool,
}

/// The reason why no more requests were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayEnd {
    /// All were sent.
    #[default]
    All,
    /// The time was over.
    Time,
    /// A signal came.
    Signal,
    /// Too many answers differ.
    Differences,
    /// A request was given up by the loop, because of a mistake in the program.
    Broken,
}

/// The parts that change from one answer to the next, with the number of requests; how many names there are is bounded.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnstableParts {
    /// The numbers of requests by the names of parts.
    pub parts: BTreeMap<String, usize>,
    /// The number of further parts of all requests, which are in none of these.
    pub further: usize,
}

impl UnstableParts {
    /// Counts a part of one request.
    fn add(&mut self, kind: &DifferenceKind) {
        let (name, is_full) = (kind.part(), self.parts.len() >= MAX_UNSTABLE);
        match self.parts.get_mut(&name) {
            Some(count) => *count += 1,
            None if is_full => self.further += 1,
            None => {
                self.parts.insert(name, 1);
            }
        }
    }
}

/// The results of all requests.
#[derive(Debug, Default)]
pub struct ReplayResults {
    /// The results, in the order in which they came.
    pub results: Vec<ReplayResult>,
    /// The parts that are not compared, since they change.
    pub unstable: UnstableParts,
    /// The first reason why nginx has not answered, if it has not.
    pub nginx_error: Option<String>,
    /// The reason why no more were sent.
    pub end: ReplayEnd,
}

/// The result of one request, and what is counted of it.
struct AskedBoth {
    result: ReplayResult,
    unstable: Vec<DifferenceKind>,
    nginx_error: Option<String>,
}

/// The times at which requests may be sent, so that no more are sent in a second than the rate says.
#[derive(Debug)]
struct RequestPace {
    next: Cell<Instant>,
    interval: Duration,
}

impl RequestPace {
    fn new(now: Instant, rate: u32) -> RequestPace {
        RequestPace { next: Cell::new(now), interval: Duration::from_secs(1) / rate.max(1) }
    }

    /// The time of the next request, which is taken by that. Time that went by without a request is not made up for.
    fn take(&self, now: Instant) -> Instant {
        let due = self.next.get().max(now);
        self.next.set(due + self.interval);
        due
    }
}

/// A client on the loop.
struct ReplayClient {
    limits: ReplayLimits,
    files: Arc<FileSystem>,
    pools: PoolSet,
    figures: TlsFigures,
    tls: ClientConfig,
    pace: RequestPace,
}

/// Sends the requests to both servers, and returns the results. `is_ended` is looked at meanwhile.
///
/// # Errors
/// The loop, its pools or the settings of TLS cannot be made.
pub fn replay(
    requests: &Arc<Vec<ReplayedRequest>>,
    listeners: &[SiteListener],
    limits: ReplayLimits,
    is_ended: &AtomicBool,
) -> Result<ReplayResults, String> {
    let failed = |error: std::io::Error| format!("a loop cannot be started: {error}");
    let pools = Pools::new().generation(&[]).map_err(failed)?;
    let files = FileSystem::new(pools.default().clone()).map_err(failed)?;
    let settings = ClientSettings { alpn: vec![b"http/1.1".to_vec()], ..ClientSettings::default() };
    let tls = settings.build().map_err(|error| error.to_string())?;
    let handle = LoopHandle::start(0, None).map_err(failed)?;
    let (sender, receiver) = mpsc::channel();
    let (requests, listeners, count) = (requests.clone(), listeners.to_vec(), requests.len());
    let is_over = Arc::new(AtomicBool::new(false));
    let stop = is_over.clone();
    handle.tell(move || {
        let pace = RequestPace::new(loops::now(), limits.rate);
        let client = ReplayClient { limits, files, pools, figures: TlsFigures::default(), tls, pace };
        let client = Rc::new(client);
        let next = Rc::new(Cell::new(0_usize));
        let listeners = Rc::new(listeners);
        for _ in 0..limits.concurrency {
            let (client, next, listeners) = (client.clone(), next.clone(), listeners.clone());
            let (requests, sender, stop) = (requests.clone(), sender.clone(), stop.clone());
            loops::spawn(0, "asking both servers", async move {
                while let Some(request) = requests.get(next.get()) {
                    let number = next.replace(next.get() + 1);
                    client.wait_for_turn().await;
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let result = client.ask_both(number, request, &listeners[request.listener]).await;
                    // Nobody waits any more if this fails.
                    if sender.send(result).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let (mut all, mut different) = (ReplayResults::default(), 0);
    let deadline = Instant::now() + limits.total;
    all.end = loop {
        if all.results.len() == count {
            break ReplayEnd::All;
        }
        if is_ended.load(Ordering::Relaxed) {
            break ReplayEnd::Signal;
        }
        if different >= MAX_DIFFERENT {
            break ReplayEnd::Differences;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left.min(LOOK)) {
            Ok(AskedBoth { result, unstable, nginx_error }) => {
                different += usize::from(!result.differences.is_empty());
                unstable.iter().for_each(|kind| all.unstable.add(kind));
                all.nginx_error = all.nginx_error.or(nginx_error);
                all.results.push(result);
            }
            Err(mpsc::RecvTimeoutError::Timeout) if !left.is_zero() => {}
            Err(mpsc::RecvTimeoutError::Timeout) => break ReplayEnd::Time,
            Err(mpsc::RecvTimeoutError::Disconnected) => break ReplayEnd::Broken,
        }
    };
    is_over.store(true, Ordering::Relaxed);
    handle.stop();
    Ok(all)
}

/// Whether something accepts connections at an address.
pub fn answers(address: SocketAddr) -> bool {
    std::net::TcpStream::connect_timeout(&address, CONNECT_PATIENCE).is_ok()
}

impl ReplayClient {
    /// Waits until the next request may be sent to each server.
    async fn wait_for_turn(&self) {
        timer::sleep_until(self.pace.take(loops::now())).await;
    }

    /// Asks both servers, and compares the answers. If they differ, both are asked again: what differs in nginx's own answers, or
    /// only at times, is not a difference of the two, but not the same either.
    async fn ask_both(&self, number: usize, request: &ReplayedRequest, listener: &SiteListener) -> AskedBoth {
        let addresses = AskedAddresses { nginx: listener.nginx, freerun: listener.freerun };
        // Whoever is asked second finds files in memory, so they take turns.
        let (nginx, freerun) = if number.is_multiple_of(2) {
            let nginx = self.ask(addresses.nginx, listener.is_tls, request).await;
            (nginx, self.ask(addresses.freerun, listener.is_tls, request).await)
        } else {
            let freerun = self.ask(addresses.freerun, listener.is_tls, request).await;
            (self.ask(addresses.nginx, listener.is_tls, request).await, freerun)
        };
        let mut differences = compare(&nginx, &freerun, addresses);
        let mut unstable = Vec::new();
        if !differences.is_empty() && is_safe(&request.method) {
            self.wait_for_turn().await;
            let again = self.ask(addresses.nginx, listener.is_tls, request).await;
            let ours_again = self.ask(addresses.freerun, listener.is_tls, request).await;
            let same = AskedAddresses { freerun: addresses.nginx, ..addresses };
            let of_nginx = compare(&nginx, &again, same);
            let second = compare(&again, &ours_again, addresses);
            (differences, unstable) = sort_out(differences, &second, &of_nginx);
        }
        let is_too_long = |result: &AnswerResult| result.as_ref().is_ok_and(|answer| answer.body.is_none());
        AskedBoth {
            result: ReplayResult {
                request: number,
                has_no_answer: differences.is_empty()
                    && nginx.is_err()
                    && freerun.is_err()
                    && !is_closed(&nginx, &freerun),
                differences,
                is_unstable: !unstable.is_empty(),
                times: nginx
                    .as_ref()
                    .ok()
                    .zip(freerun.as_ref().ok())
                    .map(|(nginx, freerun)| (nginx.time, freerun.time)),
                is_too_long: is_too_long(&nginx) && is_too_long(&freerun),
            },
            unstable,
            nginx_error: nginx.err().filter(|error| *error != HttpClientError::Closed.to_string()),
        }
    }

    async fn ask(&self, address: SocketAddr, is_tls: bool, request: &ReplayedRequest) -> AnswerResult {
        let ReplayedRequest { method, target, authority, fields, .. } = request;
        let mut outgoing = OutgoingRequest::new(method, target, authority).map_err(|error| error.to_string())?;
        for (name, value) in fields {
            outgoing.add_field(name, value).map_err(|error| error.to_string())?;
        }
        let name = Some(request.host()).filter(|host| is_name(host)).map(str::to_owned);
        let tls = OutgoingTls { config: self.tls.clone(), server_name: name, sessions: None, verification: None };
        let helpers = HandshakeHelpers { pool: self.pools.handshakes(), lane: 0, figures: &self.figures };
        let paths = SocketPaths { files: &self.files, pool: self.pools.default(), client: 0 };
        let total = self.limits.timeout;
        let client = HttpClient {
            limits: TransferLimits { total, connect: total.min(CONNECT_PATIENCE), head: MAX_HEAD, body: MAX_BODY },
            tls: is_tls.then_some(ExchangeTls { tls: &tls, helpers }),
            paths,
        };
        // The loop's own clock stands still within a turn, and an exchange with this machine may take no more than one.
        let begin = Instant::now();
        let response = client.send(&[UpstreamAddress::Ip(address)], &outgoing).await.map_err(words)?;
        let fields = response.head.fields();
        let fields = fields.map(|(name, value)| (text_of(name).into_owned(), value.to_vec())).collect();
        let status = response.head.status();
        let body = match response.body().await {
            Ok(whole) => decoded(whole),
            Err(HttpClientError::TooLarge) => None,
            Err(error) => return Err(format!("status {status}, then: {}", words(error))),
        };
        Ok(TrialAnswer { status, fields, body, time: begin.elapsed() })
    }
}

/// Divides the differences of two attempts into those that are there each time, and the parts that differ only at times, or in
/// nginx's own answers as well.
fn sort_out(
    first: Vec<Difference>,
    second: &[Difference],
    of_nginx: &[Difference],
) -> (Vec<Difference>, Vec<DifferenceKind>) {
    let has = |all: &[Difference], kind: &DifferenceKind| all.iter().any(|other| other.kind == *kind);
    // What only the second attempt has changes as well.
    let mut unstable: Vec<DifferenceKind> =
        second.iter().map(|difference| difference.kind.clone()).filter(|kind| !has(&first, kind)).collect();
    let is_stable = |difference: &Difference| has(second, &difference.kind) && !has(of_nginx, &difference.kind);
    let (stable, others) = first.into_iter().partition::<Vec<_>, _>(is_stable);
    unstable.extend(others.into_iter().map(|difference| difference.kind));
    (stable, unstable)
}

/// The body of an answer without gzip, since its bytes depend on the library that made them. A body that is no gzip in spite of
/// what its field says stays as it is. `None`: it is too long.
fn decoded(whole: WholeResponse) -> Option<Vec<u8>> {
    if whole.head.value("content-encoding") != Some(b"gzip") || whole.body.is_empty() {
        return Some(whole.body);
    }
    let mut body = Vec::new();
    match MultiGzDecoder::new(whole.body.as_slice()).take(MAX_BODY as u64 + 1).read_to_end(&mut body) {
        Ok(_) if body.len() > MAX_BODY => None,
        Ok(_) => Some(body),
        Err(_) => Some(whole.body),
    }
}

/// Whether both servers have closed the connection instead of an answer, as for `return 444`.
fn is_closed(nginx: &AnswerResult, freerun: &AnswerResult) -> bool {
    let closed = HttpClientError::Closed.to_string();
    [nginx, freerun].into_iter().all(|result| result.as_ref().is_err_and(|error| *error == closed))
}

/// The words for an error, without the address, which is another one for each server.
fn words(error: HttpClientError) -> String {
    match error {
        HttpClientError::Connect(_, error) => format!("no connection: {}", error.io()),
        HttpClientError::ConnectTimedOut(_) => "no connection in time".to_owned(),
        error => error.to_string(),
    }
}

/// Whether a host is a name that a client sends in a TLS handshake (RFC 6066 section 3).
fn is_name(host: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !host.is_empty() && host.bytes().all(is_letter) && host.parse::<IpAddr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_requests_is_not_made_up_for() {
        let begin = Instant::now();
        let pace = RequestPace::new(begin, 10);
        let at = |millis: u64| begin + Duration::from_millis(millis);
        assert_eq!([pace.take(begin), pace.take(begin), pace.take(begin)], [at(0), at(100), at(200)]);
        // A stall of ten seconds is followed by no burst.
        assert_eq!(
            [pace.take(at(10_000)), pace.take(at(10_000)), pace.take(at(10_150))],
            [at(10_000), at(10_100), at(10_200)]
        );
    }

    fn difference(kind: DifferenceKind) -> Difference {
        Difference { kind, nginx: String::new(), freerun: String::new(), reason: String::new() }
    }

    #[test]
    fn what_differs_only_at_times_is_unstable() {
        let all = |kinds: &[DifferenceKind]| kinds.iter().cloned().map(difference).collect::<Vec<_>>();
        let (status, body, answer) = (DifferenceKind::Status, DifferenceKind::Body, DifferenceKind::Answer);
        let field = || DifferenceKind::Field("A".to_owned());
        for (first, second, of_nginx, stable, unstable) in [
            (vec![body.clone()], vec![body.clone()], vec![], vec![body.clone()], vec![]),
            (
                vec![body.clone(), field()],
                vec![body.clone(), field()],
                vec![field()],
                vec![body.clone()],
                vec![field()],
            ),
            (vec![status.clone()], vec![], vec![], vec![], vec![status.clone()]),
            (vec![answer.clone()], vec![body.clone()], vec![], vec![], vec![body.clone(), answer.clone()]),
        ] {
            let (kept, dropped) = sort_out(all(&first), &all(&second), &all(&of_nginx));
            assert_eq!((kept, dropped), (all(&stable), unstable), "{first:?} {second:?} {of_nginx:?}");
        }
    }

    #[test]
    fn unstable_parts_have_a_bound() {
        let mut unstable = UnstableParts::default();
        for number in 0..3 * MAX_UNSTABLE {
            unstable.add(&DifferenceKind::Field(format!("X-{number}")));
        }
        unstable.add(&DifferenceKind::Field("X-0".to_owned()));
        assert_eq!(
            (unstable.parts.len(), unstable.further, unstable.parts["field X-0"]),
            (MAX_UNSTABLE, 2 * MAX_UNSTABLE, 2)
        );
    }
}
