//! The destinations of logs: their names, and how lines are written to them.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::{Buf, Bytes};
use freerun_conf::path_of;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::level::Level;

/// Time for which a file that failed (ENOSPC, EIO, EPIPE …) rests before the next attempt.
const RETRY: Duration = Duration::from_secs(1);
/// Rest of a socket before the next attempt, if its reader is behind.
const SOCKET_RETRY: Duration = Duration::from_millis(10);
/// The most buffers of one `writev`; well below IOV_MAX.
pub(super) const BATCH: usize = 128;

/// The beginning of the names of logs that are sent to syslog: `syslog:unix:PATH` or `syslog:HOST:PORT`.
pub const SYSLOG: &str = "syslog:";
/// The beginning of the names of logs that are kept in memory: `memory:BYTES`.
pub const MEMORY: &str = "memory:";
/// The beginning of the names of files that nobody but their owner may read: `secrets:PATH`.
pub const SECRETS: &str = "secrets:";
/// The name of the log that stands for all files whose paths have variables.
pub const NAMED: &str = "variables:";
/// The beginning of a log's memory: a search for it finds the log in a core dump.
const MARKER: &[u8] = b"freerun memory log: ";
/// The largest log in memory, in bytes.
pub const MAX_MEMORY: usize = 1 << 30;

/// The kind of log that a name stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sink {
    /// A file, a terminal or a pipe.
    File,
    /// A socket that takes one message at a time; a Unix socket, which can be connected anew, with its path.
    Socket(Option<PathBuf>),
    /// The last bytes, up to this number, kept in memory.
    Memory(usize),
    /// Files that are opened by name when a line comes for them.
    Named,
}

impl Sink {
    pub(super) fn of(name: &str) -> Sink {
        if let Some(server) = name.strip_prefix(SYSLOG) {
            Sink::Socket(server.strip_prefix("unix:").map(|path| path_of(path).into_owned()))
        } else if let Some(size) = name.strip_prefix(MEMORY) {
            Sink::Memory(size.parse().unwrap_or(0).min(MAX_MEMORY))
        } else if name == NAMED {
            Sink::Named
        } else {
            Sink::File
        }
    }
}

/// The present destination of a log.
pub(super) struct Output {
    pub(super) name: String,
    pub(super) sink: Sink,
    pub(super) fd: ArcSwap<OwnedFd>,
}

impl Output {
    /// The path, or the name of what is no file.
    pub(super) fn path(&self) -> &str {
        self.name.strip_prefix(SECRETS).unwrap_or(&self.name)
    }
}

/// A socket for the syslog server at this path. It is not connected yet if no server listens there.
///
/// # Errors
/// The system's error: no socket can be made.
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

/// The reason why a message was not sent, in the words of the error log.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum Unsent {
    #[error("connect() failed ({err})", err = super::errno::Errno(&(*.0).into()))]
    Connect(Errno),
    #[error("send() failed ({err})", err = super::errno::Errno(&(*.0).into()))]
    Send(Errno),
}

impl Unsent {
    /// The level that nginx gives this failure.
    pub(super) fn level(self) -> Level {
        match self {
            Unsent::Connect(_) => Level::Alert,
            Unsent::Send(_) => Level::Error,
        }
    }
}

