//! A name server that a test controls: it answers datagrams and connections, on a port of its own on the loopback
//! interface.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, SRV};
use hickory_proto::rr::{Name, RData, Record, RecordType};

/// The time between checks of the threads whether they have to end.
const LOOK: Duration = Duration::from_millis(50);

/// The answer to questions for a name.
#[derive(Debug, Clone)]
pub enum DnsReply {
    /// Addresses, with this time to live in seconds. A question for the other kind of address gets none.
    Addresses(Vec<IpAddr>, u32),
    /// SRV records: priority, weight, port and target.
    Services(Vec<(u16, u16, u16, String)>, u32),
    /// Another name, which the name is an alias of.
    Alias(String, u32),
    /// An error: the response code.
    Code(u16),
    /// No answer at all.
    Silence,
    /// Only the first question of each type is answered, and only when it is asked again.
    Late(Box<DnsReply>),
    /// In a datagram: a truncated answer, so that the question has to be repeated over a connection.
    Cut(Box<DnsReply>),
    /// Bytes that are no valid answer, and then the answer.
    Noise(Box<DnsReply>),
    /// The answer, and then these bytes, announced as two more records.
    Followed(Box<DnsReply>, Vec<u8>),
}

impl DnsReply {
    /// An IPv4 address with a time to live of `ttl` seconds.
    pub fn address(address: Ipv4Addr, ttl: u32) -> DnsReply {
        DnsReply::Addresses(vec![address.into()], ttl)
    }
}

#[derive(Default)]
struct DnsState {
    replies: HashMap<String, DnsReply>,
    asked: HashMap<String, usize>,
    connections: usize,
    /// The first questions that [`DnsReply::Late`] has not answered yet, by name and type, with their sender.
    held: HashMap<(String, RecordType), (Vec<u8>, SocketAddr)>,
}

