//! Processes that have ordered a reload and wait for what becomes of it: `-s reload`.
//!
//! The order itself is the signal, as in nginx. A process that wants to know its result connects to a Unix socket
//! before, and the master answers when the reload that begins next has ended. The socket has an abstract name
//! (unix(7)), so no file is left behind when the master is killed. The name contains the namespace of the master's
//! process id: processes of several containers may have the same id.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use freerun_conf::{bytes_of, text_of};
use freerun_sys::socket::peer;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The most processes that wait for the same reload. Others wait for the next one, or until their patience ends.
const MAX_ASKING: usize = 64;

/// The most connections that are looked at for a reload: any user of the machine can make some, again and again.
const MAX_LOOKED_AT: usize = 4096;

/// The longest answer in bytes. One as long is taken by a socket that nobody reads.
const MAX_ANSWER: usize = 16 * 1024;

/// The result of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The new configuration is in use; these parts of it are not yet.
    Used(Vec<String>),
    /// The configuration before stays in use, for this reason.
    Refused(String),
}

/// The first lines of answers. Other versions understand this text, too.
const USED: &str = "used\n";
const REFUSED: &str = "refused\n";

impl Outcome {
    fn write(&self) -> String {
        match self {
            Outcome::Used(notes) => notes.iter().fold(USED.to_owned(), |text, note| text + note + "\n"),
            Outcome::Refused(why) => format!("{REFUSED}{why}"),
        }
    }

    fn read(answer: &[u8]) -> Option<Outcome> {
        let answer = text_of(answer);
        match (answer.strip_prefix(USED), answer.strip_prefix(REFUSED)) {
            (Some(notes), _) => Some(Outcome::Used(notes.lines().map(str::to_owned).collect())),
            (None, why) => why.map(|why| Outcome::Refused(why.to_owned())),
        }
    }
}

/// The abstract name of the socket at which the master with this id is asked.
fn name(master: u32) -> io::Result<String> {
    let namespace = fs::metadata("/proc/self/ns/pid")?.ino();
    Ok(format!("freerun/reload/{namespace}/{master}"))
}

/// The master's side.
#[derive(Default)]
pub struct ReloadWaiters {
    /// `None` if there can be no such socket: then nobody waits.
    listener: Option<UnixListener>,
    waiting: Vec<UnixStream>,
    notes: Vec<String>,
}

impl ReloadWaiters {
    /// Lets others ask this process.
    pub fn listen() -> ReloadWaiters {
        let listener = name(std::process::id())
            .and_then(SocketAddr::from_abstract_name)
            .and_then(|address| UnixListener::bind_addr(&address));
        let listener = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        ReloadWaiters { listener: listener.ok(), ..ReloadWaiters::default() }
    }

    /// A reload begins: those who have asked until now get its result.
    pub fn begin(&mut self) {
        self.notes.clear();
        let Some(listener) = &self.listener else { return };
        for _ in 0..MAX_LOOKED_AT {
            if self.waiting.len() >= MAX_ASKING {
                break;
            }
            let Ok((stream, _)) = listener.accept() else { break };
            // Who may not signal this process need not know what it reads.
            let own = rustix::process::geteuid().as_raw();
            let may = peer(&stream).is_ok_and(|peer| peer.uid == 0 || peer.uid == own);
            if may && stream.set_nonblocking(true).is_ok() {
                self.waiting.push(stream);
            }
        }
    }

    /// Notes a part of the new configuration that is not used yet.
    pub fn note(&mut self, what: String) {
        self.notes.push(what);
    }

    /// The reload has ended: tells those who wait. It is refused for this reason, or the new configuration is in use.
    pub fn end(&mut self, result: Result<(), &str>) {
        let outcome = match result {
            Ok(()) => Outcome::Used(std::mem::take(&mut self.notes)),
            Err(why) => Outcome::Refused(why.to_owned()),
        };
        let answer = outcome.write();
        let answer = bytes_of(&answer);
        let answer = &answer[..answer.len().min(MAX_ANSWER)];
        for mut stream in self.waiting.drain(..) {
            // Who does not wait any more needs no answer.
            let _ = stream.write_all(answer);
        }
    }
}

/// The side of a process that has something reloaded.
pub struct Question(UnixStream);

