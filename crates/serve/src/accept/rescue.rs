//! Rescue of connections from the own socket (`reuseport`) of a loop that is late.
//!
//! With one socket for each loop, the kernel assigns a connection to a loop before it knows whether that loop has time:
//! during one slow step, connections wait that another loop could serve. All sockets are in this process, so a thread
//! that finds a loop in the same poll for longer than [`LATE`] accepts from that loop's sockets and hands the
//! connections to the others.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::{accept, give};
use crate::listen::ListenSpec;
use crate::shared::Shared;

/// A loop that has been in one poll for longer than this is late.
pub const LATE: Duration = Duration::from_millis(5);

/// How often the loops are checked.
const PERIOD: Duration = Duration::from_millis(5);

/// The most connections taken from one socket at a time.
const BATCH: usize = 64;

/// A socket that only one loop accepts from.
pub struct Shard {
    /// The index of the loop.
    pub index: usize,
    /// The specification of the socket.
    pub spec: Arc<ListenSpec>,
    /// The socket.
    pub fd: Arc<OwnedFd>,
}

/// The sockets that are watched; replaced with each configuration.
pub type Shards = ArcSwap<Vec<Shard>>;

/// Starts the watching thread. It ends when the worker is gone.
///
/// # Errors
/// The thread could not be made.
pub fn start(shared: &Arc<Shared>, shards: &Arc<Shards>) -> std::io::Result<()> {
    let (shared, shards) = (Arc::downgrade(shared), Arc::downgrade(shards));
    std::thread::Builder::new().name("rescue".to_owned()).spawn(move || watch(&shared, &shards))?;
    Ok(())
}

fn watch(shared: &Weak<Shared>, shards: &Weak<Shards>) {
    loop {
        std::thread::park_timeout(PERIOD);
        let (Some(shared), Some(shards)) = (shared.upgrade(), shards.upgrade()) else { return };
        for shard in shards.load().iter() {
            rescue(&shared, shard);
        }
    }
}

/// Takes over the connections that wait at a late loop's socket. Returns how many there were.
pub fn rescue(shared: &Shared, shard: &Shard) -> usize {
    let Some(late) = shared.loops.get(shard.index).filter(|stats| stats.in_poll_for() >= LATE) else { return 0 };
    let mut taken = 0;
    while taken < BATCH {
        let Some(helper) = give::helper(shared, shard.index, taken, |stats| stats.in_poll_for() < LATE) else { break };
        // There is no connection, or no descriptor left: the loop itself will handle that.
        let Ok(one) = accept(&shard.fd) else { break };
        if !give::give(shared, helper, one, shard.spec.clone()) {
            break;
        }
        late.rescued.add();
        taken += 1;
    }
    taken
}
