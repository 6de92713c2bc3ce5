//! Accepting connections on one loop.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::log::{Errno as ShowErrno, Level};
use freerun_runtime::{loops, net};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use tokio::sync::{Mutex, Notify};

use crate::here::Here;
use crate::likely::{Likely, Sampled};
use crate::listen::ListenSpec;
use crate::request::Address;
use crate::worker::LoopState;

/// How long accepting rests after the process ran out of descriptors: nginx's `accept_mutex_delay`.
pub const REST: Duration = Duration::from_millis(500);

/// How many connections one loop accepts in a row with `multi_accept on`, before it looks after the others again.
const BATCH: usize = 64;

/// How many connections one loop accepts in a row without it, as long as each of them is over at once, its request answered.
/// One that stays lets others have their turn.
const IN_A_ROW: usize = 8;

/// How many connections one loop accepts before another one has the turn (`accept_mutex on`): handing it over wakes a thread,
/// and for each connection that costs more than accepting it.
const TURN: usize = 16;

/// What a connection that accept4(2) found counts, and one that it looked for in vain: that costs five times as much as asking
/// first.
const FOUND: u8 = 1;
const MISSED: u8 = 4;

/// A listening socket as the loops share it.
pub struct Listener {
    /// How it was made.
    pub spec: Here<ListenSpec>,
    /// The socket.
    pub fd: Arc<OwnedFd>,
    /// `accept_mutex`: held by the loop that is waiting for the next connection.
    pub turn: Arc<Mutex<()>>,
    /// Set for the sockets of `reuseport`: only this loop accepts from it.
    pub only_loop: Option<usize>,
}

/// Accepts until told to stop.
pub async fn run(home: Rc<LoopState>, listener: Rc<Listener>, stop: Rc<Notify>) {
    // A loop that waits for its turn must not be told again and again meanwhile.
    let takes_turns = home.shared.accept_mutex && listener.only_loop.is_none();
    let registered = match net::Listening::new(listener.fd.clone(), !takes_turns) {
        Ok(registered) => registered,
        Err(error) => {
            let error = ShowErrno(&error);
            let generation = home.generation();
            generation.error_log.write(Level::Alert, None, format_args!("epoll_ctl() failed ({error})"));
            return;
        }
    };
    let stopped = stop.notified();
    let mut stopped = std::pin::pin!(stopped);
    let mut held = None;
    let mut accepted = 0;
    // Whether an event of epoll has told of a connection that was not asked for yet; and how often there is one then, and behind
    // one that was accepted.
    let mut is_told = true;
    let (told, behind) = (Likely::new(FOUND, MISSED), Sampled::new(FOUND, MISSED));
    loop {
        if home.is_full() {
            held = None;
            // Nobody has to leave before somebody waits.
            tokio::select! {
                () = connection_waits(&registered) => {}
                () = &mut stopped => return,
            }
            rest(&registered, takes_turns, true);
            while !home.has_room() {
                tokio::select! {
                    () = home.wait_for_room() => {}
                    () = &mut stopped => return,
                }
            }
            rest(&registered, takes_turns, false);
        }
        let waiting = async {
            if held.is_none() && takes_turns {
                held = Some(listener.turn.lock().await);
                accepted = 0;
            }
            registered.readable().await
        };
        tokio::select! {
            Ok(()) = waiting => {}
            () = &mut stopped => return,
            else => return,
        }
        let at_once = !home.shared.multi_accept;
        let batch = if at_once { IN_A_ROW } else { BATCH };
        for _ in 0..batch {
            if !home.has_room() {
                break;
            }
            // Where epoll tells each time, it may do so.
            if !is_told && !takes_turns && !behind.pays() {
                break;
            }
            let accepted_one = accept_if(&listener.fd, if is_told { told.is() } else { behind.is_likely() });
            match is_told {
                true => told.came_out(accepted_one.is_ok()),
                false => behind.came_out(accepted_one.is_ok()),
            }
            match accepted_one {
                Ok((fd, peer)) => {
                    is_told = false;
                    accepted += 1;
                    let stays = home.accepted(fd, peer, &listener.spec, at_once);
                    if stays && at_once {
                        break;
                    }
                }
                Err(Errno::AGAIN) => {
                    registered.clear();
                    is_told = true;
                    break;
                }
                // The client gave up in the queue, or the network reported trouble with it: the next one may be fine.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::HOSTUNREACH | Errno::NETUNREACH) => {}
                Err(error) => {
                    held = None;
                    home.accept_failed(error);
                    rest(&registered, takes_turns, true);
                    tokio::select! {
                        () = freerun_runtime::timer::sleep(REST) => {}
                        () = &mut stopped => return,
                    }
                    rest(&registered, takes_turns, false);
                    break;
                }
            }
        }
        // With more in the queue the socket is still ready, or told of again; the connections just accepted go first.
        if !takes_turns {
            registered.clear();
            is_told = true;
        }
        if accepted >= TURN {
            held = None;
        }
        loops::yield_now().await;
    }
}

/// Waits until a connection waits to be accepted; for good where that cannot be told.
async fn connection_waits(registered: &net::Listening) {
    while registered.readable().await.is_ok() {
        if net::can_be_read(registered) {
            return;
        }
        registered.clear();
    }
    std::future::pending().await
}

/// Accepts one connection, where there is one: accept4(2) makes a socket and a file before it looks, so where it mostly finds
/// nobody poll(2) is asked first, at a fraction of the cost.
fn accept_if(socket: &OwnedFd, is_likely: bool) -> Result<(OwnedFd, Address), Errno> {
    if is_likely || net::can_be_read(socket) { accept(socket) } else { Err(Errno::AGAIN) }
}

/// Has events of new connections stop while none is accepted, or go on again. Where loops take turns, each event comes once anyway.
fn rest(registered: &net::Listening, takes_turns: bool, rests: bool) {
    if !takes_turns {
        registered.rest(rests);
    }
}

/// Accepts one connection.
///
/// # Errors
/// What `accept4(2)` answers.
pub fn accept(socket: &OwnedFd) -> Result<(OwnedFd, Address), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (fd, peer) = rustix::net::acceptfrom_with(socket, flags)?;
    let peer = match peer.and_then(|peer| SocketAddr::try_from(peer).ok()) {
        Some(mut address) => {
            // A client of an IPv6 socket that speaks IPv4 is an IPv4 client, in logs and rules.
            address.set_ip(address.ip().to_canonical());
            Address::Ip(address)
        }
        None => Address::Unix(Arc::from("unix:")),
    };
    Ok((fd, peer))
}

/// Starts accepting on this loop.
pub fn start(home: &Rc<LoopState>, listener: Rc<Listener>, stop: Rc<Notify>) {
    loops::spawn(0, "accepting", run(home.clone(), listener, stop));
}
