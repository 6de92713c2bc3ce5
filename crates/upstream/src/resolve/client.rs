//! Asks name servers (RFC 1035): by datagrams, and by a TCP connection where the answer was truncated.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use hickory_proto::op::{Edns, Message, Query};
use hickory_proto::rr::{Name, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::answer::{self, Data, DnsAnswer, DnsRecord};
use super::{MAX_ADDRESSES, ResolveError, Service, report, sockets};

/// The largest datagram that name servers are allowed to send: it is not fragmented on the way (RFC 9715).
pub(super) const PAYLOAD: u16 = 1232;

/// Time of a name server for its answer in the first round, the second and so on, before the next one is asked. The
/// last value holds for all further rounds.
const ROUNDS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(5)];

/// The longest time for which a question is repeated, if a task waits so long.
const LONGEST: Duration = Duration::from_secs(60);

/// The pause after a round in which no name server could be asked at all.
const PAUSE: Duration = Duration::from_millis(200);

/// The most aliases that are followed by separate questions.
const MAX_ALIASES: usize = 8;

/// The most questions about one name whose answers are waited for at a time: the questions of the first rounds.
const MAX_PENDING: usize = 8;

/// The most TCP connections to name servers at a time. A question with a truncated answer waits for a place.
const CONNECTIONS: usize = 16;

/// The longest time for a question with a truncated answer over a TCP connection, with the wait for a place.
const CONNECTION: Duration = Duration::from_secs(5);

/// The response code of old name servers that do not know the extension (RFC 6891 section 7).
const FORMAT_ERROR: u16 = 1;

/// The permits for [`CONNECTIONS`].
static CONNECTING: Semaphore = Semaphore::const_new(CONNECTIONS);

/// The records that answer a question, and how long they are valid. The name servers are asked in turn, beginning with
/// number `first`, until one answers or `nobody_waits` any more.
///
/// # Errors
/// [`ResolveError::NotFound`] also if the name exists and has no such record.
pub(super) async fn query(
    servers: &[SocketAddr],
    first: usize,
    name: Name,
    kind: RecordType,
    nobody_waits: impl Fn() -> bool,
) -> Result<(Vec<DnsRecord>, Duration), ResolveError> {
    let mut name = name;
    let mut holds = u32::MAX;
    for _ in 0..MAX_ALIASES {
        let answers = answers(servers, first, &name, kind, &nobody_waits).await?;
        let ttl = answers.iter().map(|record| record.ttl).min().unwrap_or(u32::MAX);
        holds = holds.min(ttl);
        let alias = answers.iter().rev().find_map(|record| match &record.data {
            Data::Alias(target) => Some(target.clone()),
            _ => None,
        });
        let records: Vec<DnsRecord> = answers.into_iter().filter(|record| record.kind() == kind).collect();
        match alias {
            _ if !records.is_empty() => return Ok((records, Duration::from_secs(holds.into()))),
            Some(alias) if alias != name => name = alias,
            _ => return Err(ResolveError::NotFound),
        }
    }
    Err(ResolveError::NotFound)
}

/// The result of asking one name server once.
enum AskResult {
    Answered(Vec<DnsRecord>),
    /// The server answers, but not with the records.
    Failed(ResolveError),
    /// The server could not be asked.
    Unreachable,
}

/// A question to a name server, which it ends with.
type PendingQuestion<'q> = Pin<Box<dyn Future<Output = (SocketAddr, AskResult)> + 'q>>;

/// The questions about one name that have no answer yet, the oldest first.
#[derive(Default)]
struct PendingQuestions<'q>(VecDeque<PendingQuestion<'q>>);

impl<'q> PendingQuestions<'q> {
    /// Asks a name server. Beyond [`MAX_PENDING`] questions, the oldest one is given up.
    fn ask(&mut self, server: SocketAddr, name: &'q Name, kind: RecordType) {
        if self.0.len() >= MAX_PENDING {
            self.0.pop_front();
        }
        self.0.push_back(Box::pin(async move { (server, once(server, name, kind).await) }));
    }

    /// Waits for the next answer to any of the questions.
    async fn next(&mut self) -> (SocketAddr, AskResult) {
        poll_fn(|context| {
            let answered =
                self.0.iter_mut().enumerate().find_map(|(index, question)| match question.as_mut().poll(context) {
                    Poll::Ready(answered) => Some((index, answered)),
                    Poll::Pending => None,
                });
            match answered {
                Some((index, answered)) => {
                    drop(self.0.remove(index));
                    Poll::Ready(answered)
                }
                None => Poll::Pending,
            }
        })
        .await
    }
}

