//! The worker as the master sees it: a process with a channel, or (`master_process off`) the worker itself.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use freerun_runtime::log::Level;

use super::oom_score;
use super::state::State;
use crate::bundle::{Bundle, ToWorker};
use crate::channel::{Channel, Limits};
use crate::error::Error;
use crate::worker::MARKER;
use crate::writable::WritableFolders;

/// A worker that ends sooner than this after its start is started again with a delay.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// The first delay; it doubles with each short life.
const FIRST_DELAY: Duration = Duration::from_millis(50);

/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// A worker process.
pub struct Process {
    child: Child,
    /// The channel to the worker.
    pub channel: Channel,
    started: Instant,
    /// The number of the process among those that serve the same sockets of QUIC, once it has message boxes.
    pub number: Option<u8>,
    /// The folders that it may write to, whatever configuration it gets later.
    pub writable: WritableFolders,
}

impl Process {
    /// Executes this program again, even if its file has been replaced or removed, for a worker that gets the bundle of
    /// this configuration. The worker gets the environment variables of the configuration and no others, and `stderr` if
    /// it must not have the master's.
    pub fn spawn(state: &State, stderr: Option<OwnedFd>) -> Result<Process, Error> {
        let (channel, theirs) = Channel::pair(Limits::FROM_WORKER).map_err(Error::call("socketpair()"))?;
        let child = Command::new("/proc/self/exe")
            .arg0("freerun: worker process")
            .env_clear()
            .envs(state.environment.iter().map(|(name, value)| (name, value)))
            .env(MARKER, "1")
            .stdin(Stdio::from(theirs))
            .stderr(stderr.map_or_else(Stdio::inherit, Stdio::from))
            .spawn()
            .map_err(Error::named("execve", "/proc/self/exe"))?;
        oom_score::give_up(child.id());
        let writable = state.writable.clone();
        Ok(Process { child, channel, started: Instant::now(), number: None, writable })
    }

    /// The worker's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a bundle.
    pub fn send_bundle(&self, bundle: &Bundle, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        self.channel.send(&ToWorker::Bundle(Box::new(bundle.clone())), fds)
    }

    /// The worker's exit status, if it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Kills the worker and waits for its end, which SIGKILL guarantees.
    pub fn kill(&mut self) -> Option<ExitStatus> {
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

/// The end of a worker in nginx's words: `exited with code 1`, `exited on signal 9`, `… (core dumped)`.
pub fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let core = if status.core_dumped() { " (core dumped)" } else { "" };
            format!("exited on signal {signal}{core}")
        }
        (None, code) => format!("exited with code {}", code.unwrap_or_default()),
    }
}

/// The level of the message about an end, as in nginx: an end that a process did not choose is an alert.
pub fn level_of(status: ExitStatus) -> Level {
    if status.code().is_some() { Level::Notice } else { Level::Alert }
}

/// The delay before the next worker is started.
#[derive(Debug, Default)]
pub struct Backoff {
    short_lives: u32,
}

impl Backoff {
    /// The pause before the next start, after a worker that lived this long: none, unless workers repeatedly live for a
    /// short time.
    pub fn after(&mut self, lived: Duration) -> Duration {
        if lived >= SHORT_LIFE {
            self.short_lives = 0;
            return Duration::ZERO;
        }
        self.short_lives += 1;
        match self.short_lives {
            1 => Duration::ZERO,
            lives => (FIRST_DELAY * 2_u32.saturating_pow(lives - 2).min(1 << 16)).min(LONGEST_DELAY),
        }
    }

    /// The pause before the next start, after this worker process.
    pub fn after_process(&mut self, process: &Process) -> Duration {
        self.after(process.started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_die_young_are_started_with_growing_delays() {
        let mut backoff = Backoff::default();
        let young = Duration::from_millis(10);
        let pauses: Vec<u128> = (0..10).map(|_| backoff.after(young).as_millis()).collect();
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(backoff.after(SHORT_LIFE), Duration::ZERO);
        assert_eq!(backoff.after(young), Duration::ZERO, "one long life forgives");
        for _ in 0..100 {
            assert!(backoff.after(young) <= LONGEST_DELAY);
        }
    }

    #[test]
    fn ends_are_told_as_nginx_tells_them() {
        assert_eq!(describe(ExitStatus::from_raw(9)), "exited on signal 9");
        assert_eq!(describe(ExitStatus::from_raw(11 | 0x80)), "exited on signal 11 (core dumped)");
        assert_eq!(describe(ExitStatus::from_raw(2 << 8)), "exited with code 2");
    }
}
