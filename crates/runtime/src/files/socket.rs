//! Connecting to Unix sockets, whose names are looked up on a disk.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

use super::FileSystem;
use super::open::retried;
use crate::pool::ThreadPool;

const CONNECT: &str = "connect()";

/// The file operations, the pool and the client for whom paths of Unix sockets are looked up.
///
/// `connect(2)` walks the path of a Unix socket, and so waits for the disks on it, whether or not the socket is
/// non-blocking.
#[derive(Debug, Clone, Copy)]
pub struct SocketPaths<'a> {
    /// The file operations.
    pub files: &'a Arc<FileSystem>,
    /// The pool where a path is walked that is not in the lookup cache.
    pub pool: &'a ThreadPool,
    /// A number for the client's address; clients are served in turn.
    pub client: u64,
}

/// The answer of the lookup cache.
enum CachedLookup {
    /// The socket is there. While the descriptor is open, the names that lead to it stay in the cache.
    Socket(OwnedFd),
    /// The walk ends with this error.
    Failed(Errno),
    /// The walk would wait, or might.
    Unknown,
}

impl SocketPaths<'_> {
    /// Connects a non-blocking socket to the Unix socket of a path. This happens at once if the path is in the lookup
    /// cache and on a mount that does not ask anybody for it, else in the pool. The socket is given back.
    ///
    /// # Errors
    /// The error of `connect(2)`. Without a thread in the pool the error has no number and its text says so.
    pub async fn connect(self, socket: OwnedFd, path: &Path) -> io::Result<OwnedFd> {
        let address = SocketAddrUnix::new(path.as_os_str().as_bytes())?;
        // The address has been checked for NUL.
        let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Err(Errno::INVAL.into()) };
        match self.files.cached_socket(&name) {
            CachedLookup::Failed(error) => return Err(error.into()),
            CachedLookup::Socket(_names) => {
                rustix::net::connect(&socket, &address)?;
                return Ok(socket);
            }
            CachedLookup::Unknown => {}
        }
        let (files, tag) = (self.files.clone(), self.files.tag_of(&name, self.client));
        let connected = self.pool.run(tag, move || -> io::Result<OwnedFd> {
            let on = files.mount_of(&name);
            let _lookup = on.as_ref().map(|mount| mount.begin_lookup());
            files.kernel.admit(CONNECT)?;
            // The mount becomes known, so that the next path there may be looked up on the loop.
            let named = retried(|| files.kernel.name(&name))?;
            files.mounts.learn(files.kernel.stat(named.as_fd())?.dev, &named);
            rustix::net::connect(&socket, &address)?;
            Ok(socket)
        });
        connected.await.map_err(io::Error::other)?
    }
}

impl FileSystem {
    /// Looks for a socket's path in the lookup cache.
    fn cached_socket(&self, path: &std::ffi::CStr) -> CachedLookup {
        let table = self.mounts.table();
        let is_watchful = table.watchful();
        if !self.has_cached_lookup()
            || is_watchful && !table.of_path(path.to_bytes()).is_some_and(|mount| mount.class().opens_inline())
        {
            return CachedLookup::Unknown;
        }
        drop(table);
        let named = match self.kernel.name_cached(path) {
            Ok(named) => named,
            Err(Errno::AGAIN | Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::INTR) => {
                return CachedLookup::Unknown;
            }
            Err(error) => return CachedLookup::Failed(error),
        };
        // A link may have led to another mount than the path names, and that mount may ask for each use.
        let is_inline = |dev| self.inline_mount(dev).is_some();
        if is_watchful && !self.kernel.stat_known(named.as_fd()).is_ok_and(|meta| is_inline(meta.dev)) {
            return CachedLookup::Unknown;
        }
        CachedLookup::Socket(named)
    }
}
