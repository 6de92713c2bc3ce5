//! Accepting connections on one loop, and the services that take them.

mod balance;
pub mod datagrams;
pub mod drain;
mod give;
pub mod loop_listeners;
pub mod loop_services;
mod other_processes;
mod receive;
pub mod rescue;
mod rescue_datagrams;
mod rescue_silent;
pub mod service;
pub mod worker;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use freerun_runtime::log::{Errno as ShowErrno, Level};
use freerun_runtime::{loops, net};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use tokio::sync::{Mutex, MutexGuard, Notify};

use crate::accept::datagrams::directory::Directory;
use crate::accept::loop_services::{LoopServices, Room};
use crate::accept::service::Service;
use crate::listen::ListenSpec;
use crate::listen::address::Address;
use crate::loops::local::LoopLocal;
use crate::loops::predictor::{SampledPredictor, SuccessPredictor};
use crate::loops::state::LoopState;

/// Pause of accepting after the process ran out of descriptors: nginx's `accept_mutex_delay`.
pub const REST: Duration = Duration::from_millis(500);

/// A loop that has been in one step for longer than this is late: others see to what waits for it.
const LATE: Duration = Duration::from_millis(5);

/// Number of connections that one loop accepts in a row with `multi_accept on`, before other tasks get their turn.
const BATCH: usize = 64;

/// Number of connections that one loop accepts in a row without it, as long as each of them ends at once, with its request
/// answered. After a connection that stays, other tasks get their turn.
const IN_A_ROW: usize = 8;

/// Number of connections that one loop accepts before another loop is to take the next ones. Handing over costs a system
/// call or two, and with `accept_mutex on` it wakes a thread.
const SHARE: usize = 16;

/// Number of waiting connections that a loop takes when it stops accepting, or closes when there is no room. It is the default
/// backlog, and a bound for the time it takes.
const LAST: usize = 511;

/// The longest wait of connections when there is no room and none is in sight; then they are closed. Most loads that are
/// too high last for a moment; those who wait for longer had better know.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time for which a loop without room leaves a connection to the others, before it looks whether one of them has taken it, or can
/// be given it.
const TAKEN: Duration = Duration::from_millis(10);

/// Pause of accepting before a service that is busy is asked again.
const BUSY: Duration = Duration::from_millis(5);

const _: () = assert!(IN_A_ROW < SHARE && SHARE <= BATCH, "who has to hand over the turn takes its share at once");
const _: () =
    assert!(BUSY.as_millis() < TAKEN.as_millis() && TAKEN.as_millis() < PATIENCE.as_millis(), "help comes first");

/// The weights of a connection that accept4(2) found, and of a call that found none: that costs five times as much as asking
/// first.
const FOUND: u8 = 1;
const MISSED: u8 = 4;

/// An address with its sockets, and the state that the loops share about them.
pub(crate) type BoundAddress = (Arc<ListenSpec>, Vec<Arc<OwnedFd>>, Arc<Between>);

/// The state that the loops which accept from a socket share.
#[derive(Default)]
pub struct Between {
    /// `accept_mutex`: the lock that is held by the loop that is notified of connections.
    turn: Mutex<()>,
    /// The index of that loop, plus one; 0: there is none.
    holder: AtomicUsize,
    /// Notified when a connection waits and the loop that the kernel has notified has no room: the kernel notifies no
    /// other loop. And when a loop is to take no more connections, or to take them again.
    look: Notify,
    /// Number of loops that accept from the socket.
    loops: AtomicUsize,
    /// Number of these loops that have no room.
    full: AtomicUsize,
    /// The loops that have the sessions of clients, for datagrams.
    directory: Option<Arc<Directory>>,
}

impl Between {
    /// The state of an address for datagrams.
    pub(crate) fn of(directory: Arc<Directory>) -> Between {
        Between { directory: Some(directory), ..Between::default() }
    }

    /// The loops that have the sessions of clients, for datagrams.
    pub(crate) fn directory(&self) -> Option<&Arc<Directory>> {
        self.directory.as_ref()
    }

