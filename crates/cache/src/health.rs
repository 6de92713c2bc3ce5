//! Whether a cache's disk is well: it is taken out when it fails or hangs, and comes back by itself.
//!
//! Every operation reports its begin and its end ([`Health::begin`]). A disk is out when one of them is at work and
//! none has ended for [`STUCK`], or after [`STRIKES`] errors of the device within [`STRIKES_WITHIN`]. While a disk is
//! out, nothing is read from it and nothing is stored. Once in each [`PROBE_EVERY`] one task of a pool writes a small
//! file there, syncs it and reads it again. When that succeeds, and no operation is stuck any more, the disk is in
//! again.
//!
//! A full disk is well: nothing is stored on it for [`FULL_REST`], and it is read from meanwhile.

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use freerun_runtime::files::{FileError, FileSystem};
use freerun_runtime::loops;
use freerun_runtime::mounts::Mount;
use freerun_runtime::pool::{Tag, ThreadPool};
use rustix::io::Errno;

/// Time that a request waits for the disk before it asks the origin.
pub const LIMIT: Duration = Duration::from_secs(3);
/// The disk is out when an operation is at work and none has ended for this long.
pub const STUCK: Duration = Duration::from_secs(3);
/// The disk is out after this many errors of the device.
pub const STRIKES: u32 = 3;
/// The time within which the errors of [`STRIKES`] count.
pub const STRIKES_WITHIN: Duration = Duration::from_secs(10);
/// Interval at which a disk that is out is tried again.
pub const PROBE_EVERY: Duration = Duration::from_secs(1);
/// For how long nothing is stored after the disk was full.
pub const FULL_REST: Duration = Duration::from_secs(1);

/// The size of the file that is written as a probe, in bytes.
const PROBE: usize = 4096;

/// Reason why a disk is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Out {
    /// Operations do not come to their end.
    Stuck,
    /// Operations fail with errors; this is the number of the last one.
    Failing(i32),
}

impl std::fmt::Display for Out {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Out::Stuck => formatter.write_str("operations on it do not end"),
            Out::Failing(errno) => write!(formatter, "{}", std::io::Error::from_raw_os_error(*errno)),
        }
    }
}

/// A function that is called when a disk goes out (with the reason) or comes back (`None`), once for each change, on
/// the thread that notices it.
pub type Report = Box<dyn Fn(Option<Out>) + Send + Sync>;

/// Figures of a disk's health, for status pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HealthFigures {
    /// Reason why the disk is out, if it is, and the moment since when, in milliseconds of the process.
    pub out: Option<(Out, u64)>,
    /// Number of times that the disk was taken out.
    pub outages: u64,
    /// Operations that failed with an error of the device.
    pub errors: u64,
    /// Requests that stopped waiting for the disk.
    pub late: u64,
    /// Number of times that the disk was full.
    pub full: u64,
    /// The number of operations at work.
    pub running: u64,
}

const IN: u32 = 0;
const STUCK_OUT: u32 = u32::MAX;

/// The health of a cache's disk.
pub struct Health {
    folder: CString,
    files: Arc<FileSystem>,
    pool: Arc<ThreadPool>,
    report: Option<Report>,
    /// Time that a request waits, in milliseconds; [`LIMIT`] except in tests.
    limit: AtomicU64,
    mount: ArcSwapOption<Mount>,
    running: AtomicU64,
    /// The number of operations that do not end though the disk does everything else.
    forgiven: AtomicU64,
    /// Moment at which an operation last began with none at work, or ended.
    moved: AtomicU64,
    /// 0: in. Otherwise the reason for being out: an error number, or [`STUCK_OUT`].
    out: AtomicU32,
    out_since: AtomicU64,
    strikes: AtomicU32,
    strikes_since: AtomicU64,
    probed: AtomicU64,
    probing: AtomicBool,
    full_until: AtomicU64,
    outages: AtomicU64,
    errors: AtomicU64,
    late: AtomicU64,
    full: AtomicU64,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Health").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Milliseconds of the process.
fn clock() -> u64 {
    loops::millis_of(loops::epoch().elapsed()).max(1)
}

/// An operation at work; it ends when this is dropped.
#[derive(Debug)]
pub struct DiskOperation<'a>(&'a Health);