/// The server. It ends when this is dropped.
pub struct Dns {
    address: SocketAddr,
    state: Arc<Mutex<DnsState>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Dns {
    /// Starts a server that knows no name yet: it answers `NXDOMAIN`.
    pub fn start() -> Dns {
        let (datagrams, connections) = bound();
        let address = datagrams.local_addr().expect("it is bound");
        let state: Arc<Mutex<DnsState>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (by_datagram, by_connection) = ((state.clone(), stop.clone()), (state.clone(), stop.clone()));
        let threads = vec![
            std::thread::spawn(move || answer_datagrams(&datagrams, &by_datagram.0, &by_datagram.1)),
            std::thread::spawn(move || answer_connections(&connections, &by_connection.0, &by_connection.1)),
        ];
        Dns { address, state, stop, threads }
    }

    /// The server's address, for `resolver`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the answer to questions for `name` from now on.
    pub fn set(&self, name: &str, reply: DnsReply) {
        self.state().replies.insert(name.to_ascii_lowercase(), reply);
    }

    /// The number of questions for `name` that have come; questions for the two kinds of addresses are counted
    /// separately.
    pub fn asked(&self, name: &str) -> usize {
        self.state().asked.get(name).copied().unwrap_or(0)
    }

    /// The number of connections that were made.
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    fn state(&self) -> std::sync::MutexGuard<'_, DnsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Two sockets on the same port.
fn bound() -> (UdpSocket, TcpListener) {
    loop {
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        datagrams.set_read_timeout(Some(LOOK)).expect("a socket");
        if let Ok(connections) = TcpListener::bind(datagrams.local_addr().expect("it is bound")) {
            connections.set_nonblocking(true).expect("a socket");
            return (datagrams, connections);
        }
    }
}

fn answer_datagrams(socket: &UdpSocket, state: &Mutex<DnsState>, stop: &AtomicBool) {
    let mut buffer = [0; 4096];
    while !stop.load(Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        let Some((question, from)) = in_time(&buffer[..len], from, state) else { continue };
        for answer in answers(&question, state, true) {
            let _ = socket.send_to(&answer, from);
        }
    }
}

fn answer_connections(listener: &TcpListener, state: &Mutex<DnsState>, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        state.lock().unwrap_or_else(PoisonError::into_inner).connections += 1;
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let mut len = [0; 2];
        if stream.read_exact(&mut len).is_err() {
            continue;
        }
        let mut question = vec![0; usize::from(u16::from_be_bytes(len))];
        if stream.read_exact(&mut question).is_err() {
            continue;
        }
        for answer in answers(&question, state, false) {
            let len = u16::try_from(answer.len()).expect("it fits").to_be_bytes();
            let _ = stream.write_all(&[&len[..], &answer].concat());
        }
    }
}

/// The question to answer now: this question, or an earlier question that was held back; `None`: no question.
fn in_time(question: &[u8], from: SocketAddr, state: &Mutex<DnsState>) -> Option<(Vec<u8>, SocketAddr)> {
    let now = (question.to_vec(), from);
    let Some(query) = Message::from_vec(question).ok().and_then(|message| message.queries.first().cloned()) else {
        return Some(now);
    };
    let name = name_of(&query);
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if !matches!(state.replies.get(&name), Some(DnsReply::Late(_))) {
        return Some(now);
    }
    let key = (name, query.query_type);
    match state.held.remove(&key) {
        Some(held) => Some(held),
        None => {
            state.held.insert(key, now);
            None
        }
    }
}

/// The name that is asked for. It is taken as its bytes are, valid or not.
fn name_of(query: &Query) -> String {
    let labels: Vec<_> = query.name.iter().map(String::from_utf8_lossy).collect();
    labels.join(".").to_ascii_lowercase()
}

fn answers(question: &[u8], state: &Mutex<DnsState>, datagram: bool) -> Vec<Vec<u8>> {
    let Ok(question) = Message::from_vec(question) else { return Vec::new() };
    let Some(query) = question.queries.first().cloned() else { return Vec::new() };
    let name = name_of(&query);
    let reply = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        *state.asked.entry(name.clone()).or_default() += 1;
        state.replies.get(&name).cloned().unwrap_or(DnsReply::Code(3))
    };
    let mut answer = Message::response(question.metadata.id, OpCode::Query);
    answer.metadata.recursion_desired = true;
    answer.metadata.recursion_available = true;
    answer.add_query(query.clone());
    let mut packed = Vec::new();
    let mut after = Vec::new();
    let reply = match reply {
        DnsReply::Followed(reply, bytes) => {
            after = bytes;
            *reply
        }
        DnsReply::Noise(reply) => {
            let mut other = answer.clone();
            other.metadata.id = other.metadata.id.wrapping_add(1);
            packed.push(b"no answer".to_vec());
            packed.push(other.to_vec().expect("a message"));
            *reply
        }
        DnsReply::Cut(_) if datagram => {
            answer.metadata.truncation = true;
            return vec![answer.to_vec().expect("a message")];
        }
        DnsReply::Cut(reply) | DnsReply::Late(reply) => *reply,
        reply => reply,
    };
    let mut add = |ttl, data| {
        answer.add_answer(Record::from_rdata(query.name.clone(), ttl, data));
    };
    match reply {
        DnsReply::Silence => return Vec::new(),
        DnsReply::Code(code) => answer.metadata.response_code = ResponseCode::from(0, code as u8),
        DnsReply::Alias(to, ttl) => add(ttl, RData::CNAME(CNAME(Name::from_ascii(to + ".").expect("a name")))),
        DnsReply::Addresses(addresses, ttl) => {
            for address in addresses {
                match (address, query.query_type) {
                    (IpAddr::V4(address), RecordType::A) => add(ttl, RData::A(A(address))),
                    (IpAddr::V6(address), RecordType::AAAA) => add(ttl, RData::AAAA(AAAA(address))),
                    _ => {}
                }
            }
        }
        DnsReply::Services(services, ttl) if query.query_type == RecordType::SRV => {
            for (priority, weight, port, target) in services {
                let target = Name::from_ascii(target + ".").expect("a name");
                add(ttl, RData::SRV(SRV::new(priority, weight, port, target)));
            }
        }
        DnsReply::Services(..) | DnsReply::Cut(_) | DnsReply::Noise(_) | DnsReply::Followed(..) | DnsReply::Late(_) => {
        }
    }
    let mut message = answer.to_vec().expect("a message");
    if !after.is_empty() {
        // The last number of the header is the count of additional records.
        message[11] += 2;
        message.extend(after);
    }
    packed.push(message);
    packed
}
