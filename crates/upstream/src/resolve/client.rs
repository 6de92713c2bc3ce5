//! Asks name servers (RFC 1035): by datagrams, and by a connection where the answer was cut.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_proto::op::{Edns, Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::{MAX_ADDRESSES, ResolveError, Service};

/// The largest datagram that name servers are told to send: it is not cut into pieces on the way (RFC 9715).
const PAYLOAD: u16 = 1232;

/// How long a name server has for its answer: in the first round, the second and so on; the last holds for all further ones.
const ROUNDS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(5)];

/// How long a question is asked again and again, if somebody waits so long.
const LONGEST: Duration = Duration::from_secs(60);

/// The pause after a round in which no name server could be asked at all.
const PAUSE: Duration = Duration::from_millis(200);

/// Most aliases that are followed by questions of their own.
const MAX_ALIASES: usize = 8;

/// The records that answer a question, and how long they hold. The name servers are asked in turn, beginning with number
/// `first`, until one answers or `nobody_waits` any more.
///
/// # Errors
/// [`ResolveError::NotFound`] also where the name exists and has no such record.
pub(super) async fn query(
    servers: &[SocketAddr],
    first: usize,
    name: Name,
    kind: RecordType,
    nobody_waits: impl Fn() -> bool,
) -> Result<(Vec<Record>, Duration), ResolveError> {
    let mut name = name;
    let mut holds = u32::MAX;
    for _ in 0..MAX_ALIASES {
        let answers = answers(servers, first, &name, kind, &nobody_waits).await?;
        let ttl = answers.iter().map(|record| record.ttl).min().unwrap_or(u32::MAX);
        holds = holds.min(ttl);
        let alias = answers.iter().rev().find_map(|record| match &record.data {
            RData::CNAME(target) => Some(target.0.clone()),
            _ => None,
        });
        let records: Vec<Record> = answers.into_iter().filter(|record| record.record_type() == kind).collect();
        match alias {
            _ if !records.is_empty() => return Ok((records, Duration::from_secs(holds.into()))),
            Some(alias) if alias != name => name = alias,
            _ => return Err(ResolveError::NotFound),
        }
    }
    Err(ResolveError::NotFound)
}

/// What became of asking one name server once.
enum Tried {
    Answered(Message),
    /// It answers, but not this.
    Failed(ResolveError),
    Silent,
    /// It could not be asked.
    Unreachable,
}

async fn answers(
    servers: &[SocketAddr],
    first: usize,
    name: &Name,
    kind: RecordType,
    nobody_waits: &impl Fn() -> bool,
) -> Result<Vec<Record>, ResolveError> {
    let begun = Instant::now();
    let mut failed = None;
    let mut round = 0;
    while begun.elapsed() < LONGEST {
        let (mut silent, mut unreachable) = (false, true);
        for turn in 0..servers.len() {
            if nobody_waits() {
                return Err(failed.unwrap_or(ResolveError::TimedOut));
            }
            let server = servers[first.wrapping_add(turn) % servers.len()];
            match once(server, name, kind, ROUNDS[round.min(ROUNDS.len() - 1)]).await {
                Tried::Answered(message) => return Ok(message.answers),
                Tried::Failed(error @ ResolveError::NotFound) => return Err(error),
                Tried::Failed(error) => {
                    failed = Some(error);
                    unreachable = false;
                }
                Tried::Silent => (silent, unreachable) = (true, false),
                Tried::Unreachable => {}
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

async fn once(server: SocketAddr, name: &Name, kind: RecordType, time: Duration) -> Tried {
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
        let answer = match tokio::time::timeout(time, exchange(server, &message)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => return Tried::Unreachable,
            Err(_) => return Tried::Silent,
        };
        return match answer.metadata.response_code {
            ResponseCode::NoError => Tried::Answered(answer),
            // An old one, which does not know the extension.
            ResponseCode::FormErr if with_edns => {
                with_edns = false;
                continue;
            }
            code => Tried::Failed(ResolveError::of_code(code.into()).unwrap_or(ResolveError::ServerFailure)),
        };
    }
}

/// Sends a question and waits for its answer, each time from another port that the kernel chooses at random.
async fn exchange(server: SocketAddr, question: &Message) -> io::Result<Message> {
    let packed = question.to_vec().map_err(io::Error::other)?;
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    // From then on, nothing that others send comes in.
    socket.connect(server).await?;
    socket.send(&packed).await?;
    let mut buffer = [0; 4096];
    loop {
        let len = socket.recv(&mut buffer).await?;
        // What is no answer to this question, others may have sent in the server's name: go on waiting.
        if let Some(answer) = fitting(&buffer[..len], question) {
            return if answer.metadata.truncation {
                by_connection(server, &packed, question).await
            } else {
                Ok(answer)
            };
        }
    }
}

async fn by_connection(server: SocketAddr, packed: &[u8], question: &Message) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let len = u16::try_from(packed.len()).map_err(io::Error::other)?;
    stream.write_all(&[&len.to_be_bytes(), packed].concat()).await?;
    let mut buffer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut buffer).await?;
    fitting(&buffer, question).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The message, if it is the answer to the question.
fn fitting(bytes: &[u8], question: &Message) -> Option<Message> {
    let answer = Message::from_vec(bytes).ok()?;
    let fits = answer.metadata.id == question.metadata.id && answer.metadata.message_type == MessageType::Response;
    let same = |ours: &Query, theirs: &Query| {
        ours.name == theirs.name && ours.query_type == theirs.query_type && ours.query_class == theirs.query_class
    };
    let asked = match (question.queries.first(), answer.queries.first()) {
        (Some(ours), Some(theirs)) => same(ours, theirs),
        // Some leave it out of errors.
        (_, None) => answer.metadata.response_code != ResponseCode::NoError,
        (None, _) => false,
    };
    (fits && asked).then_some(answer)
}

/// The addresses in records.
pub(super) fn addresses(records: &[Record]) -> impl Iterator<Item = IpAddr> {
    records.iter().filter_map(|record| match &record.data {
        RData::A(address) => Some(address.0.into()),
        RData::AAAA(address) => Some(address.0.into()),
        _ => None,
    })
}

/// The services in records, those that are to be used first at the front.
pub(super) fn services(records: &[Record]) -> std::sync::Arc<[Service]> {
    let mut services: Vec<Service> = records
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(service) => {
                let target = service.target.to_ascii();
                Some(Service {
                    priority: service.priority,
                    weight: service.weight,
                    port: service.port,
                    target: target.strip_suffix('.').unwrap_or(&target).into(),
                })
            }
            _ => None,
        })
        // A target that is the root says that there is no such service (RFC 2782).
        .filter(|service| !service.target.is_empty())
        .collect();
    services.sort_by_key(|service| service.priority);
    services.truncate(MAX_ADDRESSES);
    services.into()
}