/// The result of an attempt to write.
pub(super) enum WriteResult {
    /// A number of the waiting bytes that have been dealt with.
    Some(usize),
    /// Messages that were not taken; they are lost, and the caller has to count them.
    Dropped {
        /// The number of their bytes.
        bytes: usize,
        /// The number of messages.
        messages: usize,
        /// The reason why they were not taken.
        error: Unsent,
    },
    /// Nothing can be written at the moment: try again after this time.
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

impl Memories {
    /// Keeps `chunks` in the memory of a log, which has this size.
    pub(super) fn write(&mut self, output: &Output, size: usize, chunks: &mut VecDeque<Bytes>) -> WriteResult {
        let ring = self.0.entry(output.name.clone()).or_insert_with(|| Ring::new(size));
        let mut written = 0;
        for chunk in chunks.drain(..) {
            ring.push(&chunk);
            written += chunk.len();
        }
        WriteResult::Some(written)
    }
}

/// Writes some of `chunks`, which are not empty, to a file or a socket, and removes it from their front. May have to wait: for
/// the file, or for the folder of a Unix socket that is connected to.
pub(super) fn write_waiting(output: &Output, chunks: &mut VecDeque<Bytes>) -> WriteResult {
    if matches!(output.sink, Sink::Socket(_)) {
        return send_some(output, chunks);
    }
    match write_file(output, chunks) {
        Ok(written) => WriteResult::Some(written),
        Err(error) => WriteResult::Later(error, RETRY),
    }
}

/// Writes chunks to a file with one `writev`.
fn write_file(output: &Output, chunks: &mut VecDeque<Bytes>) -> io::Result<usize> {
    let fd = output.fd.load();
    let slices: Vec<IoSlice<'_>> = chunks.iter().take(BATCH).map(|chunk| IoSlice::new(chunk)).collect();
    let mut waited = false;
    let written = loop {
        match rustix::io::writev(&**fd, &slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => break written,
            Err(Errno::INTR) => {}
            // Another process that has the pipe may have made it non-blocking.
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

/// Sends a message for each chunk. Messages that are not taken because the server is absent are dropped: later they
/// would be out of date.
fn send_some(output: &Output, chunks: &mut VecDeque<Bytes>) -> WriteResult {
    let mut sent = 0;
    while let Some(message) = chunks.front() {
        match send(output, message) {
            Ok(()) => {
                sent += message.len();
                chunks.pop_front();
            }
            Err(Unsent::Send(Errno::AGAIN | Errno::NOBUFS)) if sent > 0 => break,
            Err(Unsent::Send(error @ (Errno::AGAIN | Errno::NOBUFS))) => {
                return WriteResult::Later(error.into(), SOCKET_RETRY);
            }
            Err(_) if sent > 0 => break,
            // The message is too long; the next one may be shorter.
            Err(error @ Unsent::Send(Errno::MSGSIZE)) => {
                let bytes = message.len();
                chunks.pop_front();
                return WriteResult::Dropped { bytes, messages: 1, error };
            }
            Err(error) => {
                let (bytes, messages) = (chunks.iter().map(Bytes::len).sum(), chunks.len());
                chunks.clear();
                return WriteResult::Dropped { bytes, messages, error };
            }
        }
    }
    WriteResult::Some(sent)
}

/// Sends one message. Waits only if the server at a Unix socket has to be connected to, for the folder of that.
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
        // An earlier datagram was refused, or another server is there now.
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

/// Writes all bytes, and waits if necessary.
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

/// The most bytes that a pipe takes for certain once poll(2) says that it is writable (pipe(7)).
const PIPE_ATOMIC: usize = 4096;

/// Time for which a line waits for room in a pipe.
const ROOM_PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Writes all bytes, and waits for the disk of a file, but not for the reader of a pipe or a terminal that takes
/// nothing any more. A process whose output nobody reads has to hear its signals nevertheless.
///
/// # Errors
/// The system's; `WouldBlock` if there is no room.
pub(super) fn write_if_room(fd: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut asked = [PollFd::new(&fd, PollFlags::OUT)];
        if matches!(rustix::event::poll(&mut asked, Some(&ROOM_PATIENCE)), Ok(0)) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match rustix::io::write(&fd, &bytes[..bytes.len().min(PIPE_ATOMIC)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes at once, if there is no thread.
pub(super) fn write_now(output: &Output, bytes: &[u8]) -> bool {
    match &output.sink {
        Sink::File => write_if_room(&**output.fd.load(), bytes).is_ok(),
        Sink::Socket(_) => send(output, bytes).is_ok(),
        // A process without loops keeps no log in memory.
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
        assert_eq!(Sink::of("secrets:/var/log/x"), Sink::File);
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
