//! The disk operations of the cache's thread, one call at a time.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bytes::{Bytes, BytesMut};

use crate::index::Space;
use crate::record::{Damage, Head};

/// Number of bytes of a file that are read at first: nearly every head is shorter.
const FIRST_READ: usize = 4096;

/// Removes a file. True: the file no longer exists.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Asks the file system for its free space and its block size.
pub(super) fn measure(folder: &Path, min_free: u64, space: &Space) {
    space.measure(|| {
        let stat = rustix::fs::statvfs(folder.as_os_str().as_bytes()).ok()?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let beyond = i128::from(free) - i128::from(min_free);
        space.set_block(stat.f_frsize.clamp(512, 1 << 20));
        Some(i64::try_from(beyond).unwrap_or(i64::MAX))
    });
}

/// The state of a file, as it was found.
#[derive(Debug)]
pub(super) struct FileLook {
    pub(super) size: u64,
    /// The file's head and where the body begins, or the reason why the head cannot be used.
    pub(super) head: Result<(Head, usize), Damage>,
}

/// Reads the head of a file.
pub(super) fn look(path: &Path) -> io::Result<FileLook> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let meta = file.metadata()?;
    let size = meta.len();
    if !meta.is_file() {
        return Ok(FileLook { size, head: Err(Damage::Foreign) });
    }
    let mut bytes = BytesMut::new();
    let mut wanted = FIRST_READ;
    loop {
        let before = bytes.len();
        bytes.resize(wanted, 0);
        let read = read_some(&mut file, &mut bytes[before..])?;
        bytes.truncate(before + read);
        let end = bytes.len() < wanted;
        match Head::decode(&Bytes::copy_from_slice(&bytes)) {
            // The length of the head is bounded by `record::MAX_HEAD`.
            Err(Damage::Short(more)) if !end && more > wanted => wanted = more,
            head => return Ok(FileLook { size, head }),
        }
    }
}

fn read_some(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