impl Drop for DiskOperation<'_> {
    fn drop(&mut self) {
        self.0.moved.store(clock(), Release);
        let before = self.0.running.fetch_sub(1, AcqRel);
        debug_assert!(before > 0, "an operation ends twice");
        let left = before - 1;
        self.0.forgiven.fetch_min(left, AcqRel);
    }
}

impl DiskOperation<'_> {
    /// Notes that a part of the operation has ended.
    pub fn moved(&self) {
        self.0.moved.store(clock(), Release);
    }
}

impl Health {
    /// The health of the disk that has this folder; the pool makes the probes.
    pub fn new(folder: CString, files: Arc<FileSystem>, pool: Arc<ThreadPool>, report: Option<Report>) -> Arc<Health> {
        Arc::new(Health {
            folder,
            files,
            pool,
            report,
            limit: AtomicU64::new(loops::millis_of(LIMIT)),
            mount: ArcSwapOption::empty(),
            running: AtomicU64::new(0),
            forgiven: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            out: AtomicU32::new(IN),
            out_since: AtomicU64::new(0),
            strikes: AtomicU32::new(0),
            strikes_since: AtomicU64::new(0),
            probed: AtomicU64::new(0),
            probing: AtomicBool::new(false),
            full_until: AtomicU64::new(0),
            outages: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            late: AtomicU64::new(0),
            full: AtomicU64::new(0),
        })
    }

