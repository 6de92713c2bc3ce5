//! Changes of files and folders, as the kernel reports them: inotify(7), and the changes of the mount table.
//!
//! A change is in the queue of a [`Watcher`] when the system call that makes it returns. There are two exceptions:
//! bytes that are written through a shared mapping, and those that are written by Linux's own asynchronous interface
//! (io_submit(2)), are not reported.

mod path_watch;

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{Timespec, epoll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

pub use path_watch::{WatchResult, WatchedPath, watch_way};

/// Events of a folder on the way to a file: changes of the target of its names, and of the right to use it. Events
/// about new names are left out: only what exists is kept.
const FOLDER: WatchFlags = WatchFlags::DELETE
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);
/// Events of a file: its bytes, its attributes and its names.
const FILE: WatchFlags =
    WatchFlags::MODIFY.union(WatchFlags::ATTRIB).union(WatchFlags::DELETE_SELF).union(WatchFlags::MOVE_SELF);

/// Events of a folder for the files in it: their names, their bytes, and the folder's own place.
const CONTENTS: WatchFlags = WatchFlags::DELETE
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Number of changes that are taken at a time; with more, everything may have changed. The kernel's queue has half as
/// many places by default (`fs.inotify.max_queued_events`).
const MOST_CHANGES: usize = 32 * 1024;
/// The bytes of changes that are read at a time.
const READ: usize = 16 * 1024;

/// The keys of the two descriptors in the epoll instance.
const CHANGES: u64 = 0;
const MOUNTS: u64 = 1;

/// Watches of files and folders, and of the mount table.
#[derive(Debug)]
pub struct Watcher {
    changes: OwnedFd,
    both: OwnedFd,
    /// The mount table: only what epoll says of it counts.
    _mounts: OwnedFd,
}

/// Kinds of things that have changed.
#[derive(Debug, Clone, Copy)]
pub struct News {
    /// Watched files or folders.
    changes: bool,
    /// The mount table.
    mounts: bool,
}

/// A change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange<'c> {
    /// In the folder of this watch, this name leads elsewhere, or what it leads to has other attributes.
    Name(i32, &'c [u8]),
    /// The file or folder of this watch itself has changed, was moved or removed, or the watch has ended.
    Itself(i32),
    /// Anything may have changed: a file system was mounted or unmounted, or there were too many changes.
    Anything,
}

thread_local! {
    /// The watchers of this thread that nobody uses, as many as were ever used at a time: one for each generation that
    /// serves. They are kept to the end of the thread, for closing one waits.
    static SPARE: RefCell<Vec<Arc<Watcher>>> = const { RefCell::new(Vec::new()) };
}

impl Watcher {
    /// A watcher for the use of this thread's loop: a watcher that was [given back](Watcher::give_back), or else a new one.
    ///
    /// # Errors
    /// The number of inotify instances that a user may have is reached (`fs.inotify.max_user_instances`); there is no
    /// `/proc`.
    pub fn take() -> io::Result<Arc<Watcher>> {
        match SPARE.with_borrow_mut(Vec::pop) {
            Some(watcher) => Ok(watcher),
            None => Watcher::new().map(Arc::new),
        }
    }

    /// Gives a watcher back whose watches are all removed.
    pub fn give_back(watcher: Arc<Watcher>) {
        // On a thread that is ending there is no place for it; then it is closed.
        let _ = SPARE.try_with(|spare| spare.borrow_mut().push(watcher));
    }

    /// A watcher that belongs to no loop.
    ///
    /// # Errors
    /// As for [`take`](Watcher::take).
    pub fn new() -> io::Result<Watcher> {
        let changes = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounts = rustix::fs::open("/proc/self/mountinfo", flags, Mode::empty())?;
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&both, &changes, epoll::EventData::new_u64(CHANGES), epoll::EventFlags::IN)?;
        // The table can always be read; a change of it is an exceptional condition (proc_pid_mountinfo(5)).
        epoll::add(&both, &mounts, epoll::EventData::new_u64(MOUNTS), epoll::EventFlags::PRI)?;
        Ok(Watcher { changes, both, _mounts: mounts })
    }

    /// Watches an open file.
    ///
    /// # Errors
    /// The error of `inotify_add_watch(2)`: most often `ENOSPC`, when the user has as many watches as allowed
    /// (`fs.inotify.max_user_watches`).
    pub fn add_file(&self, file: impl AsFd) -> Result<i32, Errno> {
        self.add(file.as_fd(), FILE)
    }

    /// Watches an open folder. With `bytes`, it also reports that the bytes of a file in it have changed.
    fn add_folder(&self, folder: BorrowedFd<'_>, bytes: bool) -> Result<i32, Errno> {
        self.add(folder, if bytes { FOLDER | WatchFlags::MODIFY } else { FOLDER })
    }

    /// Watches the files of an open folder: that their names are removed or given to other files, that their bytes
    /// change, and that the folder itself is moved or removed. New names and attributes are not reported.
    ///
    /// # Errors
    /// As for [`add_file`](Watcher::add_file).
    pub fn add_contents(&self, folder: impl AsFd) -> Result<i32, Errno> {
        self.add(folder.as_fd(), CONTENTS)
    }

    /// The descriptor's link in `/proc` leads to its file without a lookup that could wait.
    fn add(&self, fd: BorrowedFd<'_>, flags: WatchFlags) -> Result<i32, Errno> {
        inotify::add_watch(&self.changes, format!("/proc/self/fd/{}", fd.as_raw_fd()), flags)
    }

    /// Ends a watch. A watch that has ended by itself is no error.
    pub fn remove(&self, watch: i32) {
        let _ = inotify::remove_watch(&self.changes, watch);
    }

    /// Whether something has changed since the last call, and what kind of things: `None` if nothing has. It does not
    /// wait, and costs one system call. What it returns has to be [taken](Watcher::take_news), since the kernel says only
    /// once that a file system was mounted.
    #[inline]
    pub fn news(&self) -> Option<News> {
        let mut events = [MaybeUninit::uninit(); 2];
        match epoll::wait(&self.both, &mut events[..], Some(&NOW)) {
            Ok(([], _)) => None,
            Ok((events, _)) => {
                let has = |key| events.iter().any(|event| event.data.u64() == key);
                Some(News { changes: has(CHANGES), mounts: has(MOUNTS) })
            }
            Err(_) => Some(News { changes: true, mounts: true }),
        }
    }

    /// Calls `tell` with each change.
    pub fn take_news(&self, news: News, mut tell: impl FnMut(FileChange<'_>)) {
        if news.mounts {
            tell(FileChange::Anything);
        }
        if news.changes {
            self.take_changes(&mut tell);
        }
    }

    fn take_changes(&self, tell: &mut impl FnMut(FileChange<'_>)) {
        let mut buffer = [MaybeUninit::uninit(); READ];
        let mut reader = inotify::Reader::new(&self.changes, &mut buffer);
        for _ in 0..MOST_CHANGES {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            let name = event.file_name().map(|name| name.to_bytes()).filter(|name| !name.is_empty());
            match name {
                _ if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => tell(FileChange::Anything),
                Some(name) => tell(FileChange::Name(event.wd(), name)),
                None => tell(FileChange::Itself(event.wd())),
            }
        }
        tell(FileChange::Anything);
    }
}

/// A wait that asks only.
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

#[cfg(test)]
mod tests;
