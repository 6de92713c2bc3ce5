//! Sockets to name servers. They are few, however many questions wait, because names can come from requests.
//!
//! As long as few questions wait, each has a socket, and so a port that the kernel chose at random for it alone (RFC
//! 5452). When there are [`SOCKETS`], questions share them; their identifiers distinguish the answers. A socket that
//! has asked [`TURNS`] questions takes no more and is closed with the last answer, so that ports go on changing. The
//! exception is a time in which the waiting questions need [`MOST_SOCKETS`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::{Rc, Weak};

use hickory_proto::op::{Message, Query};
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::answer::{self, DnsAnswer};
use super::client::PAYLOAD;
use super::report;

/// The most sockets to one name server that take questions.
pub(super) const SOCKETS: usize = 16;

/// The most sockets to one name server, including those that only wait for their last answers. When there are so many,
/// all of them share the new questions.
pub(super) const MOST_SOCKETS: usize = 2 * SOCKETS;

/// Number of questions of a socket, as long as another one has asked fewer.
pub(super) const TURNS: u32 = 256;

/// The most questions that wait at one socket: a quarter of all identifiers, so that a free one is soon found. More are
/// refused.
const MAX_QUESTIONS: usize = 16 * 1024;

/// The size of the largest datagram that is accepted; name servers are asked for smaller ones.
const LARGEST: usize = 4096;

const _: () = assert!(4 * MAX_QUESTIONS <= 1 << u16::BITS, "most identifiers are free");
const _: () = assert!(PAYLOAD as usize <= LARGEST, "name servers are asked for datagrams that are accepted");

thread_local! {
    /// The sockets that questions wait at, by name server; a socket without questions is closed. Used on the resolver
    /// thread.
    static POOLS: RefCell<HashMap<SocketAddr, Vec<Weak<Socket>>>> = RefCell::default();
}

struct SentQuestion {
    question: Query,
    answer: oneshot::Sender<DnsAnswer>,
}

/// The state that a socket's questions share with its reader.
struct OpenSocket {
    socket: UdpSocket,
    server: SocketAddr,
    /// The waiting questions, by identifier.
    waiting: RefCell<HashMap<u16, SentQuestion>>,
    asked: Cell<u32>,
}

impl OpenSocket {
    /// Fails all waiting questions and takes no new ones, because the name server cannot be reached.
    fn fail(&self) {
        self.asked.set(u32::MAX);
        self.waiting.borrow_mut().clear();
    }
}

/// A connected socket, and its reader task. It is closed when the last reference is dropped.
struct Socket {
    open: Rc<OpenSocket>,
    reader: AbortHandle,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.reader.abort();
        // At the end of the thread the table may be gone already.
        let _ = POOLS.try_with(|pools| {
            let mut pools = pools.borrow_mut();
            if let Some(pool) = pools.get_mut(&self.open.server) {
                pool.retain(|socket| socket.strong_count() > 0);
                if pool.is_empty() {
                    pools.remove(&self.open.server);
                }
            }
        });
    }
}

/// A question's place at a socket.
struct SocketPlace {
    socket: Rc<Socket>,
    id: u16,
}

impl Drop for SocketPlace {
    fn drop(&mut self) {
        self.socket.open.waiting.borrow_mut().remove(&self.id);
    }
}