    /// Whether a loop that is not counted in `full` may take a connection.
    fn some_have_room(&self) -> bool {
        self.full.load(Relaxed) < self.loops.load(Relaxed)
    }

    /// The loop that has the turn to accept.
    fn holder(&self) -> Option<usize> {
        self.holder.load(Relaxed).checked_sub(1)
    }

    /// Notes which loop has the turn to accept.
    fn hold(&self, index: usize) {
        self.holder.store(index + 1, Relaxed);
    }

    /// Has the loops look whether connections wait, those that the kernel has notified of none.
    fn have_looked_at(&self) {
        self.look.notify_waiters();
    }
}

/// Counts one more in a number, as long as this value lives.
struct CountGuard<'n>(&'n AtomicUsize);

impl<'n> CountGuard<'n> {
    fn new(number: &'n AtomicUsize) -> CountGuard<'n> {
        number.fetch_add(1, Relaxed);
        CountGuard(number)
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "one leaves that was not counted");
    }
}

/// A listening socket as the loops share it.
pub struct Listener {
    /// The specification of the socket.
    pub spec: LoopLocal<ListenSpec>,
    /// The socket.
    pub fd: Arc<OwnedFd>,
    /// The state that its loops share.
    pub between: Arc<Between>,
    /// Set for the sockets of `reuseport`: only this loop accepts from it.
    pub only_loop: Option<usize>,
    /// The service that takes its connections.
    pub service: Rc<dyn Service>,
}

/// A loop's turn to accept.
struct AcceptTurn<'m> {
    between: &'m Between,
    _held: MutexGuard<'m, ()>,
    /// Number of connections that the loop had when its turn began.
    open: usize,
}

impl<'m> AcceptTurn<'m> {
    /// Waits for the loop's turn.
    async fn of(loop_state: &LoopState, between: &'m Between) -> AcceptTurn<'m> {
        let held = between.turn.lock().await;
        between.hold(loop_state.index);
        AcceptTurn { between, _held: held, open: loop_state.admission.open() }
    }
}

impl Drop for AcceptTurn<'_> {
    fn drop(&mut self) {
        // The lock is released after this: the next loop's number is not overwritten.
        self.between.holder.store(0, Relaxed);
    }
}

/// A loop's part in accepting from a socket.
pub struct Acceptor {
    /// The socket.
    pub listener: Listener,
    /// The registration for the loop's notifications of connections.
    registered: net::ListeningSocket,
    stop: Notify,
}

impl Acceptor {
    /// Starts accepting on this loop.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn start(services: &Rc<LoopServices>, listener: Listener) -> std::io::Result<Rc<Acceptor>> {
        let registered = net::ListeningSocket::new(listener.fd.clone())?;
        let accepting = Rc::new(Acceptor { listener, registered, stop: Notify::new() });
        let (services, runs) = (services.clone(), accepting.clone());
        loops::spawn(0, "accepting", async move {
            run(&services, &runs).await;
            // As close to the end of the socket as can be.
            runs.take_the_last(&services);
        });
        Ok(accepting)
    }

    /// Stops accepting, after taking the connections that wait.
    pub fn end(&self, services: &LoopServices) {
        self.registered.rest();
        self.stop.notify_one();
        self.take_the_last(services);
    }

    /// Takes the connections that wait. With the socket's last descriptor they would be reset, and if another process has the
    /// socket too, possibly only this loop was notified of them.
    fn take_the_last(&self, services: &LoopServices) {
        for _ in 0..LAST {
            if services.loop_state.admission.is_full() || !net::can_be_read(&self.registered) {
                break;
            }
            match accept(&self.listener.fd) {
                Ok(one) => {
                    services.accepted(self.listener.service.clone(), one, &self.listener.spec, false);
                }
                Err(error) if is_of_one(error) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    services.accept_failed(error);
                    break;
                }
            }
        }
    }
}

