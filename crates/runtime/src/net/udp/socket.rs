//! A UDP socket of a loop.

use std::cell::{Cell, OnceCell};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use freerun_sys::datagrams::{DatagramDetail, DatagramOptions, Receiver};
use rustix::io::Errno;

use super::datagram_buffers::{BATCH, with_receiver, with_sender};
use super::runs::{DatagramRun, DatagramTarget, Runs};
use crate::events::{Registration, Side};

/// A UDP socket of one loop, registered with it when it first has to wait. All methods take `&self`.
#[derive(Debug)]
pub struct Datagrams {
    fd: Arc<OwnedFd>,
    is_connected: bool,
    registered: OnceCell<Registration>,
    /// Whether the kernel takes runs of datagrams as one message on this way, as far as is known.
    takes_runs: Cell<bool>,
    /// The details that the caller requests with each datagram.
    known: Cell<DatagramDetail>,
}

/// Datagrams that could not be sent.
#[derive(Debug)]
pub struct UnsentDatagrams {
    /// Number of datagrams.
    pub count: usize,
    /// Target of the first of them.
    pub target: DatagramTarget,
    /// The reason; `WouldBlock`: the socket is full.
    pub error: io::Error,
}

/// Progress of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendProgress {
    /// All were sent, or could not be.
    Done,
    /// The socket is full; this number of runs were sent, or could not be.
    Full(usize),
}

impl Datagrams {
    /// Takes over a non-blocking UDP socket, which others may hold as well.
    pub fn new(fd: Arc<OwnedFd>) -> Datagrams {
        Datagrams::with(fd, false, DatagramDetail::All)
    }

    /// Takes over a non-blocking UDP socket that is connected: datagrams come from its peer alone, and their sender is not
    /// told.
    pub fn connected(fd: Arc<OwnedFd>) -> Datagrams {
        Datagrams::with(fd, true, DatagramDetail::Bytes)
    }

    fn with(fd: Arc<OwnedFd>, is_connected: bool, known: DatagramDetail) -> Datagrams {
        let registered = OnceCell::new();
        Datagrams { fd, is_connected, registered, takes_runs: Cell::new(true), known: Cell::new(known) }
    }

    /// Has the kernel put datagrams together that come in a row (`UDP_GRO`), for a peer that sends many. A kernel that does
    /// not know how delivers them one by one.
    pub fn gather(&self) {
        self.known.set(DatagramDetail::All);
        let _ = DatagramOptions { gro: true, ..DatagramOptions::default() }.apply(&*self.fd, false);
    }

    fn registration(&self) -> io::Result<&Registration> {
        if let Some(registered) = self.registered.get() {
            return Ok(registered);
        }
        let registered = Registration::new(&self.fd, Side::Read)?;
        Ok(self.registered.get_or_init(|| registered))
    }

    /// Takes up to `most` datagrams, or runs of them, that are there, and calls `use_them` with them. They are in memory
    /// that the loop lends: `use_them` copies those that have to stay.
    ///
    /// # Errors
    /// `WouldBlock` if there is none. On a connected socket, `ConnectionRefused` and the like tell that the peer did not
    /// take what was sent before (udp(7)); the socket can be used further.
    pub fn try_receive<T>(&self, most: usize, use_them: impl FnOnce(&Receiver) -> T) -> io::Result<T> {
        with_receiver(|receiver| {
            receiver.receive(&*self.fd, most, self.known.get())?;
            Ok(use_them(receiver))
        })
    }

    /// Takes datagrams like [`Datagrams::try_receive`], as soon as there are some.
    ///
    /// # Errors
    /// The errors of [`Datagrams::try_receive`], except `WouldBlock`; the registration with the loop failed.
    pub fn poll_receive<T>(
        &self,
        context: &mut Context<'_>,
        most: usize,
        use_them: impl FnOnce(&Receiver) -> T,
    ) -> Poll<io::Result<T>> {
        let registered = self.registration()?;
        // The memory is lent to the listening socket's task while its datagrams begin sessions, which ask here first.
        ready!(registered.poll(&self.fd, Side::Read, context))?;
        with_receiver(|receiver| {
            loop {
                ready!(registered.poll(&self.fd, Side::Read, context))?;
                match receiver.receive(&*self.fd, most, self.known.get()) {
                    Ok(count) => {
                        // Fewer than there was room for: the socket is empty, and the next event comes with the next
                        // datagram (epoll, edge-triggered).
                        if count < most.min(receiver.most()) {
                            registered.clear(Side::Read);
                        }
                        return Poll::Ready(Ok(use_them(receiver)));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => registered.clear(Side::Read),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        registered.forgive();
                        return Poll::Ready(Err(error));
                    }
                }
            }
        })
    }

