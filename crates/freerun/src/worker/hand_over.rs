//! States that the worker of an old binary gives to the worker of a new one, so that it does not begin with nothing.
//! They are the states of zones, TLS sessions with the keys of tickets, and facts about upstream servers (see
//! `Zones::save`).
//!
//! The new worker asks with one byte, just before it serves; the old one answers with its states at that time. With
//! `WINCH`, a worker ends while its master stays: it writes its states to a file in memory, for the worker that may
//! follow it. Each state has a frame: the lengths of its name (`u32`) and of its bytes (`u64`, both little-endian), the
//! name, the bytes. A frame without a name is the last one. Neither worker relies on what the other does: what is
//! missing begins anew.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use freerun_serve::configuration::zones::{ArrivedStates, StateBytes, Zones};
use freerun_serve::tls::files::append_wiping;
use rustix::net::sockopt::socket_type;

/// The byte that the new worker sends when it can take the states.
const ASK: u8 = b'?';

/// The longest name of a state.
const MAX_NAME: usize = 4096;

/// The most states.
const MAX_STATES: usize = 1 << 16;

/// The most bytes of all states together. What would go beyond is left out.
const MAX_TOTAL: usize = 1 << 30;

/// The step in bytes of the memory for a state: it grows with the bytes that have come, not with the announced length.
const STEP: usize = 1 << 20;

/// The longest time in which one write makes no progress, and the longest time of all writes. The new worker does not
/// serve yet meanwhile, and the old one reads no message of its master; the loops of both go on.
const PATIENCE: Duration = Duration::from_secs(5);
const ALL_PATIENCE: Duration = Duration::from_secs(20);

/// The old worker's end: whether the new one asks, or is gone, can be polled.
pub struct Successor(UnixStream);

impl Successor {
    /// The way to the worker of a new binary.
    ///
    /// # Errors
    /// The error of setsockopt(2).
    pub fn new(socket: UnixStream) -> io::Result<Successor> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Successor(socket))
    }

    /// Answers the new worker's request. Returns the number of states; there are none if the new worker is gone.
    ///
    /// # Errors
    /// The new worker is gone, or does not read.
    pub fn answer(mut self, zones: &Zones) -> io::Result<usize> {
        let mut asked = [0];
        if self.0.read(&mut asked)? == 0 || asked[0] != ASK {
            return Ok(0);
        }
        write(zones, &mut self.0)
    }
}

/// Writes the states to a file, for [`take`]. Returns how many there are.
///
/// # Errors
/// The error of write(2).
pub fn save(zones: &Zones, file: OwnedFd) -> io::Result<usize> {
    write(zones, &mut File::from(file))
}

fn write(zones: &Zones, to: &mut impl Write) -> io::Result<usize> {
    let (begun, mut total, mut count) = (Instant::now(), 0, 0);
    for (name, save) in zones.save() {
        let Some(state) = save() else { continue };
        let is_full = count == MAX_STATES || total + state.len() > MAX_TOTAL;
        if name.len() > MAX_NAME || is_full || begun.elapsed() > ALL_PATIENCE {
            continue;
        }
        total += state.len();
        count += 1;
        to.write_all(&head(name.len(), state.len()))?;
        to.write_all(name.as_bytes())?;
        to.write_all(&state)?;
    }
    to.write_all(&head(0, 0))?;
    Ok(count)
}

impl std::os::fd::AsFd for Successor {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn head(name: usize, state: usize) -> [u8; 12] {
    let mut head = [0; 12];
    // Neither is larger than its constant.
    head[..4].copy_from_slice(&(name as u32).to_le_bytes());
    head[4..].copy_from_slice(&(state as u64).to_le_bytes());
    head
}

/// Asks the worker of the old binary for its states and waits for them, or reads the file of a worker that has gone. An
/// error comes with the states that are complete.
pub fn take(from: OwnedFd) -> (ArrivedStates, io::Result<()>) {
    let mut arrived = ArrivedStates::default();
    let result = take_all(from, &mut arrived);
    (arrived, result)
}

fn take_all(from: OwnedFd, arrived: &mut ArrivedStates) -> io::Result<()> {
    if socket_type(&from).is_err() {
        return read(&mut File::from(from), arrived);
    }
    let mut socket = UnixStream::from(from);
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.write_all(&[ASK])?;
    read(&mut Until { socket, end: Instant::now() + ALL_PATIENCE }, arrived)
}

/// A socket that is read until this time.
struct Until {
    socket: UnixStream,
    end: Instant,
}

impl Read for Until {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        self.socket.read(buffer)
    }
}

