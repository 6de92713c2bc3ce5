//! Choosing a server, and waiting for one where the group has a queue.

use std::time::Duration;

use crate::clock::Millis;
use crate::group::Group;
use crate::lease::Lease;
use crate::query::{NoPeer, Query, TriedServers};
use crate::random::Random;

/// Interval at which the oldest request looks by itself: a server may become available because time passes, or with
/// room for several requests.
const LOOK: Duration = Duration::from_millis(100);

impl Group {
    /// Chooses a server as [`Group::pick`] does, if that needs no waiting. `None`: the request has to go into the
    /// group's queue ([`Group::pick_later`]), because others wait there, or because servers lack nothing but room.
    pub fn pick_now(&self, query: &Query<'_>, tried: &mut TriedServers) -> Option<Result<Lease, NoPeer>> {
        if self.settings.queue.is_none() {
            return Some(self.pick(query, tried));
        }
        // A request that comes while others wait goes behind them.
        if self.waiting() > 0 {
            return None;
        }
        Some(self.pick(query, tried)).filter(|answer| !matches!(answer, Err(NoPeer::Wait)))
    }

    /// Waits in the group's queue for a server that has room, after [`Group::pick_now`] has said that this is necessary.
    /// The `query` is made anew with the time of `clock` and a number of `random` for each choice.
    ///
    /// # Errors
    /// There is no server: none could be asked, the queue was full, or the time in it was over.
    pub async fn pick_later(
        &self,
        query: &Query<'_>,
        random: &mut Random,
        tried: &mut TriedServers,
        clock: impl Fn() -> Millis,
    ) -> Result<Lease, NoPeer> {
        let mut ask = |now: Millis, tried: &mut TriedServers| {
            let query = Query { now, random: random.number(), ..*query };
            self.pick(&query, tried)
        };
        let Some(settings) = self.settings.queue else { return ask(query.now, tried) };
        let queue = &self.state().queue;
        let particular = query.sticky.is_some() || tried.count() > 0;
        let group = std::ptr::from_ref(self).addr();
        let Some(mut place) = queue.enter(settings.length, group, particular) else {
            // The requests that fill the queue may all wait for another server than the server with room.
            return if queue.has_particular() { ask(clock(), tried) } else { Err(NoPeer::Wait) };
        };
        let end = query.now + settings.timeout.as_millis() as Millis;
        loop {
            // The oldest request changes only when one leaves.
            let (has_turn, is_oldest) = place.standing();
            if has_turn {
                match ask(clock(), tried) {
                    Err(NoPeer::Wait) => place.refused(),
                    answer => {
                        place.served = answer.is_ok();
                        return answer;
                    }
                }
            }
            let now = clock();
            if now >= end {
                return Err(NoPeer::Wait);
            }
            let left = Duration::from_millis(end - now);
            let most = if is_oldest { left.min(LOOK) } else { left };
            if freerun_runtime::timer::timeout(most, place.turn_comes()).await.is_err() {
                place.look();
            }
        }
    }
}

#[cfg(test)]
mod tests;
