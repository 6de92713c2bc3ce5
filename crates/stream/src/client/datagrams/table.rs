//! The sessions of datagrams at one address, on one loop: found by the addresses of both ends, in the order in which they
//! were last used.
//!
//! The table has a bound. When it is full, the session that has been idle longest gives way to the new one. So a flood
//! from invented addresses pushes out its own sessions before it reaches clients that go on, and memory does not grow.
//! All operations take the same time however many sessions there are, and one timer serves all of them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// The addresses of both ends of a session; the port of this end is the port of the listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    /// The client's address.
    pub(crate) client: SocketAddr,
    /// The address of this machine that the client sends to; `None` where there is only one.
    pub(crate) local: Option<IpAddr>,
    /// The address of the client behind the proxy that sends for it, if the proxy says so (PROXY protocol).
    pub(crate) behind: Option<SocketAddr>,
}

/// A session's place in the table, which is no longer there when another session has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id {
    index: u32,
    generation: u32,
}

/// No place.
const NONE: u32 = u32::MAX;

/// The most times for which sessions are kept in an order of their own. There is one order, and after a reload that
/// changes the time, a second one until the sessions of the old one have ended. Further times share the last order,
/// where a session may stay until those before it have ended.
const MOST_ORDERS: usize = 8;

struct TableSlot<S> {
    session: Option<S>,
    generation: u32,
    ends: Ends,
    /// Whether datagrams from these ends come to this session.
    is_bound: bool,
    /// The order that it is in, and its neighbours there.
    order: u32,
    before: u32,
    after: u32,
    /// The time of the last use, in milliseconds.
    used: u64,
    /// For how long it is kept after that.
    timeout: u64,
}

/// Sessions that are kept for the same time, the one first that was used first.
struct Order {
    timeout: u64,
    first: u32,
    last: u32,
}

/// Called when datagrams between two ends begin to come to a session (true), and when they do so no more.
type Tell = Box<dyn Fn(&Ends, bool)>;

/// The sessions at one address. Times are in milliseconds, as the loop counts them.
pub(crate) struct SessionTable<S> {
    places: Vec<TableSlot<S>>,
    free: Vec<u32>,
    by_ends: HashMap<Ends, u32>,
    orders: Vec<Order>,
    limit: usize,
    len: usize,
    tell: Tell,
}

impl<S> SessionTable<S> {
    /// A table for at most `limit` sessions. `tell` is called when datagrams between two ends begin to come to a session
    /// (true), and when they do so no more.
    pub(crate) fn new(limit: usize, tell: impl Fn(&Ends, bool) + 'static) -> SessionTable<S> {
        let (places, free, by_ends, orders, len) = Default::default();
        let limit = limit.clamp(1, NONE as usize);
        SessionTable { places, free, by_ends, orders, limit, len, tell: Box::new(tell) }
    }

    /// Asserts what can be seen without looking at every session.
    fn check_counts(&self) {
        debug_assert!(self.len + self.free.len() == self.places.len(), "a place is neither free nor taken");
        debug_assert!(self.by_ends.len() <= self.len, "datagrams come to more sessions than there are");
    }

    /// Compares the places, the orders and the addresses with each other.
    #[cfg(test)]
    fn check_invariants(&self) {
        let mut seen = 0;
        for order in &self.orders {
            let (mut before, mut next) = (NONE, order.first);
            while next != NONE {
                let place = &self.places[next as usize];
                assert!(place.session.is_some() && place.before == before, "place {next} is not behind {before}");
                (before, next, seen) = (next, place.after, seen + 1);
            }
            assert_eq!(order.last, before);
        }
        assert_eq!((seen, self.iter().count()), (self.len, self.len), "a session is in no order, or in two");
        let is_there = |(ends, index): (&Ends, &u32)| {
            let place = &self.places[*index as usize];
            place.is_bound && place.ends == *ends && place.session.is_some()
        };
        assert!(self.by_ends.iter().all(is_there));
        assert_eq!(self.places.iter().filter(|place| place.is_bound).count(), self.by_ends.len());
        assert!(self.free.iter().all(|index| self.places[*index as usize].session.is_none()));
    }

