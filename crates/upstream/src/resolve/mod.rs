//! Name resolution: the addresses of a name, and how long they are valid. No name is looked up on an event loop.
//!
//! One thread of the process, `names`, does it ([`thread`]). It asks the name servers of a `resolver` by datagrams
//! ([`sockets`]) and parses the answers ([`answer`]). Further threads make the system's own lookup of files and
//! `resolv.conf` ([`system`]). The answers of a resolver are in a table that all loops read without a lock ([`cache`]);
//! equal questions at the same time are asked once.

mod answer;
mod cache;
mod client;
mod error;
pub mod report;
mod sockets;
mod spec;
pub mod system;
pub mod thread;

pub use error::ResolveError;
pub use spec::{NameServer, ResolverSpec};

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use freerun_runtime::stats::Counter;
use hickory_proto::rr::RecordType;
use tokio::sync::oneshot;

use crate::place::ServerPlace;
use cache::{Cache, CachedAnswer, Question, QuestionKind};

/// The most questions, of all resolvers, that wait for an answer at a time. More are refused ([`ResolveError::Busy`]).
pub const MAX_WAITING: usize = 16 * 1024;

/// The most addresses of a name that are used, and the most services; the others are left out.
pub const MAX_ADDRESSES: usize = 256;

/// The longest name in bytes as it is written (RFC 1035 section 2.3.4: 255 with the length of each label and the
/// root's).
const MAX_NAME: usize = 253;

/// Time for which the absence of addresses is remembered.
const NEGATIVE: Duration = Duration::from_secs(1);

/// The shortest and the longest time that an answer is valid, whatever its own time says.
const TIMES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(86400)];

/// The longest wait for the second kind of addresses when the first kind is there.
const OTHER_KIND: Duration = Duration::from_millis(500);

/// Validity of the addresses of a name server that is given by name.
const SERVERS_HOLD: Duration = Duration::from_secs(60);

/// The addresses of a name, and the time until which they may be used without asking again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedName {
    /// The addresses, at least one.
    pub addresses: Arc<[IpAddr]>,
    /// Expiry of the addresses.
    pub expires: Instant,
}

/// A service as an SRV record describes it (RFC 2782).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// The priority; services with the lowest number are used first.
    pub priority: u16,
    /// The weight among the services of the same priority.
    pub weight: u16,
    /// The port of the service.
    pub port: u16,
    /// The name of the service's host.
    pub target: Box<str>,
}

/// The services of a name, and the time until which they are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Services {
    /// The services, at least one.
    pub services: Arc<[Service]>,
    /// Expiry of the services.
    pub expires: Instant,
}

#[derive(Debug, Clone, PartialEq)]
enum CacheResult {
    Addresses(Arc<[IpAddr]>),
    Services(Arc<[Service]>),
}

/// The counters of a resolver, which `status` shows.
#[derive(Debug, Default)]
pub struct ResolverFigures {
    /// The number of questions for addresses that were sent to name servers.
    pub names: Counter,
    /// The number of questions for services that were sent to name servers.
    pub services: Counter,
    /// The number of questions that got an answer with the records asked for.
    pub found: Counter,
    /// The number of names that do not exist or have no address.
    pub not_found: Counter,
    /// The number of questions that were not answered in time.
    pub timed_out: Counter,
    /// The number of questions that name servers did not understand.
    pub format: Counter,
    /// The number of questions for which name servers failed.
    pub server_failure: Counter,
    /// The number of questions of a kind that name servers do not support.
    pub not_implemented: Counter,
    /// The number of questions that name servers refuse to answer.
    pub refused: Counter,
    /// The number of questions that failed otherwise.
    pub other: Counter,
}

impl ResolverFigures {
    /// The number of questions that failed, except for those that were not answered in time.
    pub fn failed(&self) -> u64 {
        let all = [&self.format, &self.server_failure, &self.not_implemented, &self.refused, &self.other];
        all.into_iter().map(Counter::get).sum()
    }
}

