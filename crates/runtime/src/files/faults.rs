//! A disk that fails, fills up or hangs when a test says so, for tests of what stores files.

use std::ffi::CStr;
use std::io::IoSlice;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::FileSystem;
use super::kernel::{Kernel, Linux};
use crate::mounts::Mounts;
use crate::pool::ThreadPool;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// What the system does.
    #[default]
    None,
    /// It fails with this number.
    Fail(i32),
    /// It waits until this is changed.
    Hang,
}

#[derive(Debug, Default)]
struct State {
    write: Fault,
    /// So many bytes more are written before that.
    after: u64,
    read: Fault,
    open: Fault,
    name: Fault,
    waiting: usize,
}

/// The rules of such a disk. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<(Mutex<State>, Condvar)>);

impl Faults {
    /// Files on a disk with these rules. What would be read without waiting is read by the pool, so that the rules see it.
    ///
    /// # Errors
    /// As [`FileSystem::new`].
    pub fn files(&self, pool: Arc<ThreadPool>) -> std::io::Result<Arc<FileSystem>> {
        Ok(FileSystem::with(Box::new(self.clone()), Mounts::watch()?, pool))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.0.1.notify_all();
    }

    /// Writing, after so many bytes more.
    pub fn write(&self, fault: Fault, after: u64) {
        self.set(|state| (state.write, state.after) = (fault, after));
    }

    /// Makes reading fail, or hang, in this way.
    pub fn read(&self, fault: Fault) {
        self.set(|state| state.read = fault);
    }

    /// Opening and making files.
    pub fn open(&self, fault: Fault) {
        self.set(|state| state.open = fault);
    }

    /// Giving files their names.
    pub fn name(&self, fault: Fault) {
        self.set(|state| state.name = fault);
    }

    /// Nothing fails and nothing hangs any more.
    pub fn clear(&self) {
        self.set(|state| {
            (state.write, state.read) = (Fault::None, Fault::None);
            (state.open, state.name) = (Fault::None, Fault::None);
        });
    }

    /// How many calls hang.
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    fn meet(&self, which: impl Fn(&State) -> Fault) -> Result<(), Errno> {
        let mut state = self.state();
        loop {
            match which(&state) {
                Fault::None => return Ok(()),
                Fault::Fail(errno) => return Err(Errno::from_raw_os_error(errno)),
                Fault::Hang => {
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
        self.meet(|state| if state.after >= len as u64 { Fault::None } else { state.write })?;
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
