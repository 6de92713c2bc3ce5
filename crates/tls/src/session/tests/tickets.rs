//! Tickets without sessions around them.

use super::super::resume::{SessionContext, StoredSession, TicketFate};
use super::super::{OwnKeyBytes, TicketKeyError, TicketKeys, new_key};
use super::NOW;
use std::time::Duration;

const BEGAN: Duration = Duration::from_secs(1_700_000_000);

fn context() -> SessionContext {
    SessionContext::of(b"context")
}

fn second(number: u64) -> Duration {
    NOW + Duration::from_secs(number)
}

fn file(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| seed.wrapping_add(at as u8)).collect()
}

fn opened(found: Option<StoredSession>) -> Option<(Duration, Vec<u8>)> {
    found.map(|found| (found.began, found.session.to_vec()))
}

#[test]
fn what_is_sealed_can_be_opened() {
    let session = vec![7; 100];
    for keys in [
        TicketKeys::from_files(&[file(48, 1)]).expect("keys"),
        TicketKeys::from_files(&[file(80, 1)]).expect("keys"),
        TicketKeys::random(Duration::from_secs(60), NOW).expect("keys"),
    ] {
        for length in [0, 1, 7, 8, 100, 8192] {
            let session = vec![7; length];
            let ticket = keys.seal(NOW, context(), BEGAN, &session).expect("a ticket");
            assert_eq!(opened(keys.open(NOW, context(), &ticket).ok()), Some((BEGAN, session)));
        }
        let [one, two] = [(); 2].map(|()| keys.seal(NOW, context(), BEGAN, &session).expect("a ticket"));
        assert_ne!(one, two, "each has its own vector");
        assert!(keys.seal(NOW, context(), BEGAN, &[0; 8193]).is_none());
    }
}

#[test]
fn a_ticket_begins_with_the_name_of_its_key_and_has_a_length_that_fits_into_one_byte() {
    let keys = TicketKeys::from_files(&[file(80, 1)]).expect("keys");
    // rustls needs 71 bytes in TLS 1.2, or 55, besides the names of the server and of the protocol.
    for session in 55..=167 {
        let ticket = keys.seal(NOW, context(), BEGAN, &vec![0; session]).expect("a ticket");
        assert_eq!(ticket[..16], file(80, 1)[..16]);
        assert!((128..=255).contains(&ticket.len()), "{session}: {}", ticket.len());
    }
}

#[test]
fn no_byte_of_a_ticket_may_change() {
    let keys = TicketKeys::from_files(&[file(80, 1)]).expect("keys");
    let ticket = keys.seal(NOW, context(), BEGAN, b"session").expect("a ticket");
    for at in 0..ticket.len() {
        let mut changed = ticket.clone();
        changed[at] ^= 1;
        assert!(keys.open(NOW, context(), &changed).is_err(), "byte {at}");
        assert!(keys.open(NOW, context(), &ticket[..at]).is_err(), "{at} bytes");
    }
    let mut longer = ticket.clone();
    longer.push(0);
    assert!(keys.open(NOW, context(), &longer).is_err());
    assert!(keys.open(NOW, context(), &ticket.repeat(1000)).is_err());
    assert_eq!(keys.open(NOW, SessionContext::of(b"other"), &ticket).err(), Some(TicketFate::Damaged));
}

#[test]
fn the_first_file_seals_and_all_open() {
    let [old, new] = [file(48, 1), file(80, 2)];
    let ticket = |keys: &TicketKeys| keys.seal(NOW, context(), BEGAN, b"session").expect("a ticket");
    let only_old = TicketKeys::from_files(&[&old]).expect("keys");
    let only_new = TicketKeys::from_files(&[&new]).expect("keys");
    let both = TicketKeys::from_files(&[&new, &old]).expect("keys");
    assert!(both.open(NOW, context(), &ticket(&only_old)).is_ok());
    assert!(only_new.open(NOW, context(), &ticket(&both)).is_ok());
    assert_eq!(only_old.open(NOW, context(), &ticket(&both)).err(), Some(TicketFate::UnknownKey));
}

