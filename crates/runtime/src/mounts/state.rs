//! The record of one mount: the probe that it supports, how densely its files must be probed, how it behaved.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::time::Duration;

use super::Class;
use crate::stats::Counter;

/// An inline operation that took longer than this has waited after all.
pub const STALL: Duration = Duration::from_millis(20);
/// Stalls are counted in windows of this length: [`MANY_STALLS`] in one demote a mount, or two if that is one in
/// [`HITS_A_STALL`] of its inline operations. Either of these finds out an unreliable probe. A page may be evicted
/// between the probe and the use, once in tens of thousands of operations on a machine short of memory. That must not
/// send all cached files of the mount to the pool.
pub const STALL_WINDOW: Duration = Duration::from_secs(10);
/// See [`STALL_WINDOW`].
pub const MANY_STALLS: u64 = 20;
/// See [`STALL_WINDOW`].
pub const HITS_A_STALL: u64 = 100;
/// Time for which all operations on a demoted mount go to the pool.
pub const DEMOTION: Duration = Duration::from_secs(60);

/// Time for which access times are taken for unchanging after a read has not written one.
const NO_ATIME: Duration = Duration::from_secs(60);

/// The bytes (or [`WARM_PROBES`]) found warm without a miss after which a mount is probed less densely; the last step
/// needs as much again.
pub const WARM_BYTES: u64 = 64 << 20;
/// See [`WARM_BYTES`].
pub const WARM_PROBES: u64 = 4096;

/// After a miss, a mount is probed densely for at least this time, in milliseconds, however much is found warm.
pub const COOL_MS: u64 = 1000;

/// The ways to find out whether file data is in memory, the best one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rung {
    /// No probe is needed: the file system is memory.
    Memory,
    /// `preadv2(2)` with `RWF_NOWAIT`: exact, and needs no permissions.
    Nowait,
    /// `mincore(2)` of a mapping: exact for files that the process owns or may write; other files go to the pool.
    Mincore,
    /// No probe works: everything goes to the pool.
    Pool,
}

impl Rung {
    /// The rung's name in the status.
    pub fn name(self) -> &'static str {
        match self {
            Rung::Memory => "memory",
            Rung::Nowait => "nowait",
            Rung::Mincore => "mincore",
            Rung::Pool => "pool",
        }
    }

    fn from_u8(value: u8) -> Rung {
        match value {
            0 => Rung::Memory,
            1 => Rung::Nowait,
            2 => Rung::Mincore,
            _ => Rung::Pool,
        }
    }
}

/// The density of the probed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Density {
    /// Every page is probed: there was a miss not long ago.
    Dense,
    /// A page in 64 KiB is probed.
    Medium,
    /// A page in 512 KiB is probed: the mount is warm. A probe costs 0.7 µs, so that 4 MB, which take 170 µs or more to
    /// send, are probed for 3 % of that.
    Sparse,
}

impl Density {
    /// The distance of the probes in bytes, for a page size.
    pub fn step(self, page: u64) -> u64 {
        match self {
            Density::Dense => page,
            Density::Medium => page.max(64 << 10),
            Density::Sparse => page.max(512 << 10),
        }
    }

    /// The density's name in the status.
    pub fn name(self) -> &'static str {
        match self {
            Density::Dense => "dense",
            Density::Medium => "medium",
            Density::Sparse => "sparse",
        }
    }
}

/// A mounted file system (or several mounts of one device).
#[derive(Debug)]
pub struct Mount {
    dev: u64,
    point: String,
    fs_type: String,
    class: Class,
    rung: AtomicU8,
    density: AtomicU8,
    clean_bytes: AtomicU64,
    clean_probes: AtomicU64,
    last_miss: AtomicU64,
    /// Beginning of the window in which stalls are counted, and the end of the demotion, in milliseconds of the
    /// caller's clock, 0: none.
    window_ms: AtomicU64,
    window_stalls: AtomicU64,
    window_hits: AtomicU64,
    demoted_until: AtomicU64,
    /// Whether a read writes the access time of a file when that is due, and when to assume it again.
    relatime: AtomicBool,
    no_atime_until: AtomicU64,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) pooled: Counter,
    stalls: Counter,
    demotions: Counter,
    pub(super) work: super::work::MountWork,
    /// Threads that look up and open files, by the mount of their path as far as that shows it.
    pub(super) lookups: super::work::MountWork,
}

