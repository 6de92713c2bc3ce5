use std::cell::Cell;
use std::rc::Rc;

use super::policy::{Item, Place, Policy};
use super::simulate::{Trace, lru, s3_fifo};
use super::*;

/// An item for the queues: its name is its number.
#[derive(Debug)]
struct Thing {
    name: u64,
    bytes: u64,
    frequency: Cell<u8>,
    gone: Cell<bool>,
    place: Cell<Place>,
}

fn thing(name: u64, bytes: u64) -> Rc<Thing> {
    let (frequency, gone, place) = (Cell::new(0), Cell::new(false), Cell::new(Place::None));
    Rc::new(Thing { name, bytes, frequency, gone, place })
}

impl Item for Rc<Thing> {
    fn fingerprint(&self) -> u64 {
        self.name
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn frequency(&self) -> u8 {
        self.frequency.get()
    }

    fn set_frequency(&self, frequency: u8) {
        self.frequency.set(frequency);
    }

    fn is_gone(&self) -> bool {
        self.gone.get()
    }

    fn place(&self) -> Place {
        self.place.get()
    }

    fn set_place(&self, place: Place) {
        self.place.set(place);
    }
}

#[test]
fn a_scan_drives_nothing_out_that_is_in_use() {
    let mut policy = Policy::new(10_000);
    let hot: Vec<_> = (0..100).map(|name| thing(name, 10)).collect();
    for item in &hot {
        policy.insert(item.clone());
        item.set_frequency(2);
    }
    let mut inside = 100;
    for name in 1000..20_000 {
        policy.insert(thing(name, 10));
        inside += 1;
        // These are asked for all the time.
        if name % 50 == 0 {
            for item in &hot {
                item.set_frequency(3);
            }
        }
        while inside > 200 {
            assert!(policy.evict().is_some_and(|gone| gone.name >= 1000));
            inside -= 1;
        }
    }
    assert!(hot.iter().all(|item| item.place() == Place::Main));
    assert_eq!(policy.len(), 200);
}

#[test]
fn who_comes_back_soon_has_proved_itself() {
    let mut policy = Policy::new(1000);
    for name in 0..20 {
        policy.insert(thing(name, 10));
    }
    let gone = policy.evict().unwrap();
    assert_eq!((gone.name, gone.place()), (0, Place::None));
    let again = thing(0, 10);
    policy.insert(again.clone());
    assert_eq!(again.place(), Place::Main);
    let other = thing(99, 10);
    policy.insert(other.clone());
    assert_eq!(other.place(), Place::Small);
}

#[test]
fn what_left_takes_up_no_room_for_long() {
    let mut policy = Policy::new(10);
    let stays = thing(0, 1);
    policy.insert(stays.clone());
    for name in 1..100_000 {
        let item = thing(name, 1);
        policy.insert(item.clone());
        assert!(policy.forget(&item) && !policy.forget(&item));
        // The places of items that left are removed now and then.
        assert!(Rc::strong_count(&item) <= 2);
        assert_eq!(policy.len(), 1);
    }
    let seen = Cell::new(0);
    policy.survey(usize::MAX, |item| {
        assert_eq!(item.name, 0);
        seen.set(seen.get() + 1);
        true
    });
    assert_eq!(seen.get(), 1);
    assert_eq!(policy.evict().unwrap().name, 0);
    assert!(policy.evict().is_none());
    // An item that another thread removed is passed over.
    let gone = thing(5, 1);
    policy.insert(gone.clone());
    gone.gone.set(true);
    assert!(policy.evict().is_none());
}

#[test]
fn the_accounts_agree_with_the_items_whatever_happens() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut policy = Policy::new(40);
    let mut items: Vec<Rc<Thing>> = Vec::new();
    for _ in 0..20_000 {
        match random(8) {
            0..3 => {
                // Names come back, so that the list of names counts.
                let item = thing(random(100), 1 + random(50));
                if random(4) == 0 {
                    policy.insert_main(item.clone())
                } else {
                    policy.insert(item.clone())
                }
                items.push(item);
            }
            3 => drop(policy.evict()),
            4 if !items.is_empty() => drop(policy.forget(&items[random(items.len() as u64) as usize])),
            5 if !items.is_empty() => items[random(items.len() as u64) as usize].gone.set(true),
            6 if !items.is_empty() => items[random(items.len() as u64) as usize].set_frequency(random(4) as u8),
            _ => policy.survey(3, |item| item.place() != Place::None),
        }
        while policy.len() > 60 {
            policy.evict();
        }
        policy.check_invariants();
        items.retain(|item| item.place() != Place::None);
        assert!(items.len() >= policy.len());
    }
}

#[test]
fn a_survey_goes_round() {
    let mut policy = Policy::new(100);
    for name in 0..10 {
        policy.insert(thing(name, 1));
        policy.insert_main(thing(100 + name, 1));
    }
    let mut seen = Vec::new();
    for _ in 0..7 {
        policy.survey(3, |item| {
            seen.push(item.name);
            true
        });
    }
    assert_eq!(seen.len(), 21);
    let first: Vec<u64> = (0..10).chain(100..110).collect();
    assert_eq!((&seen[..20], seen[20]), (&first[..], 0));
    assert_eq!(policy.items().count(), 20);
}