/// A `resolver`: name servers, and the answers that they have given. All loops share it.
#[derive(Debug)]
pub struct Resolver {
    spec: ResolverSpec,
    id: u64,
    cache: Cache,
    turn: AtomicUsize,
    /// The counters of the resolver.
    pub figures: ResolverFigures,
}

/// The number of questions that were handed to the resolver thread and have no answer yet.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A question's place among [`WAITING`]. Dropping it frees the place.
struct WaitingPlace;

impl WaitingPlace {
    fn take() -> Result<WaitingPlace, ResolveError> {
        if WAITING.fetch_add(1, Relaxed) >= MAX_WAITING {
            WAITING.fetch_sub(1, Relaxed);
            return Err(ResolveError::Busy);
        }
        Ok(WaitingPlace)
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let before = WAITING.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a question has an answer that nobody waited for");
    }
}

type Waiters = Vec<oneshot::Sender<Arc<CachedAnswer>>>;

/// The results of the system's lookups of hosts, with the time of each.
type SystemLookups = HashMap<Box<str>, (Instant, Vec<IpAddr>)>;

thread_local! {
    /// The tasks that wait for each question of each resolver. Used on the resolver thread.
    static ASKED: RefCell<HashMap<(usize, Question), Waiters>> = RefCell::default();
    /// The addresses of name servers that are given by name. Used on the resolver thread.
    static SERVERS: RefCell<SystemLookups> = RefCell::default();
}

/// A question that is being asked. However it ends, no task goes on waiting for it.
struct QuestionGuard((usize, Question));

impl QuestionGuard {
    fn nobody_waits(&self) -> bool {
        ASKED.with_borrow(|asked| {
            asked.get(&self.0).is_none_or(|waiters| waiters.iter().all(oneshot::Sender::is_closed))
        })
    }
}

impl Drop for QuestionGuard {
    fn drop(&mut self) {
        ASKED.with_borrow_mut(|asked| asked.remove(&self.0));
    }
}

impl Resolver {
    /// A resolver with the settings of `spec`. Nothing is started or opened before the first question.
    pub fn new(spec: ResolverSpec) -> Resolver {
        let id = BuildHasherDefault::<DefaultHasher>::default().hash_one(&spec) | 1;
        Resolver { spec, id, cache: Cache::default(), turn: AtomicUsize::new(0), figures: ResolverFigures::default() }
    }

    /// A number that identifies the resolver's settings, also over reloads; never 0.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The settings of the resolver.
    pub fn spec(&self) -> &ResolverSpec {
        &self.spec
    }

