//! The sending of requests to nginx and to the server that is tried, from a loop of this process.

use std::cell::Cell;
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

use super::comparison::{AnswerResult, AskedAddresses, Difference, TrialAnswer, compare};
use super::request_list::{ReplayedRequest, is_safe};
use super::sites::SiteListener;

/// The longest time for an address to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// The largest head of an answer, in bytes.
const MAX_HEAD: usize = 256 << 10;

/// The largest body that is compared, in bytes.
const MAX_BODY: usize = 8 << 20;

/// The most requests whose answers differ: behind them no more are sent.
pub const MAX_DIFFERENT: usize = 10_000;

/// The time between two looks at whether the user has had enough.
const LOOK: Duration = Duration::from_millis(100);

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
    /// The parts of the answer that change from one request to the next, also in nginx's answers.
    pub unstable: Vec<Difference>,
    /// The times of nginx's answer and of freerun's; `None` if one of them has not answered.
    pub times: Option<(Duration, Duration)>,
    /// The reason why nginx has not answered.
    pub nginx_error: Option<String>,
    /// Whether neither has answered.
    pub has_no_answer: bool,
    /// Whether a body was too long to be compared.
    pub is_too_long: bool,
}

/// A client on the loop.
struct ReplayClient {
    limits: ReplayLimits,
    files: Arc<FileSystem>,
    pools: PoolSet,
    figures: TlsFigures,
    tls: ClientConfig,
}

/// Sends the requests to both servers, and returns the results in the order in which they came. `is_ended` is looked at meanwhile.
///
/// # Errors
/// The loop, its pools or the settings of TLS cannot be made.
pub fn replay(
    requests: &Arc<Vec<ReplayedRequest>>,
    listeners: &[SiteListener],
    limits: ReplayLimits,
    is_ended: &AtomicBool,
) -> Result<Vec<ReplayResult>, String> {
    let failed = |error: std::io::Error| format!("a loop cannot be started: {error}");
    let pools = Pools::new().generation(&[]).map_err(failed)?;
    let files = FileSystem::new(pools.default().clone()).map_err(failed)?;
    let settings = ClientSettings { alpn: vec![b"http/1.1".to_vec()], ..ClientSettings::default() };
    let tls = settings.build().map_err(|error| error.to_string())?;
    let handle = LoopHandle::start(0, None).map_err(failed)?;
    let (sender, receiver) = mpsc::channel();
    let (requests, listeners) = (requests.clone(), listeners.to_vec());
    let is_over = Arc::new(AtomicBool::new(false));
    let stop = is_over.clone();
    handle.tell(move || {
        let client = ReplayClient { limits, files, pools, figures: TlsFigures::default(), tls };
        let client = Rc::new(client);
        let (next, begin) = (Rc::new(Cell::new(0_usize)), loops::now());
        let listeners = Rc::new(listeners);
        for _ in 0..limits.concurrency {
            let (client, next, listeners) = (client.clone(), next.clone(), listeners.clone());
            let (requests, sender, stop) = (requests.clone(), sender.clone(), stop.clone());
            loops::spawn(0, "asking both servers", async move {
                while let Some(request) = requests.get(next.get()) {
                    let number = next.replace(next.get() + 1);
                    let due = begin + Duration::from_secs(1) * number as u32 / limits.rate;
                    timer::sleep_until(due).await;
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
    let (mut results, mut different) = (Vec::new(), 0);
    let deadline = Instant::now() + limits.total;
    while !is_ended.load(Ordering::Relaxed) && different < MAX_DIFFERENT {
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left.min(LOOK)) {
            Ok(result) => {
                different += usize::from(!result.differences.is_empty());
                results.push(result);
            }
            Err(mpsc::RecvTimeoutError::Timeout) if !left.is_zero() => {}
            Err(_) => break,
        }
    }
    is_over.store(true, Ordering::Relaxed);
    handle.stop();
    Ok(results)
}

/// Whether something accepts connections at an address.
pub fn answers(address: SocketAddr) -> bool {
    std::net::TcpStream::connect_timeout(&address, CONNECT_PATIENCE).is_ok()
}

impl ReplayClient {
    /// Asks both servers, and compares the answers. If they differ, both are asked again: what differs in nginx's own answers, or
    /// only at times, is no difference of the two.
    async fn ask_both(&self, number: usize, request: &ReplayedRequest, listener: &SiteListener) -> ReplayResult {
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
            let again = self.ask(addresses.nginx, listener.is_tls, request).await;
            let ours_again = self.ask(addresses.freerun, listener.is_tls, request).await;
            let same = AskedAddresses { freerun: addresses.nginx, ..addresses };
            let of_nginx = compare(&nginx, &again, same);
            let second = compare(&again, &ours_again, addresses);
            let is_stable = |difference: &Difference| {
                let has = |all: &[Difference]| all.iter().any(|other| other.kind == difference.kind);
                has(&second) && !has(&of_nginx)
            };
            (differences, unstable) = differences.into_iter().partition(is_stable);
        }
        let is_too_long =
            [&nginx, &freerun].into_iter().any(|outcome| outcome.as_ref().is_ok_and(|answer| answer.body.is_none()));
        ReplayResult {
            request: number,
            differences,
            unstable,
            times: nginx.as_ref().ok().zip(freerun.as_ref().ok()).map(|(nginx, freerun)| (nginx.time, freerun.time)),
            has_no_answer: nginx.is_err() && freerun.is_err() && !is_closed(&nginx, &freerun),
            nginx_error: nginx.err().filter(|error| *error != HttpClientError::Closed.to_string()),
            is_too_long,
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