async fn answers(
    servers: &[SocketAddr],
    first: usize,
    name: &Name,
    kind: RecordType,
    nobody_waits: &impl Fn() -> bool,
) -> Result<Vec<DnsRecord>, ResolveError> {
    let begun = Instant::now();
    let mut pending = PendingQuestions::default();
    let mut failed = None;
    let mut round = 0;
    while begun.elapsed() < LONGEST {
        let (mut silent, mut unreachable) = (false, true);
        for turn in 0..servers.len() {
            if nobody_waits() {
                return Err(failed.unwrap_or(ResolveError::TimedOut));
            }
            let asked = servers[first.wrapping_add(turn) % servers.len()];
            pending.ask(asked, name, kind);
            let until = tokio::time::Instant::now() + ROUNDS[round.min(ROUNDS.len() - 1)];
            loop {
                // An answer to an earlier question counts as well: a name server may be slow, or answer one question
                // after the other.
                let Ok((server, tried)) = tokio::time::timeout_at(until, pending.next()).await else {
                    (silent, unreachable) = (true, false);
                    break;
                };
                match tried {
                    AskResult::Answered(records) => return Ok(records),
                    AskResult::Failed(error @ ResolveError::NotFound) => return Err(error),
                    AskResult::Failed(error) => {
                        failed = Some(error);
                        unreachable = false;
                    }
                    AskResult::Unreachable => {}
                }
                if server == asked {
                    break;
                }
            }
        }
        if let Some(error) = failed.filter(|_| !silent) {
            return Err(error);
        }
        if unreachable {
            tokio::time::sleep(PAUSE).await;
        }
        round += 1;
    }
    Err(failed.unwrap_or(ResolveError::TimedOut))
}

/// Asks a name server, without a time limit.
async fn once(server: SocketAddr, name: &Name, kind: RecordType) -> AskResult {
    let mut with_edns = true;
    loop {
        let mut message = Message::query();
        message.metadata.recursion_desired = true;
        message.add_query(Query::query(name.clone(), kind));
        if with_edns {
            let mut edns = Edns::new();
            edns.set_max_payload(PAYLOAD);
            message.set_edns(edns);
        }
        let Ok(answer) = exchange(server, &mut message).await else { return AskResult::Unreachable };
        return match ResolveError::of_code(answer.code) {
            None => match answer.records {
                Some(records) => AskResult::Answered(records),
                None => AskResult::Failed(ResolveError::Unreadable),
            },
            Some(_) if answer.code == FORMAT_ERROR && with_edns => {
                with_edns = false;
                continue;
            }
            Some(error) => AskResult::Failed(error),
        };
    }
}

/// Sends a question and waits for its answer.
async fn exchange(server: SocketAddr, question: &mut Message) -> io::Result<DnsAnswer> {
    let answer = sockets::exchange(server, question).await?;
    if !answer.truncated {
        return Ok(answer);
    }
    tokio::time::timeout(CONNECTION, by_connection(server, question)).await?
}

async fn by_connection(server: SocketAddr, question: &Message) -> io::Result<DnsAnswer> {
    // The semaphore is never closed.
    let _place = CONNECTING.acquire().await.map_err(io::Error::other)?;
    let packed = question.to_vec().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect(server).await?;
    let len = u16::try_from(packed.len()).map_err(io::Error::other)?;
    stream.write_all(&[&len.to_be_bytes(), packed.as_slice()].concat()).await?;
    let mut buffer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut buffer).await?;
    let query = question.queries.first().ok_or(io::ErrorKind::InvalidInput)?;
    answer::fitting(&buffer, question.metadata.id, query).ok_or_else(|| {
        report::say(format_args!("name server {server} answers another question than the one of its connection"));
        io::ErrorKind::InvalidData.into()
    })
}

/// The addresses in records.
pub(super) fn addresses(records: &[DnsRecord]) -> impl Iterator<Item = IpAddr> {
    records.iter().filter_map(|record| match record.data {
        Data::Address(address) => Some(address),
        _ => None,
    })
}

/// The services in records, sorted so that those to be used first are at the front.
pub(super) fn services(records: &[DnsRecord]) -> std::sync::Arc<[Service]> {
    let mut services: Vec<Service> = records.iter().filter_map(service).collect();
    services.sort_by_key(|service| service.priority);
    services.truncate(MAX_ADDRESSES);
    services.into()
}

fn service(record: &DnsRecord) -> Option<Service> {
    let Data::Service { priority, weight, port, target } = &record.data else { return None };
    // A target that is the root means that there is no such service (RFC 2782).
    if target.is_root() {
        return None;
    }
    let host = answer::text(target).filter(|_| *port != 0);
    if host.is_none() {
        report::say(format_args!("a service at {target} port {port} is left out: nothing can be there"));
    }
    Some(Service { priority: *priority, weight: *weight, port: *port, target: host?.into() })
}
