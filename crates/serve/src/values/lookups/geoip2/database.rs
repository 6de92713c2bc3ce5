//! A database in memory, and whether its file has changed.
//!
//! The reader of a configuration (the master, and the control thread of the worker) reads files here, and a pool thread
//! does for `auto_reload`; a loop never does. A mapped file would cost no memory of the process, but would end it with
//! SIGBUS when another process truncates the file. It would also make a loop wait for the disk.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use freerun_conf::text_of_os;
use freerun_runtime::log::{Level, clock};
use freerun_runtime::pool::Tag;
use maxminddb::{MaxMindDbError, Reader};

use crate::configuration::services::Services;

/// The largest file, in bytes; the largest databases have a few hundred million.
const MAX_SIZE: u64 = 1 << 30;

/// The reason that there is no database.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The file cannot be read.
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// The path is a folder, a device or a pipe.
    #[error("it is not a file")]
    NotAFile,
    /// The file is larger than a database may be.
    #[error("it is too large: {0} bytes")]
    TooLarge(u64),
    /// The contents of the file are not a database.
    #[error("{0}")]
    Content(#[from] MaxMindDbError),
}

/// The properties that distinguish one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    mtime: (i64, i64),
    size: u64,
    file: (u64, u64),
}

/// The data in memory.
pub struct DatabaseData {
    /// The database.
    pub reader: Reader<Vec<u8>>,
    /// The time when it was read, in seconds since 1970.
    pub since: i64,
    version: FileVersion,
}

/// A database, which may be read anew while it is in use.
pub struct Database {
    path: PathBuf,
    loaded: ArcSwapOption<DatabaseData>,
    last_check: AtomicI64,
    looking: AtomicBool,
}

impl Database {
    /// A database that has not been read yet.
    pub fn new(path: &[u8]) -> Database {
        let path = PathBuf::from(OsStr::from_bytes(path));
        let (last_check, looking) = (AtomicI64::new(0), AtomicBool::new(false));
        Database { path, loaded: ArcSwapOption::empty(), last_check, looking }
    }

    /// The data in memory, if there is any.
    pub fn loaded(&self) -> Option<Arc<DatabaseData>> {
        self.loaded.load_full()
    }

    /// The time when the file was last checked, in seconds since 1970.
    pub fn last_check(&self) -> i64 {
        self.last_check.load(Relaxed)
    }

    /// Checks whether the file is a database, without keeping it.
    ///
    /// # Errors
    /// See [`DatabaseError`].
    pub fn check(&self) -> Result<(), DatabaseError> {
        let (file, version) = self.open()?;
        read(file, version).map(drop)
    }

    /// Reads the file, unless its current state is in memory. Returns whether it was read. Waits for the disk.
    ///
    /// # Errors
    /// See [`DatabaseError`]; the data in memory stays there.
    pub fn refresh(&self) -> Result<bool, DatabaseError> {
        self.last_check.store(clock::now().secs, Relaxed);
        let (file, version) = self.open()?;
        if self.loaded.load().as_ref().is_some_and(|loaded| loaded.version == version) {
            return Ok(false);
        }
        self.loaded.store(Some(Arc::new(read(file, version)?)));
        Ok(true)
    }

    fn open(&self) -> Result<(File, FileVersion), DatabaseError> {
        // Opening a pipe without a writer must not block.
        let flags = rustix::fs::OFlags::NONBLOCK.bits();
        let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(&self.path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(DatabaseError::NotAFile);
        }
        if meta.len() > MAX_SIZE {
            return Err(DatabaseError::TooLarge(meta.len()));
        }
        let version =
            FileVersion { mtime: (meta.mtime(), meta.mtime_nsec()), size: meta.len(), file: (meta.dev(), meta.ino()) };
        Ok((file, version))
    }

    /// The permission to check the file, which only one caller has at a time.
    fn look(self: &Arc<Self>) -> Option<CheckGuard> {
        (!self.looking.swap(true, AcqRel)).then(|| CheckGuard(self.clone()))
    }

    /// Makes a pool thread check the file, if the last check is at least `interval` ago.
    pub fn look_again(self: &Arc<Self>, services: &Services, interval: Duration) {
        let interval = i64::try_from(interval.as_secs()).unwrap_or(i64::MAX);
        if clock::now().secs.saturating_sub(self.last_check()) < interval.max(1) {
            return;
        }
        let Some(looking) = self.look() else { return };
        let log = services.error_log.clone();
        let look = move || {
            let this = &looking.0;
            let path = text_of_os(&this.path);
            match this.refresh() {
                Ok(false) => {}
                Ok(true) => log.write(Level::Info, None, format_args!("Reload MMDB \"{path}\"")),
                Err(error) => {
                    let message = format_args!("MMDB_open(\"{path}\") failed to reload - {error}");
                    log.write(Level::Error, None, message);
                }
            }
        };
        // If the pool is full, the next request that needs the database tries again.
        let _ = services.pools.default().spawn(Tag::default(), look);
    }
}

/// Ends the check when it is dropped, in any case: the library that reads files may panic on one.
struct CheckGuard(Arc<Database>);

impl Drop for CheckGuard {
    fn drop(&mut self) {
        self.0.looking.store(false, Release);
    }
}

fn read(file: File, version: FileVersion) -> Result<DatabaseData, DatabaseError> {
    let mut content = Vec::with_capacity(usize::try_from(version.size).unwrap_or(0));
    file.take(MAX_SIZE).read_to_end(&mut content)?;
    Ok(DatabaseData { reader: Reader::from_source(content)?, since: clock::now().secs, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_panic_the_next_one_looks() {
        let database = Arc::new(Database::new(b"nothing"));
        let looking = database.look().unwrap();
        assert!(database.look().is_none(), "one at a time");
        let pool = freerun_runtime::pool::ThreadPool::start(&freerun_runtime::pool::PoolSpec::named("mmdb")).unwrap();
        let looked = pool.run(Tag::default(), move || {
            let _looking = looking;
            panic!("a broken file");
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(looked).is_err());
        assert!(database.look().is_some());
    }
}
