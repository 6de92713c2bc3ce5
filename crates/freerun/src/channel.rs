//! Messages with descriptors over the socket between master and worker.
//!
//! A frame is eight bytes of lengths (body, number of descriptors; little-endian `u32`), the body in postcard's format,
//! and the descriptors with SCM_RIGHTS (unix(7)), [`FDS_A_MESSAGE`] to each single byte. Lengths and body are sent with
//! one call, so that no reader wakes up for the lengths alone. Sizes are checked before anything is allocated for them. If a side stops in the middle of a frame, the other side gives up after
//! [`PATIENCE`]. Configurations come with private keys, so a body is overwritten before its memory is given back.

use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use freerun_serve::tls::files::{self, append_wiping};
use postcard::ser_flavors::Flavor;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::error::Error;

/// The number of descriptors that are sent with one byte; the kernel takes at most 253 (SCM_MAX_FD).
const FDS_A_MESSAGE: usize = 200;

/// The number of bytes of a frame's lengths.
const HEAD: usize = 8;

/// The longest time in which one read or write makes no progress.
const PATIENCE: Duration = Duration::from_secs(30);

/// The step in bytes of the body's buffer: its memory grows with the bytes that have come, not with the announced
/// length.
const STEP: usize = 1024 * 1024;

/// The limits of a received message.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of a body.
    pub body: usize,
    /// The most descriptors that come with it.
    pub fds: usize,
}

impl Limits {
    /// The limits for messages from the master: a configuration and its files of TLS at their largest (see
    /// `freerun_conf::tree::MAX_TOTAL`)
    /// and as many descriptors as a process can reasonably hold.
    pub const FROM_MASTER: Limits = Limits { body: 300 * 1024 * 1024 + files::MAX_TOTAL, fds: 65_536 };
    /// The limits for messages from the worker, which is less trusted: answers with one error text.
    pub const FROM_WORKER: Limits = Limits { body: 64 * 1024, fds: 0 };
}

/// An end of the connection between master and worker.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
    limits: Limits,
}

impl Channel {
    /// A pair: this process's end, which receives within `limits`, and the end for the other process.
    pub fn pair(limits: Limits) -> io::Result<(Channel, OwnedFd)> {
        let (mine, theirs) = UnixStream::pair()?;
        Ok((Channel::new(mine, limits)?, theirs.into()))
    }

