//! Requests that wait until a server has room (`queue`).

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::Notify;

use crate::Millis;
use crate::group::{Group, NoPeer, Query, Tried};
use crate::lease::Lease;
use crate::random::Random;

/// How often one who waits looks by itself: a server may become available because time passes.
const LOOK: Duration = Duration::from_millis(100);

/// Who waits for a server of a group.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: AtomicU32,
    room: Notify,
}

/// A place in the queue.
struct Place<'q>(&'q Queue);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

impl Queue {
    /// A server has room: wakes who has waited longest.
    pub(crate) fn released(&self) {
        if self.waiting.load(SeqCst) > 0 {
            self.room.notify_one();
        }
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(SeqCst)
    }

    /// A place, and how many there were before; `None` if it is full.
    fn enter(&self, length: u32) -> Option<(Place<'_>, u32)> {
        let before =
            self.waiting.fetch_update(SeqCst, SeqCst, |count| if count < length { Some(count + 1) } else { None });
        before.ok().map(|before| (Place(self), before))
    }
}

impl Group {
    /// As [`Group::pick`]; where the group has a queue, waits in it for a server that has room. `query` is asked anew with
    /// the time that `clock` tells.
    ///
    /// # Errors
    /// No server: none that could be asked, the queue was full, or the time in it was over.
    pub async fn pick_or_wait(
        &self,
        query: &Query<'_>,
        random: &mut Random,
        tried: &mut Tried,
        clock: impl Fn() -> Millis,
    ) -> Result<Lease, NoPeer> {
        let mut ask = |now: Millis, tried: &mut Tried| {
            let query = Query { now, random: random.number(), ..*query };
            self.pick(&query, tried)
        };
        let queue = &self.state().queue;
        let Some(settings) = self.settings.queue else { return ask(query.now, tried) };
        // Who comes while others wait goes behind them.
        if queue.waiting() == 0 {
            match ask(query.now, tried) {
                Err(NoPeer::Wait) => {}
                answer => return answer,
            }
        }
        let (_place, before) = queue.enter(settings.length).ok_or(NoPeer::Wait)?;
        let end = query.now + settings.timeout.as_millis() as Millis;
        let mut room = std::pin::pin!(queue.room.notified());
        room.as_mut().enable();
        // What became free before we stood in the queue woke nobody.
        if before == 0 {
            match ask(clock(), tried) {
                Err(NoPeer::Wait) => {}
                answer => return answer,
            }
        }
        loop {
            let now = clock();
            if now >= end {
                return Err(NoPeer::Wait);
            }
            let most = Duration::from_millis(end - now).min(LOOK);
            // Who only looks keeps its place among those who are woken.
            if freerun_runtime::timer::timeout(most, room.as_mut()).await.is_ok() {
                room.set(queue.room.notified());
                room.as_mut().enable();
            }
            match ask(clock(), tried) {
                Err(NoPeer::Wait) => {}
                answer => return answer,
            }
        }
    }
}