#[test]
fn a_trace_with_scans_has_more_hits_than_with_lru() {
    let trace = Trace { objects: 20_000, requests: 200_000, scan_every: 3000, scan: 1000, ..Trace::standard() };
    let (requests, capacity) = (trace.requests(), trace.working_set() / 10);
    let ours = s3_fifo(requests.iter().copied(), capacity);
    let theirs = lru(requests.iter().copied(), capacity);
    assert_eq!(ours.requests, theirs.requests);
    assert!(ours.percent() >= theirs.percent() + 5.0, "{} and {}", ours.percent(), theirs.percent());
    // With room for everything both policies have the same hits.
    let all = s3_fifo(requests.iter().copied(), u64::MAX / 16);
    assert_eq!(all, lru(requests.iter().copied(), u64::MAX / 16));
}

fn about(text: &str, size: u64, sequence: u64) -> About {
    let key = Key::of(text.as_bytes());
    About { key, main: key, size, sequence, lifetime: Lifetime::default() }
}

#[test]
fn reservations_are_exact() {
    let index = Index::new(10, 10 * 4096);
    let space = &index.space;
    assert!(space.reserve(1).is_none(), "before it is known what is there");
    space.open();
    let mut first = space.reserve(1).unwrap();
    assert_eq!(first.bytes(), 4096);
    assert!(first.cover(4096) && first.cover(4097));
    assert_eq!(first.bytes(), 8192);
    assert!(!first.cover(11 * 4096));
    assert_eq!(first.bytes(), 8192);
    let second = space.reserve(8 * 4096).unwrap();
    assert!(space.reserve(1).is_none() && !first.cover(8193));
    drop(second);
    assert!(first.cover(8193));
    // Reserved space that is not needed is given back.
    index.store(&about("a", 100, 1), first, 0).unwrap();
    let figures = space.figures();
    assert_eq!((figures.taken, figures.reserved), (4096, 0));
    assert_eq!(space.take_wanted(), 4096);
    // A file that does not fit the file system is refused in the same way.
    space.measure(|| Some(2 * 4096 + 100));
    let only = space.reserve(2 * 4096).unwrap();
    assert!(space.reserve(1).is_none());
    space.measure(|| Some(3 * 4096));
    assert!(space.reserve(1).is_some(), "what is reserved is not there for others");
    assert!(space.reserve(4097).is_none());
    drop(only);
    assert!(space.reserve(8192).is_some());
}

#[test]
fn what_happens_while_the_file_system_is_measured_is_not_lost() {
    let index = Index::new(100, u64::MAX);
    let space = &index.space;
    space.open();
    // Reserved space is written just after the file system was asked: it has as much less.
    let reserved = space.reserve(4096).unwrap();
    space.measure(|| {
        index.store(&about("a", 4096, 1), reserved, 0).unwrap();
        Some(2 * 4096)
    });
    let one = space.reserve(4096).unwrap();
    assert!(space.reserve(1).is_none());
    drop(one);
    // The same happens to space that is reserved, and written, meanwhile.
    space.measure(|| {
        let reserved = space.reserve(4096).unwrap();
        index.store(&about("b", 4096, 1), reserved, 0).unwrap();
        Some(2 * 4096)
    });
    let _one = space.reserve(4096).unwrap();
    assert!(space.reserve(1).is_none());
}

#[test]
fn entries_are_reserved_with_the_space() {
    let index = Index::new(3, u64::MAX);
    index.space.open();
    let mut held: Vec<_> = (0..3).map(|_| index.space.reserve(10).unwrap()).collect();
    assert!(index.space.reserve(10).is_none());
    index.store(&about("a", 10, 1), held.pop().unwrap(), 0).unwrap();
    assert!(index.space.reserve(10).is_none());
    held.pop();
    assert!(index.space.reserve(10).is_some());
}

#[test]
fn an_entry_knows_when_it_is_over() {
    let index = Index::new(10, 1 << 20);
    index.space.open();
    let store = |text: &str| index.store(&about(text, 10, 1), index.space.reserve(10).unwrap(), 5).unwrap();
    let first = store("a");
    first.touch(7);
    let second = store("a");
    assert!(first.is_gone() && !second.is_gone());
    // The new entry is as popular as the one before it.
    assert_eq!(Item::frequency(&second), 1);
    assert!(!index.remove(&first, false) && index.peek(second.key()).is_some());
    assert!(index.remove(&second, false) && !index.remove(&second, false));
    assert!(index.peek(second.key()).is_none() && index.len() == 0);
    assert_eq!(first.accessed(), 7);
    let lifetime = Lifetime { fresh_until: 99, ..Lifetime::default() };
    let third = store("b");
    index.renew(&third, lifetime);
    index.renew(&third, lifetime);
    assert!(third.is_fresh(99) && !third.is_fresh(100));
    // This is true once, as long as the change was not looked at.
    let mut renewed = 0;
    while let Some(event) = index.events.pop() {
        renewed += u32::from(matches!(event, Event::Renewed(_)));
    }
    assert_eq!(renewed, 1);
}
