//! What takes the connections of listening sockets on a loop: `http`, and whatever else speaks a protocol.

use std::rc::Rc;
use std::time::Instant;

use freerun_transport::Transport;

use crate::address::Address;
use crate::listen::ListenSpec;
use crate::loop_local::LoopLocal;

/// A connection that was just accepted.
pub struct Accepted {
    /// Serial number in the worker, `$connection`.
    pub number: u64,
    /// The byte stream.
    pub transport: Transport,
    /// The address that it came from.
    pub peer: Address,
    /// How the listening socket was made.
    pub listen: LoopLocal<ListenSpec>,
    /// Whether it may be served at once, as far as what it has sent goes: it is accepted as the last step of a task's poll, or
    /// several times there. It has its turn soon otherwise.
    pub now: bool,
}

/// What came of asking a connection to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The connection that has been idle longest was asked.
    One,
    /// Nobody yet: there is one that may be asked from this time on.
    Later(Instant),
    /// Nobody: none is idle.
    Nobody,
}

/// What serves connections on one loop. A listening socket names it by [`ListenSpec::service`].
pub trait Service {
    /// The name, as [`ListenSpec::service`] has it.
    fn name(&self) -> &'static str;

    /// Takes a connection over. It is counted in the loop's [`Admission`](crate::loop_state::admission::Admission) already; the
    /// service says there when it has ended.
    fn accept(self: Rc<Self>, accepted: Accepted);

    /// Another generation counts for what begins from now on.
    fn renew(self: Rc<Self>);

    /// The worker is ending: closes connections that only wait, and lets end what runs.
    fn drain(self: Rc<Self>);

    /// Asks the connection that has been idle longest to close.
    fn close_oldest(&self) -> Asked;

    /// Descriptors or memory are short: gives back what is held only to be faster.
    fn give_back(&self);

    /// Lets go of connections without closing them: the loop is ending, and they hold on to its state.
    fn forget(&self);
}

/// Makes a service for the loop that it is called on.
pub type MakeService = fn(&Rc<crate::loop_state::LoopState>) -> Rc<dyn Service>;