/// Sends the question, with a new identifier, and waits for the answer without a time limit.
///
/// # Errors
/// There is no socket, or the system says that the name server cannot be reached.
pub(super) async fn exchange(server: SocketAddr, question: &mut Message) -> io::Result<DnsAnswer> {
    let query = question.queries.first().cloned().ok_or(io::ErrorKind::InvalidInput)?;
    let socket = socket(server).await?;
    let (sender, answer) = oneshot::channel();
    let id = {
        let mut waiting = socket.open.waiting.borrow_mut();
        if waiting.len() >= MAX_QUESTIONS {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let id = std::iter::repeat_with(random).find(|id| !waiting.contains_key(id)).unwrap_or_default();
        waiting.insert(id, SentQuestion { question: query, answer: sender });
        id
    };
    let place = SocketPlace { socket, id };
    question.metadata.id = id;
    let packed = question.to_vec().map_err(io::Error::other)?;
    if let Err(error) = place.socket.open.socket.send(&packed).await {
        // The error may belong to another question: then that question's reader does not get it.
        place.socket.open.fail();
        return Err(error);
    }
    // The reader stops when the socket fails.
    answer.await.map_err(|_| io::ErrorKind::ConnectionRefused.into())
}

/// A number that cannot be guessed.
fn random() -> u16 {
    // A new message has a random identifier.
    Message::query().metadata.id
}

/// A socket for one more question: a new one as long as the limit allows, else any of those that have asked fewer
/// questions.
async fn socket(server: SocketAddr) -> io::Result<Rc<Socket>> {
    let known = live(server);
    let fresh = known.iter().filter(|socket| socket.open.asked.get() < TURNS).count();
    let chosen = if fresh < SOCKETS && known.len() < MOST_SOCKETS {
        match open(server).await {
            Ok(new) => new,
            // There may be no descriptor left.
            Err(error) => any(known).ok_or(error)?,
        }
    } else {
        any(known).ok_or(io::ErrorKind::NotFound)?
    };
    chosen.open.asked.set(chosen.open.asked.get().saturating_add(1));
    Ok(chosen)
}

fn live(server: SocketAddr) -> Vec<Rc<Socket>> {
    let known: Vec<_> =
        POOLS.with_borrow(|pools| pools.get(&server).into_iter().flatten().filter_map(Weak::upgrade).collect());
    // A question at a failed socket would never be woken.
    known.into_iter().filter(|socket| socket.open.asked.get() < u32::MAX).collect()
}

fn any(mut known: Vec<Rc<Socket>>) -> Option<Rc<Socket>> {
    if known.iter().any(|socket| socket.open.asked.get() < TURNS) {
        known.retain(|socket| socket.open.asked.get() < TURNS);
    }
    let index = usize::from(random()) % known.len().max(1);
    (!known.is_empty()).then(|| known.swap_remove(index))
}

/// Opens a socket, at a port that the kernel chooses at random.
async fn open(server: SocketAddr) -> io::Result<Rc<Socket>> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    // From now on the kernel drops datagrams from other senders.
    socket.connect(server).await?;
    let open = Rc::new(OpenSocket { socket, server, waiting: RefCell::default(), asked: Cell::new(0) });
    let reader = tokio::task::spawn_local(read(open.clone())).abort_handle();
    let socket = Rc::new(Socket { open, reader });
    POOLS.with_borrow_mut(|pools| pools.entry(server).or_default().push(Rc::downgrade(&socket)));
    Ok(socket)
}

/// Hands answers to the tasks that wait for them until the socket fails; then it fails all waiting questions.
async fn read(open: Rc<OpenSocket>) {
    let mut buffer = [0; LARGEST];
    loop {
        let Ok(len) = open.socket.recv(&mut buffer).await else {
            open.fail();
            return;
        };
        let message = &buffer[..len];
        let mut waiting = open.waiting.borrow_mut();
        let answer = answer::id(message).and_then(|id| {
            let answer = answer::fitting(message, id, &waiting.get(&id)?.question)?;
            Some((waiting.remove(&id)?, answer))
        });
        drop(waiting);
        match answer {
            // The task that asked may be gone.
            Some((asked, answer)) => drop(asked.answer.send(answer)),
            // Another host may have sent it in the server's name, or it comes too late: go on waiting.
            None => report::say(format_args!("a message from name server {} answers no question", open.server)),
        }
    }
}

/// Number of sockets to a name server.
#[cfg(test)]
pub(super) fn count(server: SocketAddr) -> usize {
    live(server).len()
}

/// Number of questions that wait for answers of a name server.
#[cfg(test)]
pub(super) fn waiting(server: SocketAddr) -> usize {
    live(server).iter().map(|socket| socket.open.waiting.borrow().len()).sum()
}