    /// The number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Changes the bound. Sessions beyond it stay until new ones begin.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit.clamp(1, NONE as usize);
    }

    /// Whether a new session has to take the place of another.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.limit
    }

    /// The session that datagrams between these ends belong to.
    pub(crate) fn find(&self, ends: &Ends) -> Option<(Id, &S)> {
        let index = *self.by_ends.get(ends)?;
        let place = self.places.get(index as usize)?;
        debug_assert!(place.is_bound && place.ends == *ends);
        Some((Id { index, generation: place.generation }, place.session.as_ref()?))
    }

    /// Adds a session that is used now and kept for `timeout` after its last use. Another one with the same ends gets no
    /// more datagrams. The caller makes room first ([`SessionTable::take_oldest`]).
    pub(crate) fn insert(&mut self, ends: Ends, timeout: u64, now: u64, session: S) -> Id {
        match self.by_ends.get(&ends).copied() {
            Some(former) => self.places[former as usize].is_bound = false,
            None => (self.tell)(&ends, true),
        }
        let order = self.order(timeout);
        let generation = 0;
        let session = Some(session);
        let (before, after, is_bound, used) = (NONE, NONE, true, now);
        let place = TableSlot { session, generation, ends, is_bound, order, before, after, used, timeout };
        let index = match self.free.pop() {
            Some(index) => {
                let generation = self.places[index as usize].generation;
                self.places[index as usize] = TableSlot { generation, ..place };
                index
            }
            None => {
                self.places.push(place);
                (self.places.len() - 1) as u32
            }
        };
        self.by_ends.insert(ends, index);
        self.append(index);
        self.len += 1;
        self.check_counts();
        Id { index, generation: self.places[index as usize].generation }
    }

    /// Notes that a session is used now.
    pub(crate) fn touch(&mut self, id: Id, now: u64) {
        let Some(index) = self.index(id) else { return };
        self.places[index as usize].used = now;
        let TableSlot { order, after, .. } = self.places[index as usize];
        if after == NONE {
            debug_assert_eq!(self.orders[order as usize].last, index);
            return;
        }
        self.unlink(index);
        self.append(index);
    }

    /// Keeps a session, which is used now, for another time after its last use.
    pub(crate) fn set_timeout(&mut self, id: Id, timeout: u64, now: u64) {
        let Some(index) = self.index(id) else { return };
        if self.places[index as usize].timeout == timeout {
            return self.touch(id, now);
        }
        self.unlink(index);
        let order = self.order(timeout);
        let place = &mut self.places[index as usize];
        (place.order, place.timeout, place.used) = (order, timeout, now);
        self.append(index);
    }

    /// Has the next datagram between a session's ends begin another one; the session itself stays.
    pub(crate) fn unbind(&mut self, id: Id) {
        let Some(index) = self.index(id) else { return };
        let place = &mut self.places[index as usize];
        if std::mem::take(&mut place.is_bound) {
            self.by_ends.remove(&place.ends);
            (self.tell)(&place.ends, false);
        }
    }

    /// Whether datagrams between a session's ends come to it.
    pub(crate) fn is_bound(&self, id: Id) -> bool {
        self.index(id).is_some_and(|index| self.places[index as usize].is_bound)
    }

    /// Takes a session out.
    pub(crate) fn remove(&mut self, id: Id) -> Option<S> {
        let index = self.index(id)?;
        self.take(index)
    }

    /// Takes the session out that has been idle longest.
    pub(crate) fn take_oldest(&mut self) -> Option<S> {
        let firsts = self.orders.iter().map(|order| order.first).filter(|first| *first != NONE);
        let oldest = firsts.min_by_key(|first| self.places[*first as usize].used)?;
        self.take(oldest)
    }

    /// Takes a session out whose time is over; called again until there is none.
    pub(crate) fn take_late(&mut self, now: u64) -> Option<S> {
        let firsts = self.orders.iter().map(|order| order.first).filter(|first| *first != NONE);
        let late = firsts.into_iter().find(|first| self.deadline(*first) <= now)?;
        self.take(late)
    }

    /// The time at which the next session has been idle for too long.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let firsts = self.orders.iter().map(|order| order.first).filter(|first| *first != NONE);
        firsts.map(|first| self.deadline(first)).min()
    }

    /// All sessions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &S> {
        self.places.iter().filter_map(|place| place.session.as_ref())
    }

    /// Takes the sessions out for which `is` is true.
    pub(crate) fn take_where(&mut self, is: impl Fn(&S) -> bool) -> Vec<S> {
        let places = self.places.iter().enumerate();
        let those = places.filter(|(_, place)| place.session.as_ref().is_some_and(&is));
        let indices: Vec<_> = those.map(|(index, _)| index as u32).collect();
        indices.into_iter().filter_map(|index| self.take(index)).collect()
    }

    /// Takes all sessions out.
    pub(crate) fn take_all(&mut self) -> Vec<S> {
        let mut all = Vec::with_capacity(self.len);
        while let Some(session) = self.take_oldest() {
            all.push(session);
        }
        all
    }

    fn deadline(&self, index: u32) -> u64 {
        let place = &self.places[index as usize];
        place.used.saturating_add(place.timeout)
    }

    fn index(&self, id: Id) -> Option<u32> {
        let place = self.places.get(id.index as usize)?;
        (place.generation == id.generation && place.session.is_some()).then_some(id.index)
    }

    /// The order of sessions that are kept for so long.
    fn order(&mut self, timeout: u64) -> u32 {
        if let Some(known) = self.orders.iter().position(|order| order.timeout == timeout) {
            return known as u32;
        }
        let new = Order { timeout, first: NONE, last: NONE };
        if let Some(empty) = self.orders.iter().position(|order| order.first == NONE) {
            self.orders[empty] = new;
            return empty as u32;
        }
        if self.orders.len() < MOST_ORDERS {
            self.orders.push(new);
        }
        (self.orders.len() - 1) as u32
    }

    /// Puts a session behind all others of its order.
    fn append(&mut self, index: u32) {
        let order = &mut self.orders[self.places[index as usize].order as usize];
        let last = std::mem::replace(&mut order.last, index);
        if last == NONE {
            order.first = index;
        } else {
            self.places[last as usize].after = index;
        }
        let place = &mut self.places[index as usize];
        (place.before, place.after) = (last, NONE);
    }

    /// Takes a session out of its order.
    fn unlink(&mut self, index: u32) {
        let TableSlot { order, before, after, .. } = self.places[index as usize];
        debug_assert!(
            (before == NONE || self.places[before as usize].after == index)
                && (after == NONE || self.places[after as usize].before == index),
            "two orders are mixed up"
        );
        let order = &mut self.orders[order as usize];
        if before == NONE {
            order.first = after;
        } else {
            self.places[before as usize].after = after;
        }
        if after == NONE {
            order.last = before;
        } else {
            self.places[after as usize].before = before;
        }
    }

    fn take(&mut self, index: u32) -> Option<S> {
        self.unlink(index);
        let place = &mut self.places[index as usize];
        if std::mem::take(&mut place.is_bound) {
            self.by_ends.remove(&place.ends);
            (self.tell)(&place.ends, false);
        }
        place.generation = place.generation.wrapping_add(1);
        let session = place.session.take();
        debug_assert!(session.is_some(), "a session is taken out twice");
        self.free.push(index);
        self.len -= 1;
        self.check_counts();
        session
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    fn ends(port: u16) -> Ends {
        Ends { client: SocketAddr::from(([192, 0, 2, 1], port)), local: None, behind: None }
    }

    fn find(table: &SessionTable<u32>, port: u16) -> Option<u32> {
        table.find(&ends(port)).map(|(_, session)| *session)
    }

    #[test]
    fn the_session_that_was_idle_longest_gives_way() {
        let mut table = SessionTable::new(3, |_, _| {});
        let ids: Vec<_> = (0..3).map(|number| table.insert(ends(number), 1000, number.into(), number.into())).collect();
        assert!(table.is_full());
        table.touch(ids[0], 10);
        assert_eq!(table.take_oldest(), Some(1));
        assert_eq!((find(&table, 1), find(&table, 0), find(&table, 2)), (None, Some(0), Some(2)));
        assert!(!table.is_full());
        let new = table.insert(ends(7), 1000, 11, 7);
        // The place was used again: the old name of it means nothing.
        assert_eq!(table.remove(ids[1]), None);
        table.touch(ids[1], 12);
        assert_eq!([table.take_oldest(), table.take_oldest(), table.take_oldest()], [Some(2), Some(0), Some(7)]);
        assert_eq!((table.remove(new), table.len(), table.take_oldest()), (None, 0, None));
    }

    #[test]
    fn times_that_differ_are_kept_in_order_each() {
        let mut table = SessionTable::<u32>::new(100, |_, _| {});
        table.insert(ends(1), 1000, 0, 1);
        let short = table.insert(ends(2), 10, 1, 2);
        table.insert(ends(3), 10, 2, 3);
        assert_eq!(table.next_deadline(), Some(11));
        table.touch(short, 5);
        assert_eq!((table.next_deadline(), table.take_late(11)), (Some(12), None));
        assert_eq!((table.take_late(15), table.take_late(15), table.take_late(15)), (Some(3), Some(2), None));
        assert_eq!((table.next_deadline(), table.take_late(999), table.take_late(1000)), (Some(1000), None, Some(1)));
        assert_eq!(table.next_deadline(), None);
        // A session may be kept for another time than it began with.
        let changed = table.insert(ends(4), 60, 1000, 4);
        table.insert(ends(5), 60, 1000, 5);
        table.set_timeout(changed, 5, 1010);
        table.set_timeout(changed, 5, 1020);
        assert_eq!((table.take_late(1024), table.take_late(1025), table.take_late(1060)), (None, Some(4), Some(5)));
        // With more times than there are orders for, a session may stay too long, and none ends too early.
        for number in 0..20_u16 {
            table.insert(ends(number), u64::from(number) + 1, 0, number.into());
        }
        assert_eq!(table.orders.len(), MOST_ORDERS);
        for now in 0..=20 {
            while let Some(late) = table.take_late(now) {
                assert!(u64::from(late) < now);
            }
        }
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_session_that_gets_no_more_datagrams_stays_until_it_ends() {
        let mut table = SessionTable::new(10, |_, _| {});
        let first = table.insert(ends(1), 10, 0, 1);
        table.unbind(first);
        table.unbind(first);
        assert_eq!(find(&table, 1), None);
        table.insert(ends(1), 10, 0, 2);
        assert_eq!((find(&table, 1), table.len()), (Some(2), 2));
        assert_eq!(table.remove(first), Some(1));
        assert_eq!(find(&table, 1), Some(2));
        // One with the same ends takes the datagrams over.
        table.insert(ends(1), 10, 0, 3);
        assert_eq!((find(&table, 1), table.len()), (Some(3), 2));
        assert_eq!((table.iter().count(), table.take_where(|session| *session == 7)), (2, vec![]));
        assert_eq!(table.take_where(|session| *session == 2), [2]);
        table.insert(ends(2), 10, 0, 2);
        let mut all = table.take_all();
        all.sort_unstable();
        assert_eq!((all, find(&table, 1), table.len()), (vec![2, 3], None, 0));
    }

    #[test]
    fn a_table_and_a_list_of_the_same_sessions_agree_after_many_steps() {
        const LIMIT: usize = 20;
        let bound = Rc::new(Cell::new(0_usize));
        let counts = bound.clone();
        let tell = move |_: &Ends, begins| counts.set(if begins { counts.get() + 1 } else { counts.get() - 1 });
        let mut table = SessionTable::new(LIMIT, tell);
        // The sessions in the order of their last use: number, port, name.
        let mut list: Vec<(u32, u16, Id, bool)> = Vec::new();
        let mut state = 12345_u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        for step in 0..20_000_u32 {
            let port = random(60) as u16;
            match random(10) {
                0 if !list.is_empty() => {
                    let (session, _, id, _) = list.remove(random(list.len() as u32) as usize);
                    assert_eq!(table.remove(id), Some(session));
                }
                1 if !list.is_empty() => {
                    let at = random(list.len() as u32) as usize;
                    table.unbind(list[at].2);
                    list[at].3 = false;
                }
                _ => match list.iter().position(|(_, own, _, bound)| *bound && *own == port) {
                    Some(at) => {
                        let (id, session) = table.find(&ends(port)).map(|(id, session)| (id, *session)).unwrap();
                        assert_eq!((session, id), (list[at].0, list[at].2));
                        table.touch(id, step.into());
                        let used = list.remove(at);
                        list.push(used);
                    }
                    None => {
                        assert_eq!(find(&table, port), None);
                        if table.is_full() {
                            assert_eq!(table.take_oldest(), Some(list.remove(0).0));
                        }
                        let id = table.insert(ends(port), 1000, step.into(), step);
                        list.push((step, port, id, true));
                    }
                },
            }
            assert_eq!(table.len(), list.len());
            table.check_invariants();
            assert!(table.len() <= LIMIT && table.places.len() <= LIMIT);
            assert_eq!(bound.get(), list.iter().filter(|(.., is_bound)| *is_bound).count(), "what was told");
        }
    }
}
