//! Receiving datagrams on one loop.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use freerun_runtime::log::{Errno as ShowErrno, Level};
use freerun_runtime::loops;
use freerun_runtime::net::udp::BATCH;
use tokio::sync::Notify;

use super::REST;
use crate::datagrams::DatagramListener;
use crate::listen::ListenSpec;
use crate::loop_local::LoopLocal;
use crate::loop_state::LoopState;
use crate::service::Service;

/// A loop's part in receiving from an address.
pub(super) struct Receiving {
    /// The socket.
    pub(super) listener: Rc<DatagramListener>,
    service: Rc<dyn Service>,
    stop: Notify,
    /// Notified when the socket is another one.
    replaced: Notify,
}

impl Receiving {
    /// Starts receiving on this loop.
    pub(super) fn start(
        loop_state: &Rc<LoopState>,
        spec: LoopLocal<ListenSpec>,
        fd: Arc<OwnedFd>,
        service: Rc<dyn Service>,
    ) -> Rc<Receiving> {
        let listener = DatagramListener::new(spec, fd);
        listener.tell(loop_state);
        let receiving = Rc::new(Receiving { listener, service, stop: Notify::new(), replaced: Notify::new() });
        loops::spawn(0, "receiving datagrams", receive(loop_state.clone(), receiving.clone()));
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

    /// Ends receiving. Sessions still send what is on its way.
    pub(super) fn drain(&self) {
        self.stop.notify_one();
        self.service.clone().drain_datagrams(&self.listener);
    }

    /// Ends receiving, and the sessions of the service at this address.
    pub(super) fn end(&self) {
        self.stop.notify_one();
        self.service.clone().end_datagrams(&self.listener);
        self.listener.end();
    }
}

/// Receives datagrams until told to stop.
async fn receive(loop_state: Rc<LoopState>, receiving: Rc<Receiving>) {
    let Receiving { listener, service, stop, replaced } = &*receiving;
    let mut stopped = pin!(stop.notified());
    loop {
        let socket = listener.socket();
        let received = tokio::select! {
            biased;
            () = &mut stopped => return,
            () = replaced.notified() => continue,
            received = poll_fn(|context| {
                socket.poll_receive(context, BATCH, |received| service.clone().datagrams(listener, received))
            }) => received,
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
/// that is not connected is told of nothing else.
fn failed(loop_state: &LoopState, error: &io::Error) {
    let error = ShowErrno(error);
    loop_state.generation().error_log.write(Level::Alert, None, format_args!("recvmmsg() failed ({error})"));
}