    /// The addresses of a host: from the table, or else from a name server, which takes `timeout` at most. It can be
    /// called on any thread with a tokio runtime.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub async fn addresses(self: &Arc<Self>, host: &str, timeout: Duration) -> Result<ResolvedName, ResolveError> {
        let entry = self.entry(Question::new(host, QuestionKind::Addresses), timeout).await?;
        match entry.found.clone()? {
            CacheResult::Addresses(addresses) => Ok(ResolvedName { addresses, expires: entry.expires }),
            CacheResult::Services(_) => Err(ResolveError::NotFound),
        }
    }

    /// The services (SRV records) of a name, looked up as in [`Resolver::addresses`].
    ///
    /// # Errors
    /// [`ResolveError`].
    pub async fn services(self: &Arc<Self>, name: &str, timeout: Duration) -> Result<Services, ResolveError> {
        let entry = self.entry(Question::new(name, QuestionKind::Services), timeout).await?;
        match entry.found.clone()? {
            CacheResult::Services(services) => Ok(Services { services, expires: entry.expires }),
            CacheResult::Addresses(_) => Err(ResolveError::NotFound),
        }
    }

    async fn entry(self: &Arc<Self>, question: Question, timeout: Duration) -> Result<Arc<CachedAnswer>, ResolveError> {
        if let Some(known) = self.cache.get(&question, Instant::now()) {
            return Ok(known);
        }
        // Longer names can come from requests, and would only fill the table.
        if question.name.len() > MAX_NAME {
            return Err(ResolveError::Format);
        }
        let _waiting = WaitingPlace::take()?;
        let (sender, answer) = oneshot::channel();
        let resolver = self.clone();
        thread::run(move || resolver.ask(question, sender)).map_err(|_| ResolveError::ServerFailure)?;
        match freerun_runtime::timer::timeout(timeout, answer).await {
            Ok(Ok(entry)) => Ok(entry),
            Ok(Err(_)) => Err(ResolveError::ServerFailure),
            Err(_) => {
                self.figures.timed_out.add();
                Err(ResolveError::TimedOut)
            }
        }
    }

    /// Asks a question on the resolver thread, unless the same question is being asked already.
    fn ask(self: Arc<Self>, question: Question, sender: oneshot::Sender<Arc<CachedAnswer>>) {
        if let Some(known) = self.cache.get(&question, Instant::now()) {
            // The receiver may be gone.
            let _ = sender.send(known);
            return;
        }
        let key = (Arc::as_ptr(&self).addr(), question);
        let first = ASKED.with_borrow_mut(|asked| {
            let waiters = asked.entry(key.clone()).or_default();
            waiters.push(sender);
            waiters.len() == 1
        });
        if first {
            tokio::task::spawn_local(async move {
                let asking = QuestionGuard(key);
                let (found, holds) = self.look_up(&asking).await;
                self.count(&found);
                let entry = Arc::new(CachedAnswer { found, expires: Instant::now() + holds });
                if entry.found != Err(ResolveError::TimedOut) {
                    self.cache.put(asking.0.1.clone(), entry.clone());
                }
                let waiters = ASKED.with_borrow_mut(|asked| asked.remove(&asking.0)).unwrap_or_default();
                debug_assert!(!waiters.is_empty(), "a question was asked for nobody");
                for waiter in waiters {
                    let _ = waiter.send(entry.clone());
                }
            });
        }
    }

    fn count(&self, found: &Result<CacheResult, ResolveError>) {
        match found {
            Ok(_) => self.figures.found.add(),
            Err(ResolveError::NotFound) => self.figures.not_found.add(),
            // The tasks that waited have counted it.
            Err(ResolveError::TimedOut) => {}
            Err(ResolveError::Format) => self.figures.format.add(),
            Err(ResolveError::ServerFailure) => self.figures.server_failure.add(),
            Err(ResolveError::NotImplemented) => self.figures.not_implemented.add(),
            Err(ResolveError::Refused) => self.figures.refused.add(),
            Err(ResolveError::Other(_) | ResolveError::Unreadable | ResolveError::Busy) => self.figures.other.add(),
        }
    }

    async fn look_up(&self, asking: &QuestionGuard) -> (Result<CacheResult, ResolveError>, Duration) {
        let QuestionGuard((_, question)) = asking;
        let servers = self.servers().await;
        if servers.is_empty() {
            return (Err(ResolveError::ServerFailure), NEGATIVE);
        }
        let Some(name) = answer::name(&question.name) else { return (Err(ResolveError::Format), NEGATIVE) };
        let first = self.turn.fetch_add(1, Relaxed);
        let ask = |kind| client::query(&servers, first, name.clone(), kind, || asking.nobody_waits());
        let answered = match question.kind {
            QuestionKind::Services => {
                self.figures.services.add();
                let found = ask(RecordType::SRV).await.map(|(records, ttl)| (client::services(&records), ttl));
                found.and_then(|(services, ttl)| match services.len() {
                    0 => Err(ResolveError::NotFound),
                    _ => Ok((CacheResult::Services(services), ttl)),
                })
            }
            QuestionKind::Addresses => {
                self.figures.names.add();
                let (v4, v6) = match (self.spec.ipv4, self.spec.ipv6) {
                    (true, true) => both(ask(RecordType::A), ask(RecordType::AAAA)).await,
                    (_, false) => (Some(ask(RecordType::A).await), None),
                    (false, true) => (None, Some(ask(RecordType::AAAA).await)),
                };
                addresses(v4, v6).map(|(addresses, ttl)| (CacheResult::Addresses(addresses), ttl))
            }
        };
        match answered {
            Ok((found, ttl)) => {
                let holds = self.spec.valid.unwrap_or_else(|| ttl.clamp(TIMES[0], TIMES[1]));
                (Ok(found), holds)
            }
            Err(error) => (Err(error), NEGATIVE),
        }
    }

    /// The addresses of the name servers.
    async fn servers(&self) -> Vec<SocketAddr> {
        let mut all = Vec::new();
        for server in &self.spec.servers {
            match &server.place {
                ServerPlace::Address(crate::UpstreamAddress::Ip(address)) => all.push(*address),
                ServerPlace::Address(crate::UpstreamAddress::Unix(_)) => {}
                ServerPlace::Name(name) => {
                    let known = SERVERS.with_borrow(|known| known.get(&name.host).cloned());
                    let addresses = match known.filter(|(since, _)| since.elapsed() < SERVERS_HOLD) {
                        Some((_, addresses)) => addresses,
                        None => {
                            let addresses = system::lookup(&name.host).await.unwrap_or_default();
                            if !addresses.is_empty() {
                                let known = (Instant::now(), addresses.clone());
                                SERVERS.with_borrow_mut(|all| all.insert(name.host.clone(), known));
                            }
                            addresses
                        }
                    };
                    all.extend(addresses.into_iter().map(|ip| SocketAddr::new(ip, name.port)));
                }
            }
        }
        all
    }
}

