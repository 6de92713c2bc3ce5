//! Receiving datagrams on one loop.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use freerun_runtime::log::{Errno as ShowErrno, Level};
use freerun_runtime::loops;
use freerun_runtime::net::udp::{BATCH, Datagrams, ReceivedDatagrams};
use freerun_runtime::stats::Counter;
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::loop_listeners::LoopListeners;
use super::{REST, loop_listeners};
use crate::accept::datagrams::client_key::ClientKind;
use crate::accept::datagrams::datagram_copy::CopiedDatagrams;
use crate::accept::datagrams::directory::{Directory, ReadingRight, SocketPart};
use crate::accept::datagrams::{DatagramListener, SharedPart, SocketPlace};
use crate::accept::service::Service;
use crate::listen::ListenSpec;
use crate::loops::local::LoopLocal;
use crate::loops::shared::SharedState;
use crate::loops::state::LoopState;

/// Time for which a loop goes on sending the answers that come to its sessions, when another one reads their socket.
const ANSWERS: Duration = Duration::from_secs(5);

/// A socket to receive from.
pub(super) struct Socket {
    /// The specification of the socket.
    pub(super) spec: LoopLocal<ListenSpec>,
    /// The socket.
    pub(super) fd: Arc<OwnedFd>,
    /// Facts that other loops share about its clients, if there are others.
    pub(super) shared: Option<SharedPart>,
    /// Its place among the sockets of the address.
    pub(super) place: SocketPlace,
}

/// A loop's part in receiving from an address.
pub(super) struct DatagramReceiver {
    /// The socket.
    pub(super) listener: Rc<DatagramListener>,
    service: Rc<dyn Service>,
    stop: Notify,
    /// Notified when the socket is another one.
    replaced: Notify,
    /// The address is not listened at any more, and connections of QUIC are there.
    pub(super) is_retiring: Cell<bool>,
}

impl DatagramReceiver {
    /// Starts receiving on this loop.
    pub(super) fn start(loop_state: &Rc<LoopState>, socket: Socket, service: Rc<dyn Service>) -> Rc<DatagramReceiver> {
        if let Some(SharedPart { part, .. }) = &socket.shared {
            part.set_reader(loop_state.index);
        }
        let receiving = DatagramReceiver::without_reading(loop_state, socket, service);
        loops::spawn(0, "receiving datagrams", receive(loop_state.clone(), receiving.clone()));
        receiving
    }

    /// Takes part in the sessions at a socket that another loop reads: what comes to them is handed over by that loop.
    pub(super) fn without_reading(
        loop_state: &Rc<LoopState>,
        socket: Socket,
        service: Rc<dyn Service>,
    ) -> Rc<DatagramReceiver> {
        let Socket { spec, fd, shared, place } = socket;
        let listener = DatagramListener::new(spec, fd, shared);
        listener.set_place(place);
        listener.tell(loop_state);
        let receiving = Rc::new(DatagramReceiver {
            listener,
            service,
            stop: Notify::new(),
            replaced: Notify::new(),
            is_retiring: Cell::new(false),
        });
        let listener = receiving.listener.clone();
        loops::spawn(0, "sending datagrams", async move {
            poll_fn(|context| listener.poll_send(context)).await;
        });
        receiving
    }

    /// Uses another descriptor of the socket, whose options have changed.
    pub(super) fn replace(&self, spec: LoopLocal<ListenSpec>, fd: Arc<OwnedFd>) {
        self.listener.replace(spec, fd);
        self.replaced.notify_one();
    }

    /// Ends receiving. Sessions still send what is on its way. Connections of QUIC need their clients' packets for that: such
    /// a socket is read as long as the loop runs.
    pub(super) fn drain(&self) {
        if !self.listener.spec().quic {
            self.stop.notify_one();
        }
        self.service.clone().drain_datagrams(&self.listener);
    }

    /// Whether there are connections of QUIC at the address, on whichever loop.
    pub(super) fn has_connections(&self) -> bool {
        self.listener.spec().quic && self.listener.connections().load(Relaxed) > 0
    }

    /// Whether the newest configuration listens at the address.
    pub(super) fn is_listened_at(&self, loop_state: &LoopState) -> bool {
        let spec = self.listener.spec();
        loop_state.generation().listeners.iter().any(|other| other.is_same_socket(&spec))
    }

    /// Looks whether this process reads the socket, or another one does.
    pub(super) fn look_who_reads(&self, loop_state: &LoopState) {
        if self.is_read_elsewhere(loop_state) {
            // The kernel is not to wake this loop for what others read.
            self.listener.send_by_own_descriptor();
        }
        self.replaced.notify_one();
    }