    /// Waits until there may be a datagram, without taking it.
    ///
    /// # Errors
    /// Registration with the loop failed, or the loop is going away.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registration()?.poll(&self.fd, Side::Read, context)
    }

    /// Waits until the socket may take a datagram. One task waits at a time.
    ///
    /// # Errors
    /// Registration with the loop failed, or the loop is going away.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registration()?.poll(&self.fd, Side::Write, context)
    }

    /// Sends datagrams in their order. `failed` is called with those that could not be sent; the others are sent all the
    /// same.
    pub fn send(&self, runs: &Runs<'_>, mut failed: impl FnMut(UnsentDatagrams)) {
        let mut part = 0;
        let pieces: Vec<_> = runs
            .runs
            .iter()
            .zip(&runs.counts)
            .map(|(run, count)| {
                let parts = &runs.parts[part..part + count];
                part += count;
                (run, parts)
            })
            .collect();
        debug_assert!(part == runs.parts.len(), "bytes are left out");
        if let SendProgress::Full(at) = self.send_all(&pieces, &mut failed) {
            let count = pieces[at..].iter().map(|(run, _)| run.count).sum();
            let target = pieces[at..].first().map(|(run, _)| run.target).unwrap_or_default();
            failed(UnsentDatagrams { count, target, error: io::ErrorKind::WouldBlock.into() });
        }
    }

    /// Sends runs in their order; see [`Datagrams::send`].
    pub(super) fn send_all(
        &self,
        runs: &[(&DatagramRun, &[IoSlice<'_>])],
        mut failed: impl FnMut(UnsentDatagrams),
    ) -> SendProgress {
        let mut at = 0;
        while at < runs.len() {
            if !self.takes_runs.get() && runs[at].0.count > 1 {
                if self.send_singly(runs[at], &mut failed) == SendProgress::Full(0) {
                    return self.full(at);
                }
                at += 1;
                continue;
            }
            let end = runs.len().min(at + BATCH);
            let messages: Vec<_> = runs[at..end].iter().map(|(run, parts)| run.message(parts)).collect();
            match with_sender(|sender| sender.send(&*self.fd, &messages)) {
                Ok(sent) => {
                    debug_assert!(sent > 0, "sendmmsg has sent nothing and found no error");
                    at += sent.max(1);
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => return self.full(at),
                    Some(Errno::INTR) => {}
                    Some(Errno::INVAL | Errno::MSGSIZE | Errno::IO) if runs[at].0.count > 1 => {
                        // A device that cannot compute checksums takes no runs at all; the others depend on the way to
                        // the peer, whose packets are smaller than these datagrams.
                        if Errno::from_io_error(&error) == Some(Errno::IO) {
                            self.takes_runs.set(false);
                        }
                        if self.send_singly(runs[at], &mut failed) == SendProgress::Full(0) {
                            return self.full(at);
                        }
                        at += 1;
                    }
                    _ => {
                        failed(runs[at].0.unsent(runs[at].0.count, error));
                        at += 1;
                    }
                },
            }
        }
        SendProgress::Done
    }

    fn full(&self, at: usize) -> SendProgress {
        // The next event tells of room.
        if let Ok(registered) = self.registration() {
            registered.clear(Side::Write);
        }
        SendProgress::Full(at)
    }

    /// Sends the datagrams of a run one by one. `Full(0)`: none could be sent yet; if others are left when the socket is
    /// full, they are lost.
    fn send_singly(
        &self,
        (run, parts): (&DatagramRun, &[IoSlice<'_>]),
        failed: &mut impl FnMut(UnsentDatagrams),
    ) -> SendProgress {
        // Each datagram is in one part.
        let bytes: Vec<_> = parts.iter().flat_map(|part| part.chunks(run.segment.max(1))).map(IoSlice::new).collect();
        let single = DatagramRun { count: 1, ..run.clone() };
        let messages: Vec<_> = bytes.iter().map(|one| single.message(std::slice::from_ref(one))).collect();
        let mut at = 0;
        while at < messages.len() {
            match with_sender(|sender| sender.send(&*self.fd, &messages[at..])) {
                Ok(sent) => at += sent.max(1),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if at > 0 {
                        failed(run.unsent(messages.len() - at, error));
                    }
                    return SendProgress::Full(at);
                }
                Err(error) => {
                    failed(run.unsent(1, error));
                    at += 1;
                }
            }
        }
        SendProgress::Done
    }
}

impl DatagramRun {
    /// A number of the run's datagrams that could not be sent.
    fn unsent(&self, count: usize, error: io::Error) -> UnsentDatagrams {
        UnsentDatagrams { count, target: self.target, error }
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        if let Some(registered) = self.registered.take() {
            if self.is_connected {
                registered.leave(&self.fd);
            } else {
                // The master has a listening socket, too, and after a reload another descriptor of it may be in use here.
                registered.leave_open(&self.fd);
            }
        }
    }
}