#[test]
fn files_of_other_sizes_are_refused() {
    let failed = |files: &[Vec<u8>]| TicketKeys::from_files(files).map(|_| ()).expect_err("no keys");
    for length in [0, 47, 49, 79, 81] {
        assert_eq!(failed(&[file(80, 1), file(length, 1)]), TicketKeyError::Size(1));
    }
    assert_eq!(failed(&[]), TicketKeyError::Files);
    assert_eq!(failed(&vec![file(80, 1); 65]), TicketKeyError::Files);
}

#[test]
fn own_keys_change_and_old_ones_open_for_a_period_more() {
    let keys = TicketKeys::random(Duration::from_secs(60), NOW).expect("keys");
    let ticket = |at| keys.seal(second(at), context(), BEGAN, b"session").expect("a ticket");
    let opens = |at, ticket: &[u8]| keys.open(second(at), context(), ticket).is_ok();
    let name = |ticket: &[u8]| ticket[..16].to_vec();
    let (first, last) = (ticket(0), ticket(59));
    assert_eq!(name(&first), name(&last));
    assert!(opens(119, &last) && !opens(120, &last), "also while nothing is sealed");
    let next = ticket(60);
    assert_ne!(name(&first), name(&next));
    assert!(opens(61, &last) && opens(61, &next) && opens(119, &last));
    let later = ticket(1000);
    assert!(opens(1000, &later) && !opens(1000, &next) && !opens(1000, &last));
    // A clock that is set back is no reason to change anything.
    assert_eq!(name(&ticket(500)), name(&later));
}

const PERIOD: Duration = Duration::from_secs(100);
const SETTLING: Duration = Duration::from_secs(20);

fn shared() -> TicketKeys {
    TicketKeys::shared(PERIOD, SETTLING, NOW).expect("keys")
}

/// Which of two machines open a ticket that the first one seals now.
fn opened_by(machines: [&TicketKeys; 2], now: Duration) -> [bool; 2] {
    let ticket = machines[0].seal(now, context(), BEGAN, b"session").expect("a ticket");
    machines.map(|keys| keys.open(now, context(), &ticket).is_ok())
}

#[test]
fn machines_with_the_same_keys_open_tickets_of_each_other() {
    let (a, b) = (shared(), shared());
    assert_eq!(opened_by([&a, &b], NOW), [true, false], "each begins with its own");
    let first: (Duration, OwnKeyBytes) = (NOW, new_key().expect("a key"));
    for keys in [&a, &b] {
        keys.install(std::slice::from_ref(&first), NOW).expect("keys");
    }
    assert_eq!(opened_by([&a, &b], NOW), [true, true]);
    // A new key that the other machine does not have yet does not seal.
    let second = (second(100), new_key().expect("a key"));
    a.install(&[second.clone(), first.clone()], second.0).expect("keys");
    assert_eq!(opened_by([&a, &b], second.0), [true, true]);
    assert_eq!(opened_by([&a, &b], second.0 + SETTLING), [true, false]);
    b.install(&[second.clone(), first], second.0 + SETTLING).expect("keys");
    assert_eq!(opened_by([&a, &b], second.0 + SETTLING), [true, true]);
}

#[test]
fn a_machine_without_new_keys_goes_on_with_its_own() {
    let (a, b) = (shared(), shared());
    let first = (NOW, new_key().expect("a key"));
    for keys in [&a, &b] {
        keys.install(std::slice::from_ref(&first), NOW).expect("keys");
    }
    let ticket = a.seal(second(119), context(), BEGAN, b"session").expect("a ticket");
    assert!(b.open(second(119), context(), &ticket).is_ok());
    assert_eq!(opened_by([&a, &b], second(120)), [true, false]);
    // A ticket is good for a period, whatever key seals meanwhile.
    assert!(b.open(second(218), context(), &ticket).is_ok());
    let next = (second(300), new_key().expect("a key"));
    for keys in [&a, &b] {
        keys.install(std::slice::from_ref(&next), second(300)).expect("keys");
    }
    assert_eq!(opened_by([&a, &b], second(300)), [true, true]);
}
