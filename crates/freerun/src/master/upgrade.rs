//! The state of a change of the binary, as each of the two masters knows it.

use std::os::fd::OwnedFd;
use std::process::Child;

use rustix::process::{Pid, getppid};

use super::listeners::OtherBinaries;

/// The part that a master has in a change of the binary.
#[derive(Default)]
pub struct Upgrade {
    /// The new binary that this process has started, while it lives.
    pub new: Option<Child>,
    /// The old binary that has started this process.
    pub old: Option<Pid>,
    /// The worker was told to end (`WINCH`), and no other one is to be started.
    pub paused: bool,
    /// `USR2` has come while a configuration was on its way to the worker.
    pub wanted: bool,
    /// A file in memory with the states of the worker that has gone, for the next one.
    pub states: Option<OwnedFd>,
}

impl Upgrade {
    /// The part of a process that this old binary has started, if one has.
    pub fn of(old: Option<Pid>) -> Upgrade {
        Upgrade { old, ..Upgrade::default() }
    }

    /// The processes that use the same sockets.
    pub fn others(&self) -> OtherBinaries {
        OtherBinaries { old_binary: self.old.is_some() && getppid() == self.old, new_binary: self.new.is_some() }
    }

    /// The process id of the new binary, while it lives.
    pub fn new_binary(&self) -> Option<u32> {
        self.new.as_ref().map(Child::id)
    }
}
