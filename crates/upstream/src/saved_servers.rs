//! Facts about servers, as bytes for the worker of another binary: failures, times, and results of health checks.
//!
//! Times are relative to the moment at which they are saved, since the clocks of two processes have nothing in common.
//! Counts of running requests are left out: these run elsewhere.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use freerun_conf::path_of;
use freerun_runtime::log::clock;

use crate::address::UpstreamAddress;
use crate::clock::Millis;
use crate::live::Live;

/// The first bytes, a version of the format. The time in milliseconds since 1970 follows. For each server follow the
/// length of its address, the address, its number among the servers of that address, and the numbers of [`numbers`],
/// all as `u64`.
const FORMAT: &[u8; 8] = b"peers. 2";

/// Number of numbers of a server.
const NUMBERS: usize = 11;

/// The most servers that are read.
const MAX_SERVERS: usize = 1 << 16;

/// For how long after a restart what health checks have said is the beginning of new ones. Later ones begin with nothing.
const CHECKS_COUNT: Millis = 60_000;

/// A time that is not set.
const NO_TIME: u64 = u64::MAX;

// Results of the health checks, in two bits.
const NOTHING: u64 = 0;
const HEALTHY: u64 = 1;
const UNHEALTHY: u64 = 2;

const _: () = assert!(UNHEALTHY < 1 << 2, "what the checks have said takes the two bits below a time");

/// The servers that an old binary knew.
#[derive(Debug, Default, Clone)]
pub(crate) struct CarriedServers {
    /// Facts about each server, by address and number.
    pub(crate) servers: HashMap<(UpstreamAddress, usize), [u64; NUMBERS]>,
    /// The time of the saving, on this process's clock; it may be before the clock began.
    saved: i64,
}

/// The time of day in milliseconds: another process compares it with its own.
fn since_1970() -> u64 {
    u64::try_from(clock::since_1970().as_millis()).unwrap_or(0)
}

fn relative(time: Millis, now: Millis) -> u64 {
    if time == 0 { NO_TIME } else { time.wrapping_sub(now) }
}

fn absolute(time: u64, saved: i64) -> Millis {
    // A time before the clock began has passed.
    if time == NO_TIME { 0 } else { saved.saturating_add(time as i64).max(1) as Millis }
}

/// The numbers of a server.
fn numbers(live: &Live, now: Millis) -> [u64; NUMBERS] {
    let checks = match (live.unhealthy.load(Relaxed), live.checking.load(Relaxed)) {
        (1.., _) => UNHEALTHY,
        (0, 0) if live.figures.checks.done.load(Relaxed) > 0 => HEALTHY,
        _ => NOTHING,
    };
    [
        live.fails.load(Relaxed).into(),
        live.lost.load(Relaxed).into(),
        relative(live.window.load(Relaxed), now),
        relative(live.until.load(Relaxed), now),
        relative(live.recovered.load(Relaxed), now),
        relative(live.ejected.load(Relaxed), now),
        live.connect_average.load(Relaxed),
        live.header_average.load(Relaxed),
        live.last_byte_average.load(Relaxed),
        relative(live.measured.load(Relaxed), now),
        checks,
    ]
}

/// Adds a server to the bytes.
pub(crate) fn save(to: &mut Vec<u8>, (address, number): &(UpstreamAddress, usize), live: &Live, now: Millis) {
    if to.is_empty() {
        to.extend_from_slice(FORMAT);
        to.extend_from_slice(&since_1970().to_le_bytes());
    }
    let address = address.to_string();
    to.extend_from_slice(&(address.len() as u64).to_le_bytes());
    to.extend_from_slice(address.as_bytes());
    to.extend_from_slice(&(*number as u64).to_le_bytes());
    numbers(live, now).into_iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
}

/// Reads the servers that were saved, as far as the bytes are such.
pub(crate) fn read(saved: &[u8], now: Millis) -> CarriedServers {
    let mut carried = CarriedServers::default();
    let Some((then, mut rest)) = saved.strip_prefix(FORMAT).and_then(number) else { return carried };
    // The time of day may have been set back meanwhile.
    let passed = i64::try_from(since_1970().saturating_sub(then)).unwrap_or(i64::MAX);
    carried.saved = (now as i64).saturating_sub(passed);
    while let Some((key, numbers, more)) = read_one(rest).filter(|_| carried.servers.len() < MAX_SERVERS) {
        carried.servers.insert(key, numbers);
        rest = more;
    }
    carried
}

type CarriedServer<'s> = ((UpstreamAddress, usize), [u64; NUMBERS], &'s [u8]);

fn read_one(saved: &[u8]) -> Option<CarriedServer<'_>> {
    let (length, rest) = number(saved)?;
    let (address, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let address = std::str::from_utf8(address).ok()?;
    let address = match address.strip_prefix("unix:") {
        Some(path) => UpstreamAddress::Unix(path_of(path).into()),
        None => UpstreamAddress::Ip(address.parse::<SocketAddr>().ok()?),
    };
    let (nth, mut rest) = number(rest)?;
    let mut numbers = [0; NUMBERS];
    for one in &mut numbers {
        (*one, rest) = number(rest)?;
    }
    Some(((address, usize::try_from(nth).ok()?), numbers, rest))
}