    /// Whether another process reads the socket.
    fn is_read_elsewhere(&self, loop_state: &LoopState) -> bool {
        let spec = self.listener.spec();
        spec.quic && loop_state.shared.boxes.get().is_some_and(|boxes| boxes.is_read_elsewhere(&spec.name))
    }

    /// Ends receiving, because another loop reads the socket from now on. Connections still send by it.
    pub(super) fn stop_reading(&self) {
        self.listener.set_unread();
        self.stop.notify_one();
    }

    /// Ends receiving, because another loop reads the socket from now on: sessions end as soon as they have their answers, and
    /// after a while in any case. Connections of QUIC go on: the other loop passes on what comes for them.
    pub(super) fn leave(self: &Rc<Self>) {
        if self.listener.spec().quic {
            return self.stop_reading();
        }
        self.stop.notify_one();
        self.service.clone().drain_datagrams(&self.listener);
        if let Some(SharedPart { directory, part }) = self.listener.shared().filter(|shared| shared.has_no_socket()) {
            directory.forget_strays(part.number);
        }
        let receiving = self.clone();
        loops::spawn(0, "leaving a socket", async move {
            freerun_runtime::timer::sleep(ANSWERS).await;
            receiving.service.clone().end_datagrams(&receiving.listener);
            receiving.listener.end();
        });
    }

    /// Goes on without reading, by another descriptor if the socket's options have changed. False if the address is not listened on
    /// any more: the sessions end.
    pub(super) fn go_on(&self) -> bool {
        match self.listener.shared().and_then(|shared| shared.directory.answers_by()) {
            None => {
                self.end();
                false
            }
            Some(socket) => {
                if !self.listener.spec().is(&socket.spec) {
                    self.replace(LoopLocal::new(socket.spec.clone()), socket.fd.clone());
                }
                true
            }
        }
    }

    /// Ends receiving, and the sessions of the service at this address.
    pub(super) fn end(&self) {
        self.stop.notify_one();
        self.service.clone().end_datagrams(&self.listener);
        self.listener.end();
    }

    fn serve<'r>(&self, mut received: impl Iterator<Item = ReceivedDatagrams<'r>>) {
        self.service.clone().datagrams(&self.listener, &mut received);
    }

    /// Serves the datagrams that were read from the socket by this right. Datagrams of strays go to the loops that have their
    /// sessions, before anybody else reads, and so in their order. Sessions may take long to begin: others may read on meanwhile.
    fn take<'r>(
        &self,
        loop_state: &LoopState,
        reading: Option<ReadingRight<'_>>,
        received: impl Iterator<Item = ReceivedDatagrams<'r>>,
    ) {
        let Some(SharedPart { directory, part }) =
            self.listener.shared().filter(|shared| shared.directory.has_strays())
        else {
            drop(reading);
            return self.serve(received);
        };
        let mut own = SmallVec::<[ReceivedDatagrams<'r>; BATCH]>::new();
        let mut others: Vec<(usize, Vec<CopiedDatagrams>)> = Vec::new();
        for one in received.flat_map(|one| directory.kind().separate(one)) {
            match directory.stray(&one).filter(|number| *number != part.number) {
                None => own.push(one),
                Some(number) => match others.iter_mut().find(|(known, _)| *known == number) {
                    Some((_, batch)) => batch.push(CopiedDatagrams::of(&one)),
                    None => others.push((number, vec![CopiedDatagrams::of(&one)])),
                },
            }
        }
        for (number, batch) in others {
            if let Some(part) = directory.part(number) {
                hand_over(&loop_state.shared, SharedPart { directory: directory.clone(), part }, batch);
            }
        }
        drop(reading);
        self.serve(own.into_iter());
    }

    /// Serves datagrams that another thread has read for this loop. Clients without a session afterwards are strays no more.
    fn take_handed(&self, batch: &[CopiedDatagrams]) {
        self.serve(batch.iter().map(CopiedDatagrams::received));
        let Some(shared) = self.listener.shared() else { return };
        forget_unused(shared, batch);
    }

    /// Reads the socket as soon as there is something to read, and serves that.
    fn poll_read(&self, loop_state: &LoopState, socket: &Datagrams, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(SharedPart { part, .. }) = self.listener.shared().filter(|shared| !shared.directory.is_one()) else {
            return socket.poll_receive(context, BATCH, |received| self.take(loop_state, None, received.iter()));
        };
        ready!(socket.poll_readable(context))?;
        let Some(mut reading) = part.try_read() else {
            // Somebody else is reading, which takes a moment: other tasks have their turn meanwhile.
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        let kept = reading.take_kept();
        if !kept.is_empty() {
            self.take_kept(loop_state, part, reading, &kept);
            return Poll::Ready(Ok(()));
        }
        socket.poll_receive(context, BATCH, |received| {
            let _reserved = part.reserve(received.iter());
            self.take(loop_state, Some(reading), received.iter());
        })
    }

    /// Serves what others have read and left for this loop.
    fn take_left(&self, loop_state: &LoopState) {
        let Some(SharedPart { part, .. }) = self.listener.shared() else { return };
        let Some(mut reading) = part.try_read() else { return };
        let kept = reading.take_kept();
        if !kept.is_empty() {
            self.take_kept(loop_state, part, reading, &kept);
        }
    }

    /// Serves the datagrams that others have read and left for this loop; `reading` is the right to take them.
    fn take_kept(
        &self,
        loop_state: &LoopState,
        part: &SocketPart,
        reading: ReadingRight<'_>,
        kept: &[CopiedDatagrams],
    ) {
        let _reserved = part.reserve(kept.iter().map(CopiedDatagrams::received));
        self.take(loop_state, Some(reading), kept.iter().map(CopiedDatagrams::received));
    }

    /// Waits until others have left something for this loop.
    async fn left(&self) {
        match self.listener.shared() {
            Some(shared) => shared.part.left.notified().await,
            None => std::future::pending().await,
        }
    }
}

/// Hands datagrams over to the loop that has this part, and the sessions that they belong to, or is to begin them. Too many of
/// them are lost, as in a network that has no room.
pub(super) fn hand_over(shared: &SharedState, to: SharedPart, batch: Vec<CopiedDatagrams>) {
    let (count, datagrams) = (batch.len(), CopiedDatagrams::datagrams(&batch));
    if !to.part.send(count) {
        return lost(shared, &to.directory).add_n(datagrams);
    }
    let (part, directory) = (to.part.clone(), to.directory.clone());
    let told = loop_listeners::tell_listeners(shared, part.reader(), move |listeners| {
        to.part.arrived(count);
        take_handed(listeners, to, batch);
    });
    if !told {
        part.arrived(count);
        lost(shared, &directory).add_n(datagrams);
    }
}

/// The number of datagrams from clients at this address and others like it that were lost.
fn lost<'s>(shared: &'s SharedState, directory: &Directory) -> &'s Counter {
    match directory.kind() {
        ClientKind::Sessions => &shared.sessions.lost_from_clients,
        ClientKind::Connections => &shared.quic.lost_from_clients,
    }
}