impl Mount {
    pub(crate) fn new(dev: u64, point: String, fs_type: String, class: Class) -> Mount {
        let rung = match class {
            Class::Memory => Rung::Memory,
            Class::Local => Rung::Nowait,
            Class::Kernel | Class::Remote | Class::Unknown => Rung::Pool,
        };
        Mount {
            dev,
            point,
            fs_type,
            class,
            rung: AtomicU8::new(rung as u8),
            density: AtomicU8::new(Density::Dense as u8),
            clean_bytes: AtomicU64::new(0),
            clean_probes: AtomicU64::new(0),
            last_miss: AtomicU64::new(0),
            window_ms: AtomicU64::new(0),
            window_stalls: AtomicU64::new(0),
            window_hits: AtomicU64::new(0),
            demoted_until: AtomicU64::new(0),
            relatime: AtomicBool::new(false),
            no_atime_until: AtomicU64::new(0),
            hits: Counter::default(),
            misses: Counter::default(),
            pooled: Counter::default(),
            stalls: Counter::default(),
            demotions: Counter::default(),
            work: super::work::MountWork::default(),
            lookups: super::work::MountWork::default(),
        }
    }

    pub(crate) fn learned(dev: u64, magic: u64) -> Mount {
        let (class, name) = Class::of_magic(magic);
        Mount::new(dev, String::new(), name.to_owned(), class)
    }

    /// The device number, as in `st_dev`.
    pub fn dev(&self) -> u64 {
        self.dev
    }

    /// The place where it is mounted; of several places the last one; empty for a mount that is not in the mount table.
    pub fn point(&self) -> &str {
        &self.point
    }

    /// The type of the file system.
    pub fn fs_type(&self) -> &str {
        &self.fs_type
    }

    /// The class of the file system.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Sets whether the mount has the option `relatime`.
    pub(super) fn set_relatime(&self, relatime: bool) {
        self.relatime.store(relatime, Relaxed);
    }

    pub(super) fn is_relatime(&self) -> bool {
        self.relatime.load(Relaxed)
    }

    /// Whether the first read of a file writes its access time to a disk.
    pub(crate) fn updates_atime(&self, now_ms: u64) -> bool {
        self.class == Class::Local && self.is_relatime() && now_ms >= self.no_atime_until.load(Relaxed)
    }

    /// Notes that an access time was due, and a read has not written it: for a while that is not expected again.
    pub(crate) fn atime_stood_still(&self, now_ms: u64) {
        self.no_atime_until.store(now_ms + NO_ATIME.as_millis() as u64, Relaxed);
    }

    /// The probe to use now.
    pub fn rung(&self, now_ms: u64) -> Rung {
        if self.is_demoted(now_ms) { Rung::Pool } else { Rung::from_u8(self.rung.load(Relaxed)) }
    }

    fn is_demoted(&self, now_ms: u64) -> bool {
        now_ms < self.demoted_until.load(Relaxed)
    }

    /// Steps down from a probe that turned out not to exist here: from now on the next one is used.
    pub(crate) fn step_down(&self, failed: Rung) {
        let next = match failed {
            Rung::Memory | Rung::Mincore | Rung::Pool => Rung::Pool,
            Rung::Nowait => Rung::Mincore,
        };
        // The rung only goes down; another thread may have found out more meanwhile.
        self.rung.fetch_max(next as u8, Relaxed);
    }

    /// Density of probes now.
    pub fn density(&self) -> Density {
        match self.density.load(Relaxed) {
            0 => Density::Dense,
            1 => Density::Medium,
            _ => Density::Sparse,
        }
    }

    /// Sets the density, as if the bytes for it had been found warm.
    #[cfg(test)]
    pub(crate) fn set_density(&self, density: Density) {
        self.density.store(density as u8, Relaxed);
    }

    /// Notes that a probe found a page missing.
    pub(crate) fn missed(&self, now_ms: u64) {
        self.misses.add();
        self.cooled(now_ms);
    }

    fn cooled(&self, now_ms: u64) {
        self.last_miss.store(now_ms, Relaxed);
        self.clean_bytes.store(0, Relaxed);
        self.clean_probes.store(0, Relaxed);
        self.density.store(Density::Dense as u8, Relaxed);
    }