fn read(from: &mut impl Read, arrived: &mut ArrivedStates) -> io::Result<()> {
    let (mut total, mut count) = (0_usize, 0);
    let mut piece = StateBytes::new(vec![0; STEP]);
    loop {
        let mut head = [0; 12];
        from.read_exact(&mut head)?;
        let [a, b, c, d, state @ ..] = head;
        let name = u32::from_le_bytes([a, b, c, d]) as usize;
        let size = usize::try_from(u64::from_le_bytes(state)).unwrap_or(usize::MAX);
        if name == 0 {
            return Ok(());
        }
        (total, count) = (total.saturating_add(size), count + 1);
        if name > MAX_NAME || total > MAX_TOTAL || count > MAX_STATES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the states are too large or too many"));
        }
        let mut text = vec![0; name];
        from.read_exact(&mut text)?;
        let text = String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut state = StateBytes::default();
        while state.len() < size {
            let piece = &mut piece[..(size - state.len()).min(STEP)];
            from.read_exact(piece)?;
            append_wiping(&mut state, piece);
        }
        arrived.put(text, state);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use freerun_serve::configuration::zones::ZoneTable;

    use super::*;

    fn zones(states: &[(&str, usize)]) -> Zones {
        let mut table = ZoneTable::default();
        for (name, size) in states {
            let save = |size: &usize| Some(StateBytes::new(vec![*size as u8; *size]));
            table.carry(name, &Arc::new(*size), save);
        }
        table.zones()
    }

    #[test]
    fn states_go_over_whole_and_under_their_names() {
        let (one, other) = UnixStream::pair().unwrap();
        let giving = std::thread::spawn(move || {
            let zones = zones(&[("a", 5), ("empty", 0), ("large", 3 * STEP + 7)]);
            Successor::new(one).unwrap().answer(&zones).unwrap()
        });
        let (arrived, result) = take(other.into());
        result.unwrap();
        assert_eq!(giving.join().unwrap(), 3);
        let size = |name| arrived.get(name).map(|state| state.len());
        assert_eq!((size("a"), size("empty"), size("large")), (Some(5), Some(0), Some(3 * STEP + 7)));
        assert_eq!(size("b"), None);
    }

    #[test]
    fn states_are_not_taken_without_end() {
        let frame = [&head(1, 0)[..], b"a"].concat();
        let end = head(0, 0);
        for (count, is_taken) in [(MAX_STATES, true), (MAX_STATES + 1, false)] {
            let frames = [&frame.repeat(count)[..], &end].concat();
            assert_eq!(read(&mut &frames[..], &mut ArrivedStates::default()).is_ok(), is_taken, "{count}");
        }
        let (mut one, other) = UnixStream::pair().unwrap();
        one.write_all(&frame).unwrap();
        let over = Until { socket: other, end: Instant::now() }.read(&mut [0]).unwrap_err();
        assert_eq!(over.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn states_wait_in_a_file_for_the_next_worker() {
        let file = rustix::fs::memfd_create("states", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let again = |file: &OwnedFd| {
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
            OwnedFd::from(File::open(path).unwrap())
        };
        assert!(take(again(&file)).1.is_err(), "nothing was written");
        let saved = save(&zones(&[("a", 5), ("b", 6)]), file.try_clone().unwrap());
        assert_eq!(saved.unwrap(), 2);
        for _ in 0..2 {
            let (arrived, result) = take(again(&file));
            result.unwrap();
            assert_eq!(arrived.len(), 2);
        }
    }

    #[test]
    fn neither_side_relies_on_the_other() {
        // The new worker is gone, or no worker of freerun.
        let (one, other) = UnixStream::pair().unwrap();
        drop(other);
        assert_eq!(Successor::new(one).unwrap().answer(&zones(&[("a", 1)])).unwrap(), 0);
        let (one, mut other) = UnixStream::pair().unwrap();
        other.write_all(b"x").unwrap();
        assert_eq!(Successor::new(one).unwrap().answer(&zones(&[("a", 1)])).unwrap(), 0);
        // The old worker is gone, or dies in between: what is complete counts.
        let (one, mut other) = UnixStream::pair().unwrap();
        other.write_all(&head(1, 2)).unwrap();
        other.write_all(b"abc").unwrap();
        other.write_all(&head(1, 100)).unwrap();
        other.shutdown(std::net::Shutdown::Write).unwrap();
        let (arrived, result) = take(one.into());
        assert!(result.is_err());
        assert_eq!(arrived.get("a").map(|state| state.to_vec()), Some(b"bc".to_vec()));
        // Lengths that nobody could mean.
        for wrong in [head(MAX_NAME + 1, 0), head(1, usize::MAX), [0xff; 12]] {
            let (one, mut other) = UnixStream::pair().unwrap();
            other.write_all(&wrong).unwrap();
            assert!(take(one.into()).1.is_err());
        }
    }
}