    /// Begins an operation, on the thread that does it: time in a queue does not count against the disk.
    pub fn begin(&self) -> DiskOperation<'_> {
        // The time comes first, then the number: a thread that looks in between must not see an operation that has made
        // no progress since the last one.
        if self.running.load(Acquire) == 0 {
            self.moved.store(clock(), Release);
        }
        if self.running.fetch_add(1, AcqRel) == 0 {
            self.moved.store(clock(), Release);
        }
        DiskOperation(self)
    }

    /// Notes that an operation failed. Errors of the device count against the disk, and nothing is stored on a full
    /// disk for a while.
    pub fn failed(self: &Arc<Self>, error: &FileError) {
        let Some(errno) = error.errno() else { return };
        if error.is_full_disk() {
            self.full.fetch_add(1, Relaxed);
            self.full_until.store(clock() + loops::millis_of(FULL_REST), Relaxed);
            return;
        }
        const DEVICE: [Errno; 8] = [
            Errno::IO,
            Errno::ROFS,
            Errno::NXIO,
            Errno::NODEV,
            Errno::STALE,
            Errno::NOTCONN,
            Errno::CONNABORTED,
            Errno::TIMEDOUT,
        ];
        if !DEVICE.iter().any(|device| device.raw_os_error() == errno) {
            return;
        }
        self.strike(u32::try_from(errno).unwrap_or(1), clock());
    }

    fn strike(self: &Arc<Self>, errno: u32, now: u64) {
        self.errors.fetch_add(1, Relaxed);
        let since = self.strikes_since.load(Relaxed);
        if since == 0 || now.saturating_sub(since) > loops::millis_of(STRIKES_WITHIN) {
            self.strikes_since.store(now, Relaxed);
            self.strikes.store(0, Relaxed);
        }
        if self.strikes.fetch_add(1, Relaxed) + 1 >= STRIKES {
            self.take_out(errno, now);
        }
    }

    /// Time that a request waits.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_millis(self.limit.load(Relaxed))
    }

    #[cfg(test)]
    pub(crate) fn set_limit(&self, limit: Duration) {
        self.limit.store(loops::millis_of(limit), Relaxed);
    }

    /// Notes that a request has waited for [`LIMIT`] and does not wait any longer.
    pub fn late(&self) {
        self.late.fetch_add(1, Relaxed);
    }

    fn take_out(self: &Arc<Self>, why: u32, now: u64) {
        debug_assert!(why != IN, "a disk that is out needs a reason");
        if self.out.compare_exchange(IN, why, AcqRel, Acquire).is_ok() {
            self.out_since.store(now, Relaxed);
            self.probed.store(now, Relaxed);
            self.outages.fetch_add(1, Relaxed);
            self.say(reason(why));
        }
    }

    fn say(&self, change: Option<Out>) {
        if let Some(report) = &self.report {
            report(change);
        }
    }

    fn is_stuck(&self, now: u64) -> bool {
        self.running.load(Acquire) > self.forgiven.load(Acquire)
            && now.saturating_sub(self.moved.load(Acquire)) > loops::millis_of(STUCK)
            || self.mount.load().as_ref().is_some_and(|mount| mount.stuck_for() > STUCK)
    }

    /// Notes that a file of the cache is on this mount: bodies are read and sent elsewhere, and may hang there, too.
    pub fn is_on(&self, mount: &Arc<Mount>) {
        if !self.mount.load().as_ref().is_some_and(|known| Arc::ptr_eq(known, mount)) {
            self.mount.store(Some(mount.clone()));
        }
    }

    /// Whether the disk may be used. If it is out and a probe is due, this starts the probe. Called with each request
    /// for the disk, and by the cache's own thread now and then.
    pub fn is_in(self: &Arc<Self>) -> bool {
        self.is_in_at(clock())
    }

    fn is_in_at(self: &Arc<Self>, now: u64) -> bool {
        if self.out.load(Acquire) == IN {
            if !self.is_stuck(now) {
                return true;
            }
            self.take_out(STUCK_OUT, now);
        }
        self.try_again(now);
        false
    }

    /// Whether something may be stored now.
    pub fn may_store(self: &Arc<Self>) -> bool {
        self.is_in() && clock() >= self.full_until.load(Relaxed)
    }

    fn try_again(self: &Arc<Self>, now: u64) {
        let before = self.probed.load(Relaxed);
        if now.saturating_sub(before) < loops::millis_of(PROBE_EVERY) || self.probing.swap(true, AcqRel) {
            return;
        }
        self.probed.store(now, Relaxed);
        let this = self.clone();
        let probe = move || {
            let outcome = this.probe();
            if outcome.is_ok() && !this.is_stuck(clock()) {
                this.come_back();
            }
            this.probing.store(false, Release);
        };
        let tag = Tag { file: 0, ..self.files.tag_of(&self.folder, 0) };
        if self.pool.spawn(tag, probe).is_err() {
            self.probing.store(false, Release);
        }
    }

    /// Writes and reads a file without a name.
    fn probe(&self) -> Result<(), FileError> {
        let _running = self.begin();
        let target = CString::new([self.folder.to_bytes(), b"/probe"].concat()).unwrap_or_default();
        let file = self.files.make_unnamed(&target, 0o600, 0o700, Tag::default())?;
        let data = Bytes::from_static(&[0x5a; PROBE]);
        file.write(std::slice::from_ref(&data), 0)?;
        file.sync()?;
        let mut back = [0; PROBE];
        file.read(0, &mut back)?;
        if back[..] == data[..] {
            Ok(())
        } else {
            Err(FileError::System { call: "pread()", errno: Errno::IO.raw_os_error() })
        }
    }

    fn come_back(&self) {
        self.strikes.store(0, Relaxed);
        self.forgiven.store(self.running.load(Acquire), Release);
        if self.out.swap(IN, AcqRel) != IN {
            self.say(None);
        }
    }

    /// The figures of the disk's health.
    pub fn figures(&self) -> HealthFigures {
        HealthFigures {
            out: reason(self.out.load(Acquire)).map(|why| (why, self.out_since.load(Relaxed))),
            outages: self.outages.load(Relaxed),
            errors: self.errors.load(Relaxed),
            late: self.late.load(Relaxed),
            full: self.full.load(Relaxed),
            running: self.running.load(Relaxed),
        }
    }

    /// The folder whose disk this is.
    pub fn folder(&self) -> &CStr {
        &self.folder
    }
}