    /// Notes that `probes` probes found `bytes` bytes warm.
    pub(crate) fn found_warm(&self, bytes: u64, probes: u64, now_ms: u64) {
        let density = self.density.load(Relaxed);
        if density >= Density::Sparse as u8 || now_ms.saturating_sub(self.last_miss.load(Relaxed)) < COOL_MS {
            return;
        }
        let bytes = self.clean_bytes.fetch_add(bytes, Relaxed) + bytes;
        let probes = self.clean_probes.fetch_add(probes, Relaxed) + probes;
        if bytes >= WARM_BYTES || probes >= WARM_PROBES {
            self.clean_bytes.store(0, Relaxed);
            self.clean_probes.store(0, Relaxed);
            // This fails if a miss (or another thread's step) came between: then that counts.
            let _ = self.density.compare_exchange(density, density + 1, Relaxed, Relaxed);
        }
    }

    /// Whether the mount has stalled not long ago, so that the next stall is examined closely.
    pub(crate) fn is_suspect(&self, now_ms: u64) -> bool {
        let began = self.window_ms.load(Relaxed);
        began != 0 && now_ms.saturating_sub(began) <= STALL_WINDOW.as_millis() as u64
    }

    /// Notes that an inline operation took longer than [`STALL`]. `waited` says whether the thread has waited, or was
    /// only not scheduled, if that is known. Returns whether this counts as a stall.
    pub(crate) fn stalled(&self, now_ms: u64, waited: Option<bool>) -> bool {
        if waited == Some(false) {
            return false;
        }
        self.stalls.add();
        self.cooled(now_ms);
        if !self.is_suspect(now_ms) {
            self.window_ms.store(now_ms, Relaxed);
            self.window_stalls.store(1, Relaxed);
            self.window_hits.store(self.hits.get(), Relaxed);
            return true;
        }
        let stalls = self.window_stalls.fetch_add(1, Relaxed) + 1;
        let hits = self.hits.get().saturating_sub(self.window_hits.load(Relaxed));
        let too_many = stalls >= MANY_STALLS || stalls * HITS_A_STALL >= hits;
        if too_many && waited == Some(true) && !self.is_demoted(now_ms) {
            self.demoted_until.store(now_ms + DEMOTION.as_millis() as u64, Relaxed);
            self.window_ms.store(0, Relaxed);
            self.demotions.add();
        }
        true
    }

    pub(crate) fn is_used(&self) -> bool {
        let used = self.hits.get() + self.misses.get() + self.pooled.get() + self.stalls.get() > 0;
        // One whose first operation hangs is of interest, too.
        used || self.lookups.is_running()
    }

    /// The figures of the mount.
    pub fn status(&self, now_ms: u64) -> MountStatus {
        MountStatus {
            point: self.point.clone(),
            fs_type: self.fs_type.clone(),
            dev: self.dev,
            rung: self.rung(now_ms),
            demoted: self.is_demoted(now_ms),
            density: self.density(),
            hits: self.hits.get(),
            misses: self.misses.get(),
            pooled: self.pooled.get(),
            stalls: self.stalls.get(),
            demotions: self.demotions.get(),
            stuck: self.stuck_for().max(self.lookups_stuck_for()),
        }
    }
}

/// Figures of a mount, read one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountStatus {
    /// The place where it is mounted; empty if it is not in the mount table.
    pub point: String,
    /// The type of the file system.
    pub fs_type: String,
    /// The device number.
    pub dev: u64,
    /// The probe in use; [`Rung::Pool`] while the mount is demoted.
    pub rung: Rung,
    /// Whether the mount is demoted to the pool because inline operations stalled.
    pub demoted: bool,
    /// The density of the probes.
    pub density: Density,
    /// Operations that were done inline after a probe.
    pub hits: u64,
    /// Probes that found a page missing.
    pub misses: u64,
    /// Operations that were done by a pool.
    pub pooled: u64,
    /// Inline operations that took longer than [`STALL`].
    pub stalls: u64,
    /// Number of times that the mount was demoted.
    pub demotions: u64,
    /// For how long pools have been at work on the mount without any of their operations ending; zero without any.
    pub stuck: Duration,
}