/// Serves datagrams that another thread has read, on the loop that they were handed over to.
fn take_handed(listeners: &LoopListeners, at: SharedPart, batch: Vec<CopiedDatagrams>) {
    if let Some(receiving) = listeners.receiving_for(&at) {
        return receiving.take_handed(&batch);
    }
    let (shared, index) = (listeners.shared(), listeners.index());
    if at.part.reader() != index {
        // Another loop has the part since.
        return hand_over(shared, at, batch);
    }
    // The address is not listened on any more, or this loop is about to end.
    forget_unused(&at, &batch);
    lost(shared, &at.directory).add_n(CopiedDatagrams::datagrams(&batch));
}

/// Forgets that the senders of these datagrams are strays here, unless they have sessions.
fn forget_unused(at: &SharedPart, batch: &[CopiedDatagrams]) {
    batch.iter().for_each(|one| at.directory.forget_if_unused(&one.received(), at.part.number));
}

/// Receives datagrams until told to stop.
async fn receive(loop_state: Rc<LoopState>, receiving: Rc<DatagramReceiver>) {
    let DatagramReceiver { listener, stop, replaced, .. } = &*receiving;
    let mut stopped = pin!(stop.notified());
    loop {
        if receiving.is_read_elsewhere(&loop_state) {
            tokio::select! {
                biased;
                () = &mut stopped => return,
                () = replaced.notified() => continue,
                () = receiving.left() => {
                    receiving.take_left(&loop_state);
                    continue;
                }
            }
        }
        let socket = listener.socket();
        let received = tokio::select! {
            biased;
            () = &mut stopped => return,
            () = replaced.notified() => continue,
            () = receiving.left() => {
                receiving.take_left(&loop_state);
                Ok(())
            }
            received = poll_fn(|context| receiving.poll_read(&loop_state, &socket, context)) => received,
        };
        if let Err(error) = received {
            failed(&loop_state, &error);
            tokio::select! {
                () = &mut stopped => return,
                () = freerun_runtime::timer::sleep(REST) => {}
            }
        }
        loops::yield_now().await;
    }
}

/// Logs that nothing could be received: the kernel has no memory, or the loop no place in its epoll instance. A socket
/// that is not connected has no other errors.
fn failed(loop_state: &LoopState, error: &io::Error) {
    let error = ShowErrno(error);
    loop_state.generation().error_log.write(Level::Alert, None, format_args!("recvmmsg() failed ({error})"));
}