impl Question {
    /// Asks the master with this id for the result of its next reload. `None`: it cannot be asked; nginx has no such socket.
    pub fn ask(master: u32) -> Option<Question> {
        let address = SocketAddrUnix::new_abstract_name(name(master).ok()?.as_bytes()).ok()?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
        // There is no waiting for room among those who ask: any user can fill the queue, and the order has to be given.
        rustix::net::connect(&socket, &address).ok()?;
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false).ok()?;
        // Any process may take a name that is free.
        let is_master = peer(&stream).is_ok_and(|peer| u32::try_from(peer.pid) == Ok(master));
        is_master.then_some(Question(stream))
    }

    /// Waits for the answer, for `patience` at most. `tell` is called once, when nothing has come for `pause`.
    ///
    /// # Errors
    /// There is no answer in time, or the master has ended.
    pub fn wait_or_tell(mut self, patience: Duration, pause: Duration, tell: impl FnOnce()) -> io::Result<Outcome> {
        let begin = Instant::now();
        let mut tell = Some(tell).filter(|_| pause < patience);
        let mut answer = Vec::new();
        loop {
            let waited = begin.elapsed();
            if waited >= patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if waited >= pause
                && let Some(tell) = tell.take()
            {
                tell();
            }
            let until = if tell.is_some() { pause } else { patience };
            self.0.set_read_timeout(Some(until.saturating_sub(waited).max(Duration::from_millis(1))))?;
            let mut piece = [0; 4096];
            match self.0.read(&mut piece) {
                Ok(0) => break,
                Ok(count) if answer.len() + count <= MAX_ANSWER => answer.extend_from_slice(&piece[..count]),
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        Outcome::read(&answer).ok_or(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Question {
        /// Waits for the answer, for `patience` at most, and tells nobody.
        fn wait(self, patience: Duration) -> io::Result<Outcome> {
            self.wait_or_tell(patience, patience, || ())
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn who_waits_for_long_is_told_so_once_and_goes_on() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let mut told = 0;
        let asked = Question(ours).wait_or_tell(LONG, Duration::from_millis(20), || {
            told += 1;
            theirs.write_all(USED.as_bytes()).unwrap();
            theirs.shutdown(std::net::Shutdown::Both).unwrap();
        });
        assert_eq!((asked.unwrap(), told), (Outcome::Used(Vec::new()), 1));
        let (_theirs, ours) = UnixStream::pair().unwrap();
        let late = Question(ours).wait(Duration::from_millis(5));
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn nobody_can_keep_others_from_ordering_a_reload() {
        // The number of no process.
        let master = std::process::id() | 1 << 31;
        let address = SocketAddr::from_abstract_name(name(master).unwrap()).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let _only = UnixStream::connect_addr(&address).unwrap();
        assert!(Question::ask(master).is_none(), "the queue is full, and it is not waited for");
    }

    // One test, as a process has one such socket.
    #[test]
    fn who_asks_before_a_reload_gets_its_result() {
        let own = std::process::id();
        assert!(Question::ask(own).is_none(), "nobody listens");
        let mut waiters = ReloadWaiters::listen();
        let [first, second] = [(); 2].map(|()| Question::ask(own).unwrap());
        waiters.begin();
        let late = Question::ask(own).unwrap();
        waiters.note("a part".to_owned());
        waiters.end(Ok(()));
        let used = Outcome::Used(vec!["a part".to_owned()]);
        assert_eq!(first.wait(LONG).unwrap(), used);
        assert_eq!(second.wait(LONG).unwrap(), used);
        assert_eq!(late.wait(Duration::from_millis(1)).unwrap_err().kind(), io::ErrorKind::TimedOut);

        let asked = Question::ask(own).unwrap();
        waiters.begin();
        let why = "x".repeat(MAX_ANSWER);
        waiters.end(Err(&why));
        let Outcome::Refused(told) = asked.wait(LONG).unwrap() else { panic!("refused") };
        assert!(why.starts_with(&told) && told.len() > MAX_ANSWER / 2);

        let asked = Question::ask(own).unwrap();
        waiters.begin();
        drop(waiters);
        assert_eq!(asked.wait(LONG).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(Question::ask(own).is_none());
    }
}
