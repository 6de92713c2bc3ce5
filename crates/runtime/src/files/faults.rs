//! A disk that fails, fills up or hangs on demand, for tests of code that stores files.

use std::ffi::CStr;
use std::io::IoSlice;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::FileSystem;
use super::kernel::{Kernel, Linux};
use crate::mounts::Mounts;
use crate::pool::ThreadPool;

/// The behaviour of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FaultBehaviour {
    /// The call does what the system does.
    #[default]
    None,
    /// The call fails with this number.
    Fail(i32),
    /// The call waits until the rule is changed.
    Hang,
}

#[derive(Debug, Default)]
struct FaultState {
    write: FaultBehaviour,
    /// The number of bytes that are still written before the fault.
    after: u64,
    read: FaultBehaviour,
    open: FaultBehaviour,
    name: FaultBehaviour,
    waiting: usize,
}

/// The rules of such a disk. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<(Mutex<FaultState>, Condvar)>);

impl Faults {
    /// Files on a disk with these rules. Reads that need not wait go to the pool all the same, so that the rules apply
    /// to them.
    ///
    /// # Errors
    /// See [`FileSystem::new`].
    pub fn files(&self, pool: Arc<ThreadPool>) -> std::io::Result<Arc<FileSystem>> {
        Ok(FileSystem::with(Box::new(self.clone()), Mounts::watch()?, pool))
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut FaultState)) {
        change(&mut self.state());
        self.0.1.notify_all();
    }

    /// Makes writing behave in this way, after `after` more bytes.
    pub fn write(&self, fault: FaultBehaviour, after: u64) {
        self.set(|state| (state.write, state.after) = (fault, after));
    }

    /// Makes reading behave in this way.
    pub fn read(&self, fault: FaultBehaviour) {
        self.set(|state| state.read = fault);
    }

    /// Makes opening and making files behave in this way.
    pub fn open(&self, fault: FaultBehaviour) {
        self.set(|state| state.open = fault);
    }

    /// Makes naming files behave in this way.
    pub fn name(&self, fault: FaultBehaviour) {
        self.set(|state| state.name = fault);
    }

    /// Ends all faults: no call fails or hangs any more.
    pub fn clear(&self) {
        self.set(|state| {
            (state.write, state.read) = (FaultBehaviour::None, FaultBehaviour::None);
            (state.open, state.name) = (FaultBehaviour::None, FaultBehaviour::None);
        });
    }

    /// The number of calls that hang.
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    fn meet(&self, which: impl Fn(&FaultState) -> FaultBehaviour) -> Result<(), Errno> {
        let mut state = self.state();
        loop {
            match which(&state) {
                FaultBehaviour::None => return Ok(()),
                FaultBehaviour::Fail(errno) => return Err(Errno::from_raw_os_error(errno)),
                FaultBehaviour::Hang => {
                    state.waiting += 1;
                    state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.waiting -= 1;
                }
            }
        }
    }
}

impl Kernel for Faults {
    fn open_cached(&self, _: &CStr) -> Result<OwnedFd, Errno> {
        Err(Errno::AGAIN)
    }

    fn name_cached(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        if path == c"/" { Linux.name_cached(path) } else { Err(Errno::AGAIN) }
    }

    fn open(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        self.meet(|state| state.open)?;
        Linux.open(path)
    }

    fn read_nowait(&self, _: BorrowedFd<'_>, _: &mut [u8], _: u64) -> Result<usize, Errno> {
        Err(Errno::AGAIN)
    }

    fn read(&self, fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.meet(|state| state.read)?;
        Linux.read(fd, buffer, offset)
    }

    fn write(&self, fd: BorrowedFd<'_>, data: &[u8], offset: u64) -> Result<usize, Errno> {
        self.write_many(fd, &[IoSlice::new(data)], offset)
    }

    fn write_many(&self, fd: BorrowedFd<'_>, data: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        let len: usize = data.iter().map(|slice| slice.len()).sum();
        self.meet(|state| if state.after >= len as u64 { FaultBehaviour::None } else { state.write })?;
        let wrote = Linux.write_many(fd, data, offset)?;
        self.set(|state| state.after = state.after.saturating_sub(wrote as u64));
        Ok(wrote)
    }

    fn admit(&self, call: &'static str) -> Result<(), Errno> {
        match call {
            "open()" => self.meet(|state| state.open),
            _ => self.meet(|state| state.name),
        }
    }
}
