//! A service takes the connections of listening sockets on a loop, such as `http` or another protocol.

use std::rc::Rc;
use std::time::Instant;

use freerun_transport::Transport;

use crate::address::Address;
use crate::listen::ListenSpec;
use crate::loop_local::LoopLocal;

/// A connection that was just accepted.
pub struct Accepted {
    /// The serial number in the worker, `$connection`.
    pub number: u64,
    /// The byte stream.
    pub transport: Transport,
    /// The address that the connection came from.
    pub peer: Address,
    /// The specification of the listening socket.
    pub listen: LoopLocal<ListenSpec>,
    /// Whether its first bytes may be served at once: it is accepted as the last step of a task's poll, or as one of
    /// several there. Otherwise its task runs soon.
    pub now: bool,
}

/// The result of asking a connection to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The connection that has been idle longest was asked.
    One,
    /// No connection was asked yet: one may be asked from this time on.
    Later(Instant),
    /// No connection was asked, because none is idle.
    Nobody,
}

/// A service for connections on one loop. A listening socket names it by [`ListenSpec::service`].
pub trait Service {
    /// The name, as in [`ListenSpec::service`].
    fn name(&self) -> &'static str;

    /// Takes a connection over. It is counted in the loop's [`Admission`](crate::loop_state::admission::Admission)
    /// already; the service reports there when it has ended.
    fn accept(self: Rc<Self>, accepted: Accepted);

    /// Notes that requests use another generation from now on.
    fn renew(self: Rc<Self>);

    /// Closes connections that only wait, and lets running requests end, because the worker is shutting down.
    fn drain(self: Rc<Self>);

    /// Asks the connection that has been idle longest to close.
    fn close_oldest(&self) -> Asked;

    /// Frees memory and descriptors that are kept only for speed, because they have run short.
    fn give_back(&self);

    /// Drops connections without closing them: the loop is ending, and they hold on to its state.
    fn forget(&self);
}

/// Makes a service for the loop that it is called on.
pub type MakeService = fn(&Rc<crate::loop_state::LoopState>) -> Rc<dyn Service>;
