//! Where the lines of a log go: what its name says, and how they are written there.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::{Buf, Bytes};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::level::Level;

/// How long a file that failed (ENOSPC, EIO, EPIPE …) rests before the next try.
const RETRY: Duration = Duration::from_secs(1);
/// How long a socket whose reader is behind rests before the next try.
const SOCKET_RETRY: Duration = Duration::from_millis(10);
/// Buffers given to one `writev`; well below IOV_MAX.
pub(super) const BATCH: usize = 128;

/// Names of logs that are sent to syslog begin with it: `syslog:unix:PATH` or `syslog:HOST:PORT`.
pub const SYSLOG: &str = "syslog:";
/// Names of logs that are kept in memory begin with it: `memory:BYTES`.
pub const MEMORY: &str = "memory:";
/// The name of the log that stands for all files whose paths have variables.
pub const NAMED: &str = "variables:";
/// What the memory of a log begins with, so that it is found in a core dump.
const MARKER: &[u8] = b"freerun memory log: ";
/// The largest log in memory.
pub const MAX_MEMORY: usize = 1 << 30;

/// What sort of log a name stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sink {
    /// A file, a terminal or a pipe.
    File,
    /// A socket that takes one message at a time; with the path of a Unix one, which can be connected anew.
    Socket(Option<PathBuf>),
    /// The last so many bytes, kept in memory.
    Memory(usize),
    /// Files that are opened by name when a line comes for them.
    Named,
}

impl Sink {
    pub(super) fn of(name: &str) -> Sink {
        if let Some(server) = name.strip_prefix(SYSLOG) {
            Sink::Socket(server.strip_prefix("unix:").map(PathBuf::from))
        } else if let Some(size) = name.strip_prefix(MEMORY) {
            Sink::Memory(size.parse().unwrap_or(0).min(MAX_MEMORY))
        } else if name == NAMED {
            Sink::Named
        } else {
            Sink::File
        }
    }
}

/// Where a log goes now.
pub(super) struct Output {
    pub(super) name: String,
    pub(super) sink: Sink,
    pub(super) fd: ArcSwap<OwnedFd>,
}

/// A socket for the syslog server at this path. Where nobody listens it is not connected yet.
///
/// # Errors
/// The system gives no socket.
pub fn syslog_socket(path: &Path) -> io::Result<OwnedFd> {
    let socket = unconnected()?;
    // Sending tries again.
    let _ = connect(&socket, path);
    Ok(socket)
}

fn unconnected() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

fn connect(socket: &OwnedFd, path: &Path) -> Result<(), Errno> {
    rustix::net::connect(socket, &SocketAddrUnix::new(path.as_os_str().as_bytes())?)
}

/// Why a message was not sent: the words for the error log.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum Unsent {
    #[error("connect() failed ({err})", err = super::level::Errno(&(*.0).into()))]
    Connect(Errno),
    #[error("send() failed ({err})", err = super::level::Errno(&(*.0).into()))]
    Send(Errno),
}

impl Unsent {
    /// How serious it is to nginx.
    pub(super) fn level(self) -> Level {
        match self {
            Unsent::Connect(_) => Level::Alert,
            Unsent::Send(_) => Level::Error,
        }
    }
}

/// What came of an attempt to write.
pub(super) enum Written {
    /// So many bytes of what was waiting have been dealt with.
    Some(usize),
    /// Nobody took these; they are lost, and are for the caller to count.
    Dropped {
        /// How many bytes they have.
        bytes: usize,
        /// How many messages there are.
        messages: usize,
        /// Why nobody took them.
        error: Unsent,
    },
    /// Nothing at the moment: try again after so long.
    Later(io::Error, Duration),
}

/// The logs that are kept in memory, by name.
#[derive(Default)]
pub(super) struct Memories(HashMap<String, Ring>);

/// The last bytes of a log: a ring behind a marker.
struct Ring {
    bytes: Box<[u8]>,
    at: usize,
}

impl Ring {
    fn new(size: usize) -> Ring {
        let mut bytes = vec![0; MARKER.len() + size.max(1)].into_boxed_slice();
        bytes[..MARKER.len()].copy_from_slice(MARKER);
        Ring { bytes, at: 0 }
    }

    fn push(&mut self, line: &[u8]) {
        let ring = &mut self.bytes[MARKER.len()..];
        let mut line = &line[line.len().saturating_sub(ring.len())..];
        while !line.is_empty() {
            let part = line.len().min(ring.len() - self.at);
            ring[self.at..self.at + part].copy_from_slice(&line[..part]);
            self.at = (self.at + part) % ring.len();
            line = &line[part..];
        }
    }
}

/// Writes some of `chunks`, which are not empty, and takes it off their front.
pub(super) fn write_some(output: &Output, chunks: &mut VecDeque<Bytes>, memories: &mut Memories) -> Written {
    match &output.sink {
        Sink::File | Sink::Named => write_waiting(output, chunks),
        Sink::Socket(_) => send_some(output, chunks),
        Sink::Memory(size) => {
            let ring = memories.0.entry(output.name.clone()).or_insert_with(|| Ring::new(*size));
            let mut written = 0;
            for chunk in chunks.drain(..) {
                ring.push(&chunk);
                written += chunk.len();
            }
            Written::Some(written)
        }
    }
}