    /// An end that another process has handed over.
    pub fn new(socket: UnixStream, limits: Limits) -> io::Result<Channel> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Channel { socket, limits })
    }

    /// Sends one message. Waits while the other side does not read, at most for [`PATIENCE`] a step.
    pub fn send<M: Serialize>(&self, message: &M, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let frame = postcard::serialize_with_flavor(message, Frame::default());
        let mut frame = frame.map_err(|error| Error::Message(error.to_string()))?;
        let body = length(frame.len() - HEAD)?;
        frame[..4].copy_from_slice(&body.to_le_bytes());
        frame[4..HEAD].copy_from_slice(&length(fds.len())?.to_le_bytes());
        (&self.socket).write_all(&frame).map_err(broken)?;
        for group in fds.chunks(FDS_A_MESSAGE) {
            self.send_fds(group)?;
        }
        Ok(())
    }

    /// Receives one message. [`Error::Gone`] when the other side has closed its end between messages.
    pub fn receive<M: DeserializeOwned>(&self) -> Result<(M, Vec<OwnedFd>), Error> {
        let mut head = [0; HEAD];
        (&self.socket).read_exact(&mut head).map_err(broken)?;
        let [a, b, c, d, e, f, g, h] = head;
        let size = u32::from_le_bytes([a, b, c, d]) as usize;
        let count = u32::from_le_bytes([e, f, g, h]) as usize;
        if size > self.limits.body || count > self.limits.fds {
            return Err(Error::Message(format!("{size} bytes with {count} descriptors are too much")));
        }
        let mut body = Zeroizing::new(Vec::new());
        let mut piece = Zeroizing::new(vec![0; size.min(STEP)]);
        while body.len() < size {
            let piece = &mut piece[..(size - body.len()).min(STEP)];
            (&self.socket).read_exact(piece).map_err(broken)?;
            append_wiping(&mut body, piece);
        }
        let mut fds = Vec::new();
        while fds.len() < count {
            self.receive_fds((count - fds.len()).min(FDS_A_MESSAGE), &mut fds)?;
        }
        let message = postcard::from_bytes(&body).map_err(|error| Error::Message(error.to_string()))?;
        Ok((message, fds))
    }

    fn send_fds(&self, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_A_MESSAGE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Error::Message("the descriptors do not fit".into()));
        }
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.socket, &[io::IoSlice::new(b"F")], &mut control, SendFlags::NOSIGNAL)
        });
        sent.map_err(|error| broken(error.into()))?;
        Ok(())
    }

    fn receive_fds(&self, wanted: usize, into: &mut Vec<OwnedFd>) -> Result<(), Error> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_A_MESSAGE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let got = rustix::io::retry_on_intr(|| {
            let mut slices = [io::IoSliceMut::new(&mut byte)];
            rustix::net::recvmsg(&self.socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)
        })
        .map_err(|error| broken(error.into()))?;
        let before = into.len();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                into.extend(fds);
            }
        }
        if got.bytes == 0 {
            return Err(Error::Gone);
        }
        // MSG_CTRUNC: the kernel dropped some descriptors, because this process may not open more.
        if got.flags.contains(ReturnFlags::CTRUNC) || into.len() - before != wanted || byte != *b"F" {
            let got = into.len() - before;
            return Err(Error::Message(format!(
                "{got} descriptors came instead of {wanted}; is RLIMIT_NOFILE too low?"
            )));
        }
        Ok(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A frame while its body is written behind the room for the lengths.
struct Frame(Zeroizing<Vec<u8>>);

impl Default for Frame {
    fn default() -> Frame {
        Frame(Zeroizing::new(vec![0; HEAD]))
    }
}

impl Flavor for Frame {
    type Output = Zeroizing<Vec<u8>>;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        append_wiping(&mut self.0, &[byte]);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        append_wiping(&mut self.0, bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Zeroizing<Vec<u8>>> {
        Ok(self.0)
    }
}

fn length(value: usize) -> Result<u32, Error> {
    u32::try_from(value).map_err(|_| Error::Message(format!("{value} does not fit")))
}

fn broken(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::Gone,
        _ => Error::call("socket between master and worker")(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    const SMALL: Limits = Limits { body: 100, fds: 10 };

    fn pair(limits: Limits) -> (Channel, Channel) {
        let (a, b) = Channel::pair(limits).unwrap();
        (a, Channel::new(b.into(), limits).unwrap())
    }

    #[test]
    fn bodies_and_descriptors_arrive_in_order() {
        let (a, b) = pair(Limits::FROM_MASTER);
        let zero = File::open("/dev/zero").unwrap();
        let null = File::open("/dev/null").unwrap();
        let fds: Vec<_> = (0..450).map(|i| if i % 3 == 0 { zero.as_fd() } else { null.as_fd() }).collect();
        let text = "x".repeat(3 * STEP + 17);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                a.send(&text, &fds).unwrap();
                a.send(&7_u8, &[]).unwrap();
            });
            let (body, got): (String, _) = b.receive().unwrap();
            assert_eq!(body, text);
            assert_eq!(got.len(), fds.len());
            for (i, fd) in got.into_iter().enumerate() {
                let device = File::from(fd).metadata().unwrap().rdev();
                let wanted = if i % 3 == 0 { &zero } else { &null };
                assert_eq!(device, wanted.metadata().unwrap().rdev(), "descriptor {i}");
            }
            let (body, got): (u8, _) = b.receive().unwrap();
            assert_eq!((body, got.len()), (7, 0));
        });
    }

    /// A socket that keeps the bytes of each call together shows the calls.
    #[test]
    fn lengths_and_body_leave_with_one_call() {
        let kind = rustix::net::SocketType::SEQPACKET;
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let (one, other) = rustix::net::socketpair(rustix::net::AddressFamily::UNIX, kind, flags, None).unwrap();
        Channel::new(one.into(), SMALL).unwrap().send(&"body", &[]).unwrap();
        let mut bytes = [0; 100];
        let count = UnixStream::from(other).read(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], [&[5, 0, 0, 0, 0, 0, 0, 0, 4][..], b"body"].concat());
    }

    #[test]
    fn the_end_is_told_apart_from_nonsense() {
        let (a, b) = pair(SMALL);
        drop(a);
        assert!(matches!(b.receive::<u8>(), Err(Error::Gone)));

        let (a, b) = pair(SMALL);
        a.send(&"not a number", &[]).unwrap();
        assert!(matches!(b.receive::<(u64, Vec<u64>)>(), Err(Error::Message(_))));
    }

    #[test]
    fn sizes_beyond_the_limits_are_refused_unread() {
        let (a, b) = pair(SMALL);
        a.send(&"y".repeat(101), &[]).unwrap();
        assert!(matches!(b.receive::<String>(), Err(Error::Message(text)) if text.contains("too much")));

        let (a, b) = pair(SMALL);
        let fd = File::open("/dev/null").unwrap();
        a.send(&1_u8, &[fd.as_fd(); 11]).unwrap();
        assert!(matches!(b.receive::<u8>(), Err(Error::Message(_))));
    }

    #[test]
    fn missing_descriptors_are_noticed() {
        let (a, b) = pair(SMALL);
        (&a.socket).write_all(&[1, 0, 0, 0, 1, 0, 0, 0, 9, b'F']).unwrap();
        assert!(matches!(b.receive::<u8>(), Err(Error::Message(_))));
    }
}
