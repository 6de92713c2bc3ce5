//! Signals as flags and a pipe to poll.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

/// Signals that are nobody's order to a server, and whose default is to end the process. They come from an alarm or a
/// timer set before this program was executed, or from a descriptor that somebody has made asynchronous. A limit of a
/// file's size sends one, too, and the write fails. nginx ignores the first three as well.
const STRAY: [Signal; 8] = [
    Signal::ALARM,
    Signal::IO,
    Signal::SYS,
    Signal::VTALARM,
    Signal::PROF,
    Signal::POWER,
    Signal::STKFLT,
    Signal::XFSZ,
];

/// Has the process live on when one of these signals comes. They have a handler, because what is ignored stays so in programs
/// that are executed.
pub fn survive_stray() -> io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    for signal in STRAY {
        signal_hook::flag::register(signal.as_raw(), unread.clone())?;
    }
    Ok(())
}

/// The signals that are handled here. A process needs one such value at most.
pub struct Signals {
    flags: Vec<(i32, Arc<AtomicBool>)>,
    pipe: UnixStream,
}

impl Signals {
    /// Handles these signals from now on.
    pub fn new(signals: &[i32]) -> io::Result<Signals> {
        let (pipe, end) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        end.set_nonblocking(true)?;
        let mut flags = Vec::new();
        for &signal in signals {
            let flag = Arc::new(AtomicBool::new(false));
            // The order matters: when the pipe wakes a thread, the flag is set.
            signal_hook::flag::register(signal, flag.clone())?;
            signal_hook::low_level::pipe::register(signal, end.try_clone()?)?;
            flags.push((signal, flag));
        }
        Ok(Signals { flags, pipe })
    }

    /// Empties the pipe and takes the signals that have come, each once, in the order they were registered in.
    pub fn take(&mut self) -> Vec<i32> {
        let mut buffer = [0; 64];
        while matches!(self.pipe.read(&mut buffer), Ok(n) if n > 0) {}
        let came = |(signal, flag): &(i32, Arc<AtomicBool>)| flag.swap(false, Ordering::SeqCst).then_some(*signal);
        self.flags.iter().filter_map(came).collect()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use signal_hook::consts::{SIGUSR2, SIGWINCH};

    #[test]
    fn signals_wake_a_poll_and_are_taken_once() {
        let mut signals = Signals::new(&[SIGWINCH, SIGUSR2]).unwrap();
        assert!(signals.take().is_empty());
        for signal in [SIGUSR2, SIGWINCH, SIGWINCH] {
            signal_hook::low_level::raise(signal).unwrap();
        }
        let long = Timespec { tv_sec: 60, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&signals, PollFlags::IN)], Some(&long)).unwrap();
        assert_eq!(ready, 1);
        assert_eq!(signals.take(), [SIGWINCH, SIGUSR2]);
        assert!(signals.take().is_empty());
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&signals, PollFlags::IN)], Some(&now)).unwrap(), 0);
    }
}