/// Writes some of `chunks` to a file, which may have to wait, and takes it off their front.
pub(super) fn write_waiting(output: &Output, chunks: &mut VecDeque<Bytes>) -> Written {
    match write_file(output, chunks) {
        Ok(written) => Written::Some(written),
        Err(error) => Written::Later(error, RETRY),
    }
}

/// One `writev`.
fn write_file(output: &Output, chunks: &mut VecDeque<Bytes>) -> io::Result<usize> {
    let fd = output.fd.load();
    let slices: Vec<IoSlice<'_>> = chunks.iter().take(BATCH).map(|chunk| IoSlice::new(chunk)).collect();
    let mut waited = false;
    let written = loop {
        match rustix::io::writev(&**fd, &slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => break written,
            Err(Errno::INTR) => {}
            // Somebody else's end of a pipe may have made it non-blocking.
            Err(Errno::AGAIN) if !waited => {
                waited = true;
                let mut poll = [PollFd::new(&**fd, PollFlags::OUT)];
                let second = Timespec { tv_sec: 1, tv_nsec: 0 };
                let _ = rustix::event::poll(&mut poll, Some(&second));
            }
            Err(error) => return Err(error.into()),
        }
    };
    let mut left = written;
    while left > 0 {
        let Some(front) = chunks.front_mut() else { break };
        if front.len() <= left {
            left -= front.len();
            chunks.pop_front();
        } else {
            front.advance(left);
            left = 0;
        }
    }
    Ok(written)
}

/// A message for each chunk. What the server does not take because it is not there is dropped: it would be old news.
fn send_some(output: &Output, chunks: &mut VecDeque<Bytes>) -> Written {
    let mut sent = 0;
    while let Some(message) = chunks.front() {
        match send(output, message) {
            Ok(()) => {
                sent += message.len();
                chunks.pop_front();
            }
            Err(Unsent::Send(Errno::AGAIN | Errno::NOBUFS)) if sent > 0 => break,
            Err(Unsent::Send(error @ (Errno::AGAIN | Errno::NOBUFS))) => {
                return Written::Later(error.into(), SOCKET_RETRY);
            }
            Err(_) if sent > 0 => break,
            // Too long for one message: the next one may be shorter.
            Err(error @ Unsent::Send(Errno::MSGSIZE)) => {
                let bytes = message.len();
                chunks.pop_front();
                return Written::Dropped { bytes, messages: 1, error };
            }
            Err(error) => {
                let (bytes, messages) = (chunks.iter().map(Bytes::len).sum(), chunks.len());
                chunks.clear();
                return Written::Dropped { bytes, messages, error };
            }
        }
    }
    Written::Some(sent)
}

/// Sends one message; never waits.
pub(super) fn send(output: &Output, message: &[u8]) -> Result<(), Unsent> {
    let once = |fd: &OwnedFd| loop {
        match rustix::net::send(fd.as_fd(), message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            answer => return answer.map(|_| ()),
        }
    };
    match once(&output.fd.load()) {
        Ok(()) => Ok(()),
        Err(error @ (Errno::AGAIN | Errno::NOBUFS | Errno::MSGSIZE)) => Err(Unsent::Send(error)),
        // A datagram before this one was refused, or the server is another one now.
        Err(error) => {
            if let Sink::Socket(Some(path)) = &output.sink {
                let socket = unconnected().map_err(|_| Unsent::Send(error))?;
                connect(&socket, path).map_err(|why| match error {
                    Errno::NOTCONN => Unsent::Connect(why),
                    error => Unsent::Send(error),
                })?;
                output.fd.store(Arc::new(socket));
            }
            once(&output.fd.load()).map_err(Unsent::Send)
        }
    }
}

/// Writes everything, waiting where it has to.
pub(super) fn write_all(fd: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes at once, where there is no thread.
pub(super) fn write_now(output: &Output, bytes: &[u8]) -> bool {
    match &output.sink {
        Sink::File => write_all(&output.fd.load(), bytes).is_ok(),
        Sink::Socket(_) => send(output, bytes).is_ok(),
        // A process without loops has nothing to remember.
        Sink::Memory(_) | Sink::Named => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_log_is() {
        assert_eq!(Sink::of("/var/log/x"), Sink::File);
        assert_eq!(Sink::of("stderr"), Sink::File);
        assert_eq!(Sink::of("syslog:unix:/dev/log"), Sink::Socket(Some("/dev/log".into())));
        assert_eq!(Sink::of("syslog:127.0.0.1:514"), Sink::Socket(None));
        assert_eq!(Sink::of("memory:4096"), Sink::Memory(4096));
        assert_eq!(Sink::of(NAMED), Sink::Named);
    }

    #[test]
    fn memory_keeps_the_end() {
        let mut ring = Ring::new(8);
        ring.push(b"abc");
        ring.push(b"defgh");
        assert_eq!(&ring.bytes[MARKER.len()..], b"abcdefgh");
        ring.push(b"12");
        assert_eq!(&ring.bytes[MARKER.len()..], b"12cdefgh");
        ring.push(b"a long line that does not fit");
        ring.push(b"");
        let mut all = ring.bytes[MARKER.len()..].to_vec();
        all.rotate_left(ring.at);
        assert_eq!(all, b" not fit");
    }
}