impl Acceptor {
    /// Closes the connections that wait, as there is no room for them.
    fn close_the_waiting(&self, services: &LoopServices) {
        let admission = &services.loop_state.admission;
        for _ in 0..LAST {
            if !admission.is_full() || !net::can_be_read(&self.registered) {
                break;
            }
            match accept(&self.listener.fd) {
                Ok(_) => admission.drop_one(),
                Err(error) if is_of_one(error) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    services.accept_failed(error);
                    break;
                }
            }
        }
        admission.log_full(&services.loop_state.generation().error_log, false);
    }
}

/// Accepts connections until told to stop.
async fn run(services: &Rc<LoopServices>, accepting: &Acceptor) {
    let loop_state = &services.loop_state;
    let Acceptor { listener, registered, stop } = accepting;
    let between = &listener.between;
    let is_shared = listener.only_loop.is_none();
    let takes_turns = loop_state.shared.accept_mutex && is_shared;
    // A loop that waits for its turn is not notified: each connection would wake all loops.
    if takes_turns {
        registered.rest();
    }
    let _counted = CountGuard::new(&between.loops);
    let mut stopped = pin!(stop.notified());
    let mut look = pin!(between.look.notified());
    let mut turn = None;
    let mut since = 0;
    // How often there is a connection after an event of epoll, and another one behind an accepted one.
    let (told, behind) = (SuccessPredictor::new(FOUND, MISSED), SampledPredictor::new(FOUND, MISSED));
    loop {
        if loop_state.is_drained() && is_shared {
            registered.rest();
            turn = None;
            // For the other loops it is as if this one had no room.
            let _full = CountGuard::new(&between.full);
            tokio::select! {
                () = &mut stopped => return,
                () = &mut look => look.set(between.look.notified()),
            }
            continue;
        }
        let waiting = async {
            if takes_turns && turn.is_none() {
                turn = Some(AcceptTurn::of(loop_state, between).await);
            }
            go_on(loop_state, registered).await;
            registered.readable().await
        };
        tokio::select! {
            // `stopped` comes first: after the loop has left, the socket must not be registered anew.
            biased;
            () = &mut stopped => return,
            Ok(()) = waiting => {}
            () = &mut look => {
                look.set(between.look.notified());
                // A socket that is registered anew reports all waiting connections.
                registered.rest();
                continue;
            }
            else => return,
        }
        if loop_state.is_drained() {
            // It may have become so while a connection came.
            if is_shared {
                continue;
            }
            // The kernel gives connections to this socket all the same.
            registered.clear();
            if let Some(rest) = give::away(services, listener) {
                registered.rest();
                tokio::select! {
                    () = freerun_runtime::timer::sleep(rest) => {}
                    () = &mut stopped => return,
                }
            }
            loops::yield_now().await;
            continue;
        }
        if loop_state.admission.is_full() {
            // No connection has to leave before another one waits.
            registered.clear();
            if !net::can_be_read(registered) {
                continue;
            }
            registered.rest();
            turn = None;
            let full = CountGuard::new(&between.full);
            let mut in_vain_since = loops::now();
            while loop_state.admission.is_full() && net::can_be_read(registered) {
                // No connection has to leave before all loops are full, either. Others may have room although the socket is this
                // loop's alone.
                if !is_shared && give::away(services, listener).is_none() {
                    loops::yield_now().await;
                    continue;
                }
                let others = is_shared && between.some_have_room();
                match if others { Room::None } else { services.make_room() } {
                    Room::Free => break,
                    Room::Coming => in_vain_since = loops::now(),
                    Room::None => {}
                }
                if others && !takes_turns {
                    between.have_looked_at();
                    look.set(between.look.notified());
                }
                tokio::select! {
                    () = loop_state.admission.wait_for_room() => {}
                    () = freerun_runtime::timer::sleep(TAKEN), if others || !is_shared => {}
                    () = freerun_runtime::timer::sleep_until(in_vain_since + PATIENCE), if !others => {
                        accepting.close_the_waiting(services);
                        in_vain_since = loops::now();
                    }
                    () = &mut stopped => return,
                }
            }
            drop(full);
            continue;
        }
        if listener.service.is_busy(&listener.spec) {
            registered.rest();
            turn = None;
            tokio::select! {
                () = freerun_runtime::timer::sleep(BUSY) => {}
                () = &mut stopped => return,
            }
            continue;
        }
        // A loop that has the turn serves no connection at once: it may have to hand over the turn.
        let at_once = !loop_state.shared.multi_accept && !takes_turns;
        let batch = match () {
            () if at_once => IN_A_ROW,
            () if takes_turns => SHARE,
            () => BATCH,
        };
        let mut accepted = 0;
        for _ in 0..batch {
            // epoll reports each connection, and may do so.
            if loop_state.admission.is_full() || accepted > 0 && !behind.pays() {
                break;
            }
            let is_told = accepted == 0;
            let accepted_one = accept_if(&listener.fd, if is_told { told.is() } else { behind.is_likely() });
            if is_told {
                told.came_out(accepted_one.is_ok())
            } else {
                behind.came_out(accepted_one.is_ok())
            }
            match accepted_one {
                Ok(one) => {
                    accepted += 1;
                    let stays = services.accepted(listener.service.clone(), one, &listener.spec, at_once);
                    if stays && at_once {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(error) if is_of_one(error) => {}
                Err(error) => {
                    services.accept_failed(error);
                    registered.rest();
                    turn = None;
                    tokio::select! {
                        () = freerun_runtime::timer::sleep(REST) => {}
                        () = &mut stopped => return,
                    }
                    break;
                }
            }
        }
        // If more connections are queued, the socket is reported again; the accepted ones are served first.
        registered.clear();
        since += accepted;
        if let Some(AcceptTurn { open, .. }) = &turn {
            // There are more connections than the loop can handle, or it has its share of those that stay.
            if accepted >= SHARE || loop_state.admission.open() >= open + SHARE {
                registered.rest();
                turn = None;
            }
        } else if since >= SHARE && is_shared && !takes_turns && between.loops.load(Relaxed) > 1 {
            since = 0;
            // The loop is registered anew, behind the others.
            registered.rest();
        }
        loops::yield_now().await;
    }
}

/// Registers the loop for notifications, if it paused. If the kernel has no memory for that, or the user no watches
/// left (epoll_ctl(2)), it tries again.
async fn go_on(loop_state: &LoopState, registered: &net::ListeningSocket) {
    while let Err(error) = registered.go_on() {
        log_failure(loop_state, &error);
        freerun_runtime::timer::sleep(REST).await;
    }
}

/// Logs that the socket could not be registered.
pub fn log_failure(loop_state: &LoopState, error: &std::io::Error) {
    let error = ShowErrno(error);
    loop_state.generation().error_log.write(Level::Alert, None, format_args!("epoll_ctl() failed ({error})"));
}

/// Whether the error concerns one connection: its client gave up in the queue, or the network reported a problem. The
/// next connection may be fine.
fn is_of_one(error: Errno) -> bool {
    matches!(error, Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::HOSTUNREACH | Errno::NETUNREACH)
}

/// Accepts one connection, if there is one. accept4(2) makes a socket and a file before it looks; if it mostly finds no
/// connection, poll(2) is asked first, at a fraction of the cost.
fn accept_if(socket: &OwnedFd, is_likely: bool) -> Result<(OwnedFd, Address), Errno> {
    if is_likely || net::can_be_read(socket) { accept(socket) } else { Err(Errno::AGAIN) }
}

/// Accepts one connection.
///
/// # Errors
/// The error of `accept4(2)`.
pub fn accept(socket: &OwnedFd) -> Result<(OwnedFd, Address), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (fd, peer) = rustix::net::acceptfrom_with(socket, flags)?;
    let peer = match peer.and_then(|peer| SocketAddr::try_from(peer).ok()) {
        Some(mut address) => {
            // A client that uses IPv4 on an IPv6 socket is an IPv4 client, in logs and rules.
            address.set_ip(address.ip().to_canonical());
            Address::Ip(address)
        }
        None => Address::Unix(Arc::from("unix:")),
    };
    Ok((fd, peer))
}
