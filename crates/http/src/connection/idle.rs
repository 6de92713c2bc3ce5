//! The idle connections of a loop, in the order in which their time is up.
//!
//! One task of the loop closes those whose time is up, so that a connection needs no timer of its own: neither its
//! memory, nor the cost of setting it after every request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use freerun_runtime::loops;
use tokio::sync::Notify;

use crate::request::Connection;
use crate::worker::LoopState;

/// When a connection's time is up, and a serial number.
pub type Key = (Instant, u64);

/// The idle connections of one loop.
#[derive(Default)]
pub struct Idle {
    connections: RefCell<BTreeMap<Key, Rc<Connection>>>,
    serial: Cell<u64>,
    /// When the closing task looks next; `None` while it does not run.
    next_look: Cell<Option<Instant>>,
    earlier: Notify,
}

/// A connection that nothing ever closes for its age is looked at this often all the same.
const FAR: Duration = Duration::from_secs(3600);

impl Idle {
    /// Enters a connection that is kept for `keep`. The key takes it out again.
    pub fn enter(&self, home: &Rc<LoopState>, connection: &Rc<Connection>, keep: Duration) -> Key {
        let now = loops::now();
        let key = (now.checked_add(keep).unwrap_or(now + FAR), self.serial.replace(self.serial.get() + 1));
        self.connections.borrow_mut().insert(key, connection.clone());
        home.stats.idle.add();
        match self.next_look.get() {
            None => {
                self.next_look.set(Some(key.0));
                let home = home.clone();
                loops::spawn(0, "closing idle connections", async move { home.idle.close_expired().await });
            }
            Some(look) if look > key.0 => self.earlier.notify_one(),
            Some(_) => {}
        }
        key
    }

    /// Takes a connection out.
    pub fn leave(&self, home: &LoopState, key: Key) {
        if self.connections.borrow_mut().remove(&key).is_some() {
            home.stats.idle.sub();
        }
    }

    /// Closes connections when their time is up; ends when there is none left.
    async fn close_expired(&self) {
        loop {
            let next = self.connections.borrow().keys().next().map(|(deadline, _)| *deadline);
            let Some(next) = next else { break };
            self.next_look.set(Some(next));
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {}
                () = self.earlier.notified() => continue,
            }
            let now = Instant::now();
            let expired: Vec<_> = {
                let connections = self.connections.borrow();
                connections.range(..=(now, u64::MAX)).map(|(_, connection)| connection.clone()).collect()
            };
            for connection in expired {
                connection.close_when_idle();
            }
            // The connections take themselves out when their tasks run, which is before this one runs again.
            tokio::task::yield_now().await;
        }
        self.next_look.set(None);
    }

    /// Asks the connection whose time is up first, and which was not asked yet, to close. `false`: there is none.
    pub fn close_oldest(&self) -> bool {
        let oldest = self.connections.borrow().values().find(|connection| !connection.is_closing()).cloned();
        oldest.is_some_and(|connection| {
            connection.close_when_idle();
            true
        })
    }

    /// Asks all to close.
    pub fn close_all(&self) {
        let all: Vec<_> = self.connections.borrow().values().cloned().collect();
        for connection in all {
            connection.close_when_idle();
        }
    }

    /// Lets go of them without closing: their loop is ending.
    pub fn forget(&self) {
        self.connections.borrow_mut().clear();
    }
}