type QueryResult = Result<(Vec<answer::DnsRecord>, Duration), ResolveError>;

/// Waits for both futures, but only for a short while longer when one of them has found something. `None`: that future
/// was not waited for.
async fn both(
    v4: impl Future<Output = QueryResult>,
    v6: impl Future<Output = QueryResult>,
) -> (Option<QueryResult>, Option<QueryResult>) {
    let (mut v4, mut v6) = (std::pin::pin!(v4), std::pin::pin!(v6));
    tokio::select! {
        four = &mut v4 => {
            let six = if four.is_ok() { tokio::time::timeout(OTHER_KIND, v6).await.ok() } else { Some(v6.await) };
            (Some(four), six)
        }
        six = &mut v6 => {
            let four = if six.is_ok() { tokio::time::timeout(OTHER_KIND, v4).await.ok() } else { Some(v4.await) };
            (four, Some(six))
        }
    }
}

/// Joins the answers to both questions. One answer with addresses is enough.
fn addresses(v4: Option<QueryResult>, v6: Option<QueryResult>) -> Result<(Arc<[IpAddr]>, Duration), ResolveError> {
    let mut all = Vec::new();
    let mut holds = TIMES[1];
    let mut error = None;
    for answer in [v4, v6].into_iter().flatten() {
        match answer {
            Ok((records, ttl)) => {
                all.extend(client::addresses(&records));
                holds = holds.min(ttl);
            }
            Err(ResolveError::NotFound) => {
                error.get_or_insert(ResolveError::NotFound);
            }
            Err(other) => error = Some(other),
        }
    }
    if all.is_empty() {
        return Err(error.unwrap_or(ResolveError::NotFound));
    }
    all.truncate(MAX_ADDRESSES);
    // If one kind is missing because its question failed, the other one is used for a short time only.
    if error.is_some_and(|error| error != ResolveError::NotFound) {
        holds = holds.min(OTHER_KIND * 10);
    }
    Ok((all.into(), holds))
}

#[cfg(test)]
mod tests;
