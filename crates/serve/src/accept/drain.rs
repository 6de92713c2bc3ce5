//! Loops that take no new connections, because an administrator wants it so, although others do.
//!
//! From a socket that all loops share, such a loop does not accept. From a socket of its own (`reuseport`), to which the
//! kernel gives connections all the same, it accepts for the others. It keeps the connections that it has, and its part of the
//! sockets for datagrams.

use tokio::sync::oneshot;

use super::loop_listeners;
use crate::loops::drained_loops::LastLoop;
use crate::loops::shared::SharedState;

/// Has a loop take no new connections, or take them again. The receiver is ready when the loop has heard of it.
///
/// # Errors
/// It is the last loop that takes connections; nothing has changed.
pub fn set(shared: &SharedState, index: usize, drained: bool) -> Result<oneshot::Receiver<()>, LastLoop> {
    let loops = shared.loops.load();
    shared.drained.set(index, drained, || shared.loops.load().serving.clone())?;
    let (heard, hears) = oneshot::channel();
    if let Some(remote) = loops.remotes.get(index) {
        remote.tell(move || {
            loop_listeners::of_this_loop(loop_listeners::LoopListeners::look_whether_drained);
            let _ = heard.send(());
        });
    }
    Ok(hears)
}