fn reason(out: u32) -> Option<Out> {
    match out {
        IN => None,
        STUCK_OUT => Some(Out::Stuck),
        errno => Some(Out::Failing(i32::try_from(errno).unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use freerun_runtime::files::faults::{FaultBehaviour, Faults};
    use freerun_runtime::pool::PoolSpec;
    use freerun_testkit::{TempDir, eventually};
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Mutex;

    use super::*;

    struct Bench {
        health: Arc<Health>,
        faults: Faults,
        told: Arc<Mutex<Vec<Option<Out>>>>,
        _dir: TempDir,
    }

    fn bench() -> Bench {
        let dir = TempDir::new("health");
        let pool = ThreadPool::start(&PoolSpec { name: "test".to_owned(), threads: 2, max_queue: 10 }).unwrap();
        let faults = Faults::default();
        let files = faults.files(pool.clone()).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = told.clone();
        let report: Report = Box::new(move |change| tell.lock().unwrap().push(change));
        let folder = CString::new(dir.path().as_os_str().as_bytes()).unwrap();
        Bench { health: Health::new(folder, files, pool, Some(report)), faults, told, _dir: dir }
    }

    const EIO: FileError = FileError::System { call: "read()", errno: 5 };
    const STEP: u64 = 100_000;

    /// Asks again and again, each time as if a long time had passed, until the disk is in.
    fn comes_back(bench: &Bench) {
        let mut now = clock();
        eventually("it comes back", || {
            now += STEP;
            bench.health.is_in_at(now)
        });
    }

    #[test]
    fn errors_of_the_device_take_it_out_and_a_probe_brings_it_back() {
        let bench = bench();
        for _ in 1..STRIKES {
            bench.health.failed(&EIO);
        }
        // These errors are not the device's.
        bench.health.failed(&FileError::System { call: "open()", errno: 2 });
        bench.health.failed(&FileError::Pool(freerun_runtime::pool::PoolError::ShutDown));
        assert!(bench.health.is_in());
        bench.faults.write(FaultBehaviour::Fail(5), 0);
        bench.health.failed(&EIO);
        assert!(!bench.health.is_in() && !bench.health.may_store());
        // While it fails the probe fails.
        assert!(!bench.health.is_in_at(clock() + STEP));
        eventually("the probe is over", || !bench.health.probing.load(Relaxed));
        assert!(bench.health.figures().out.is_some());
        bench.faults.clear();
        comes_back(&bench);
        assert_eq!(*bench.told.lock().unwrap(), [Some(Out::Failing(5)), None]);
        let HealthFigures { out, outages, errors, .. } = bench.health.figures();
        assert_eq!((out, outages, errors), (None, 1, u64::from(STRIKES)));
    }

    #[test]
    fn errors_that_are_far_apart_do_not_add_up() {
        let bench = bench();
        let apart = loops::millis_of(STRIKES_WITHIN) + 1;
        for round in 1..100 {
            bench.health.strike(5, clock() + round * apart);
        }
        assert!(bench.health.is_in());
    }

    #[test]
    fn what_hangs_takes_it_out_until_it_goes_on() {
        let bench = bench();
        let hangs = bench.health.begin();
        let later = clock() + loops::millis_of(STUCK) + 1;
        assert!(bench.health.is_in());
        hangs.moved();
        // A slow operation is not a stuck one.
        assert!(bench.health.is_in_at(clock() + loops::millis_of(STUCK) - 100));
        bench.faults.write(FaultBehaviour::Hang, 0);
        assert!(!bench.health.is_in_at(later + STEP));
        assert!(!bench.health.is_in_at(later + 2 * STEP));
        eventually("the probe hangs", || bench.faults.waiting() == 1);
        // One probe at a time.
        assert!(!bench.health.is_in_at(later + 3 * STEP));
        bench.faults.clear();
        drop(hangs);
        comes_back(&bench);
        assert_eq!(*bench.told.lock().unwrap(), [Some(Out::Stuck), None]);
    }

    #[test]
    fn one_operation_that_never_ends_does_not_keep_out_a_disk_that_works() {
        let bench = bench();
        let hangs = bench.health.begin();
        let later = clock() + loops::millis_of(STUCK) + 1;
        assert!(!bench.health.is_in_at(later));
        comes_back(&bench);
        assert!(bench.health.is_in_at(later + STEP));
        // Another operation counts again, and so does the next one when the first has ended.
        let other = bench.health.begin();
        assert!(!bench.health.is_in_at(later + 2 * STEP));
        drop((hangs, other));
        comes_back(&bench);
        let _next = bench.health.begin();
        assert!(!bench.health.is_in_at(later + 5 * STEP));
    }

    #[test]
    fn a_full_disk_is_read_from_and_left_alone() {
        let bench = bench();
        assert!(bench.health.may_store());
        bench.health.failed(&FileError::System { call: "pwritev()", errno: 28 });
        assert!(bench.health.is_in() && !bench.health.may_store());
        assert_eq!(bench.health.figures().full, 1);
    }
}
