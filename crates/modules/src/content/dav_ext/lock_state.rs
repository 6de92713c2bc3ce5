//! Locks as bytes, for the worker of another binary: a client that holds one relies on it.

use std::time::{Duration, Instant};

use freerun_runtime::log::clock;
use freerun_runtime::loops;
use freerun_serve::configuration::zones::StateBytes;

use super::locks::{Lock, Locks};

/// The first bytes, which name the format. The time in milliseconds since 1970 follows, then the locks. A lock is its
/// path, root, token and owner, each behind its length, and whether it is deep (1) and shared (2). Then come the
/// milliseconds that it lasts from a refresh on, and from the saved time on. Numbers are `u64`.
const FORMAT: &[u8; 8] = b"locks. 1";

/// The locks that are not over.
pub(super) fn save(locks: &Locks) -> StateBytes {
    let now = Instant::now();
    let mut saved = StateBytes::new(FORMAT.to_vec());
    let number = |saved: &mut StateBytes, number: u64| saved.extend_from_slice(&number.to_le_bytes());
    number(&mut saved, loops::millis_of(clock::since_1970()));
    for lock in locks.all(now) {
        for text in [&lock.path[..], &lock.root, lock.token.as_bytes(), lock.owner.as_bytes()] {
            number(&mut saved, text.len() as u64);
            saved.extend_from_slice(text);
        }
        number(&mut saved, u64::from(lock.deep) | u64::from(lock.shared) << 1);
        number(&mut saved, loops::millis_of(lock.time));
        number(&mut saved, loops::millis_of(lock.end.saturating_duration_since(now)));
    }
    saved
}

/// Adds the locks that were saved, as far as the bytes are such, there is room, and they are not over.
pub(super) fn restore(locks: &Locks, saved: &[u8]) {
    let now = Instant::now();
    let Some((then, mut rest)) = saved.strip_prefix(FORMAT).and_then(number) else { return };
    let passed = Duration::from_millis(loops::millis_of(clock::since_1970()).saturating_sub(then));
    while let Some((lock, left, more)) = next(rest, now) {
        rest = more;
        if let Some(left) = left.checked_sub(passed).filter(|left| !left.is_zero())
            && let Some(end) = now.checked_add(left)
        {
            // One for which there is no room is as good as over.
            let _ = locks.add(Lock { end, ..lock }, now);
        }
    }
}

fn number(saved: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = saved.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

fn text(saved: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(saved)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// The first of the locks that were saved, how long it lasts, and what follows it.
fn next(saved: &[u8], now: Instant) -> Option<(Lock, Duration, &[u8])> {
    let (path, rest) = text(saved)?;
    let (root, rest) = text(rest)?;
    let (token, rest) = text(rest)?;
    let (owner, rest) = text(rest)?;
    let (flags, rest) = number(rest)?;
    let (time, rest) = number(rest)?;
    let (left, rest) = number(rest)?;
    let lock = Lock {
        path: path.into(),
        root: root.into(),
        deep: flags & 1 != 0,
        shared: flags & 2 != 0,
        token: std::str::from_utf8(token).ok()?.into(),
        owner: std::str::from_utf8(owner).ok()?.into(),
        time: Duration::from_millis(time),
        end: now,
    };
    Some((lock, Duration::from_millis(left), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_go_on_in_another_process() {
        let now = Instant::now();
        let hour = Duration::from_secs(3600);
        let lock = |path: &str, deep, end| Lock {
            path: path.as_bytes().into(),
            root: format!("/dav{path}").into_bytes().into(),
            deep,
            shared: false,
            token: format!("urn:{path}").into(),
            owner: "<D:href>a</D:href>".into(),
            time: 2 * hour,
            end,
        };
        let old = Locks::new(1 << 20);
        old.add(lock("/a", true, now + hour), now).unwrap();
        old.add(lock("/b", false, now + hour), now).unwrap();
        let mut saved = save(&old);
        let new = Locks::new(1 << 20);
        restore(&new, &saved);
        let found = new.covering(b"/a/c", now);
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&found.token[..], &found.root[..], found.time), ("urn:/a", &b"/dav/a"[..], 2 * hour));
        assert!(found.end > now && found.end <= now + 2 * hour);
        assert_eq!(new.covering(b"/b", now).len(), 1);

        for length in 0..saved.len() {
            let cut = Locks::new(1 << 20);
            restore(&cut, &saved[..length]);
            assert!(cut.all(now).len() < 2);
        }
        // Two hours later they are over.
        let then = loops::millis_of(clock::since_1970() - 2 * hour);
        saved[8..16].copy_from_slice(&then.to_le_bytes());
        let late = Locks::new(1 << 20);
        restore(&late, &saved);
        assert!(late.all(now).is_empty());
    }
}
