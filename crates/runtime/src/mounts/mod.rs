//! The mounts of the namespace, and the record of each: the probe that it supports, and its behaviour so far.
//!
//! The table comes from `/proc/self/mountinfo` (proc_pid_mountinfo(5)) and is read again by a thread of its own when
//! the kernel says that it changed. Loops read it without a lock.

mod class;
mod state;
mod table;

use std::io;
use std::sync::{Arc, Weak};
use std::thread;

use arc_swap::{ArcSwap, Guard};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::time::Timespec;

pub use class::Class;
pub use state::{Density, Mount, MountStatus, Rung, STALL};
pub use table::{MAX_LEARNED, MAX_MOUNTS, MountTable};

const MOUNTINFO: &str = "/proc/self/mountinfo";
/// The most bytes of the mount table that are read; [`MAX_MOUNTS`] lines of usual length fit well.
const MAX_MOUNTINFO: usize = 4 << 20;
/// Interval at which the watching thread looks whether it is still needed, in seconds.
const WATCH_TICK: i64 = 2;

/// The mount table, kept current.
#[derive(Debug)]
pub struct Mounts {
    table: ArcSwap<MountTable>,
}

impl Mounts {
    /// Reads the table and starts the thread that watches it. Without `/proc` the table stays empty, and mounts are
    /// learned file by file.
    ///
    /// # Errors
    /// The thread cannot be made.
    pub fn watch() -> io::Result<Arc<Mounts>> {
        let mounts = Arc::new(Mounts { table: ArcSwap::from_pointee(MountTable::parse(&read().unwrap_or_default())) });
        let weak = Arc::downgrade(&mounts);
        thread::Builder::new().name("mounts".to_owned()).spawn(move || watch(&weak))?;
        Ok(mounts)
    }

    /// A table from given text, not watched.
    pub fn fixed(mountinfo: &[u8]) -> Arc<Mounts> {
        Arc::new(Mounts { table: ArcSwap::from_pointee(MountTable::parse(mountinfo)) })
    }

    /// The table as it is now.
    pub fn table(&self) -> Guard<Arc<MountTable>> {
        self.table.load()
    }

    /// The mount of a device number, if it is known.
    pub fn get(&self, dev: u64) -> Option<Arc<Mount>> {
        self.table.load().get(dev).cloned()
    }

    /// The mount of an open file whose device number is not in the table (a Btrfs subvolume, a mount just made); it is
    /// remembered. May wait: only for pool threads.
    pub fn learn(&self, dev: u64, file: impl std::os::fd::AsFd) -> Arc<Mount> {
        if let Some(known) = self.get(dev) {
            return known;
        }
        let magic = rustix::fs::fstatfs(&file).map_or(0, |stat| stat.f_type as u64);
        let mount = Arc::new(Mount::learned(dev, magic));
        let flags = rustix::fs::fstatvfs(file).map_or(StatVfsMountFlags::empty(), |stat| stat.f_flag);
        mount.set_relatime(flags.contains(StatVfsMountFlags::RELATIME) && !flags.contains(StatVfsMountFlags::RDONLY));
        self.table.rcu(|table| table.with_learned(mount.clone()));
        self.get(dev).unwrap_or(mount)
    }

    /// Takes over a changed mount table; mounts that stay keep their record.
    pub fn replace(&self, mountinfo: &[u8]) {
        let fresh = MountTable::parse(mountinfo);
        self.table.rcu(|old| fresh.inheriting(old));
    }
}

fn read() -> io::Result<Vec<u8>> {
    let file = rustix::fs::open(MOUNTINFO, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    read_all(&file)
}

fn read_all(file: &std::os::fd::OwnedFd) -> io::Result<Vec<u8>> {
    rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0))?;
    let mut text = Vec::new();
    let mut part = vec![0; 64 << 10];
    while text.len() < MAX_MOUNTINFO {
        match rustix::io::read(file, &mut part[..]) {
            Ok(0) => break,
            Ok(n) => text.extend_from_slice(&part[..n]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(text)
}

fn watch(mounts: &Weak<Mounts>) {
    freerun_sys::signals::block_all();
    let Ok(file) = rustix::fs::open(MOUNTINFO, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else { return };
    let tick = Timespec { tv_sec: WATCH_TICK, tv_nsec: 0 };
    // Changes between the first reading and the opening of this descriptor are noticed now.
    let mut changed = true;
    loop {
        let Some(mounts) = mounts.upgrade() else { return };
        if changed && let Ok(text) = read_all(&file) {
            mounts.replace(&text);
        }
        drop(mounts);
        let mut events = [PollFd::new(&file, PollFlags::PRI | PollFlags::ERR)];
        changed = matches!(rustix::event::poll(&mut events, Some(&tick)), Ok(n) if n > 0);
    }
}

#[cfg(test)]
mod tests;
mod work;