fn number(saved: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = saved.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

impl CarriedServers {
    /// The server with what is known of it, if it is known.
    pub(crate) fn get(&self, key: &(UpstreamAddress, usize), held: u32) -> Option<Live> {
        Some(restore(self.servers.get(key)?, held, self.saved))
    }
}

/// A server with the facts that were saved at that time.
fn restore(numbers: &[u64; NUMBERS], held: u32, saved: i64) -> Live {
    let [fails, lost, window, until, recovered, ejected, connect, header, last_byte, measured, checks] = *numbers;
    let checks = if checks <= UNHEALTHY { checks } else { NOTHING };
    let live = Live::held(if checks == NOTHING { held } else { 0 });
    live.fails.store(u32::try_from(fails).unwrap_or(u32::MAX), Relaxed);
    live.lost.store(u32::try_from(lost).unwrap_or(u32::MAX), Relaxed);
    live.window.store(absolute(window, saved), Relaxed);
    live.until.store(absolute(until, saved), Relaxed);
    live.recovered.store(absolute(recovered, saved), Relaxed);
    live.ejected.store(absolute(ejected, saved), Relaxed);
    live.connect_average.store(connect, Relaxed);
    live.header_average.store(header, Relaxed);
    live.last_byte_average.store(last_byte, Relaxed);
    live.measured.store(absolute(measured, saved), Relaxed);
    if checks != NOTHING {
        live.carried.store((crate::clock::now() + CHECKS_COUNT) << 2 | checks, Relaxed);
    }
    live.note_state(crate::clock::now());
    live
}

/// Whether the checks of the old binary have found the server healthy, if they have found anything and it still counts.
pub(crate) fn checked(live: &Live, now: Millis) -> Option<bool> {
    let carried = live.carried.load(Relaxed);
    (carried >> 2 >= now && carried != 0).then_some(carried & 3 == HEALTHY)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::health::{CheckRules, CheckedState, ServerCheck};

    fn key(address: &str, number: usize) -> (UpstreamAddress, usize) {
        (UpstreamAddress::Ip(address.parse().unwrap()), number)
    }

    #[test]
    fn what_is_known_goes_on_with_another_clock() {
        let live = Live::default();
        live.fails.store(3, Relaxed);
        live.window.store(900_000, Relaxed);
        live.until.store(1_010_000, Relaxed);
        live.connect_average.store(33, Relaxed);
        live.header_average.store(77, Relaxed);
        live.last_byte_average.store(99, Relaxed);
        live.measured.store(999_000, Relaxed);
        let mut saved = Vec::new();
        let unix = (UpstreamAddress::Unix(path_of("/run/a").into()), 0);
        save(&mut saved, &key("127.0.0.1:80", 1), &live, 1_000_000);
        save(&mut saved, &unix, &Live::default(), 1_000_000);
        let carried = CarriedServers { saved: 5000, ..read(&saved, 5000) };
        assert_eq!(carried.servers.len(), 2);
        let new = carried.get(&key("127.0.0.1:80", 1), 0).unwrap();
        let averages = [&new.connect_average, &new.header_average, &new.last_byte_average];
        assert_eq!((new.fails.load(Relaxed), averages.map(|average| average.load(Relaxed))), (3, [33, 77, 99]));
        assert_eq!((new.window.load(Relaxed), new.until.load(Relaxed)), (1, 15_000));
        assert!(new.down_since().is_some(), "it is unavailable");
        assert_eq!((new.measured.load(Relaxed), new.ejected.load(Relaxed)), (4000, 0));
        let fresh = carried.get(&unix, 2).unwrap();
        assert_eq!((fresh.until.load(Relaxed), fresh.checking.load(Relaxed)), (0, 2));
        for length in 0..saved.len() {
            assert!(read(&saved[..length], 0).servers.len() < 2);
        }
        assert!(read(b"peers. 1", 0).servers.is_empty());
        // What was saved a minute ago ends a minute sooner.
        let then = since_1970() - 60_000;
        saved[8..16].copy_from_slice(&then.to_le_bytes());
        let later = read(&saved, 5000).get(&key("127.0.0.1:80", 1), 0).unwrap();
        assert_eq!(later.until.load(Relaxed), 1);
    }

    #[test]
    fn checks_begin_with_what_those_before_have_found() {
        let now = crate::clock::now();
        let old = Live::default();
        let watch = |live: &Arc<Live>, mandatory| {
            ServerCheck::new(live.clone(), CheckRules { mandatory, ..CheckRules::default() })
        };
        old.figures.checks.done.store(1, Relaxed);
        let healthy = Arc::new(restore(&numbers(&old, now), 1, now as i64));
        assert_eq!(healthy.checking.load(Relaxed), 0, "nothing has to be waited for");
        assert_eq!(watch(&healthy, true).state(), CheckedState::Healthy);
        old.unhealthy.store(1, Relaxed);
        let unhealthy = Arc::new(restore(&numbers(&old, now), 0, now as i64));
        let mut check = watch(&unhealthy, false);
        assert_eq!((check.state(), unhealthy.unhealthy.load(Relaxed)), (CheckedState::Unhealthy, 1));
        check.observe(true, now);
        assert_eq!(unhealthy.unhealthy.load(Relaxed), 0);
        drop(check);
        // Much later a check is a new one.
        unhealthy.carried.store(1 << 2 | UNHEALTHY, Relaxed);
        assert_eq!(checked(&unhealthy, 2), None);
        assert_eq!(checked(&Live::default(), 0), None);
    }
}
