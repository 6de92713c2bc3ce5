//! Passing on the datagrams of a batch: consecutive datagrams of one session leave with one call.

use std::rc::Rc;

use freerun_runtime::net::udp::{DatagramTarget, Runs};

use super::DatagramSession;

/// Datagrams of a batch that are to be passed on, all of one session. To be [flushed](Forwarder::flush) behind the last.
#[derive(Default)]
pub struct Forwarder<'a> {
    session: Option<Rc<DatagramSession>>,
    runs: Runs<'a>,
}

impl<'a> Forwarder<'a> {
    /// Appends a datagram, or several of `segment` bytes each. Datagrams of another session are sent first.
    pub(super) fn push(&mut self, session: &Rc<DatagramSession>, bytes: &'a [u8], segment: Option<usize>) {
        if !self.session.as_ref().is_some_and(|other| Rc::ptr_eq(other, session)) {
            self.flush();
            self.session = Some(session.clone());
        }
        self.runs.push(DatagramTarget::default(), bytes, segment);
    }

    /// Sends what there is.
    pub fn flush(&mut self) {
        if let Some(session) = self.session.take() {
            session.pass_on(&self.runs);
            self.runs.clear();
        }
    }
}
