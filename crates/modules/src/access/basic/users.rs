//! Files of names and passwords: read off the loop, and kept while they do not change.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CString;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use freerun_conf::text_of;
use freerun_http::connection::client_gone::ClientGone;
use freerun_http::content::aio;
use freerun_http::request::Request;
use freerun_proto::Status;
use freerun_runtime::files::{Aio, FileError, Meta, OpenFile, Via};
use freerun_runtime::log::clock;
use freerun_runtime::pool::{PoolError, Tag};
use tokio::sync::Semaphore;

/// The size of the largest file, in bytes: a few hundred thousand users.
const MAX_SIZE: u64 = 16 << 20;
/// The most files that a loop keeps. A further file takes the place of the least recently used one.
const MAX_FILES: usize = 64;
/// The most bytes of files that a loop keeps, with their indexes.
const MAX_KEPT: usize = 32 << 20;
/// The largest file that is indexed on the loop; a larger one is indexed in a pool.
const INDEX_INLINE: usize = 16 << 10;
/// A file that was changed this recently, in seconds, is not kept: another change may leave the same modification time.
const SETTLED: i64 = 2;

/// The reason why there are no users.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The path has a NUL byte, or there is no pool to read with.
    #[error("cannot be opened")]
    Path,
    /// The system or a pool returned an error.
    #[error(transparent)]
    File(#[from] FileError),
    /// The path leads to a folder, a device or a pipe.
    #[error("is not a file")]
    NotAFile,
    /// The file is larger than a password file may be.
    #[error("is too large for a password file: {0} bytes")]
    TooLarge(u64),
}

impl UsersError {
    /// The status of the answer: as in nginx, 403 for a missing file.
    pub fn status(&self) -> Status {
        match self {
            UsersError::File(error) if error.errno() == Some(rustix::io::Errno::NOENT.raw_os_error()) => {
                Status::FORBIDDEN
            }
            UsersError::File(FileError::Pool(PoolError::ClientGone)) => Status::CLIENT_CLOSED_REQUEST,
            UsersError::File(FileError::Pool(PoolError::Overflow { .. } | PoolError::ShutDown)) => {
                Status::SERVICE_UNAVAILABLE
            }
            _ => Status::INTERNAL_SERVER_ERROR,
        }
    }

    /// The text for the log.
    pub fn describe(&self, path: &[u8]) -> String {
        match self {
            UsersError::File(error) => error.describe(path),
            error => format!("\"{}\" {error}", text_of(path)),
        }
    }
}

/// The lines of a file, sorted by name.
///
/// Lines are kept as text with their offsets, and not as a map, so that a file with only short lines takes at most
/// three times its size.
#[derive(Debug, Default)]
pub struct Users {
    text: Bytes,
    lines: Vec<u32>,
}

impl Users {
    fn new(text: Bytes) -> Users {
        let mut lines = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |len| start + len);
            let line = &text[start..end];
            if !line.starts_with(b"#") && memchr::memchr(b':', line).is_some() {
                lines.extend(u32::try_from(start));
            }
            start = end + 1;
        }
        let mut users = Users { text, lines: Vec::new() };
        // The sort is stable: of two lines with the same name, the first counts.
        lines.sort_by(|one, other| users.name(*one).cmp(users.name(*other)));
        lines.shrink_to_fit();
        users.lines = lines;
        users
    }

    fn line(&self, start: u32) -> &[u8] {
        let rest = &self.text[start as usize..];
        &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())]
    }

    fn name(&self, start: u32) -> &[u8] {
        let line = self.line(start);
        &line[..memchr::memchr(b':', line).unwrap_or(line.len())]
    }

    /// The stored password of a user. Further fields of the line are ignored.
    pub fn password(&self, user: &[u8]) -> Option<&[u8]> {
        let index = self.lines.partition_point(|start| self.name(*start) < user);
        let start = *self.lines.get(index)?;
        if self.name(start) != user {
            return None;
        }
        let password = &self.line(start)[user.len() + 1..];
        Some(&password[..memchr::memchr2(b':', b'\r', password).unwrap_or(password.len())])
    }

    fn memory(&self) -> usize {
        self.text.len() + self.lines.len() * size_of::<u32>()
    }
}

/// The properties that distinguish one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    mtime: (i64, u32),
    size: u64,
    file: (u64, u64),
}

impl From<&Meta> for FileVersion {
    fn from(meta: &Meta) -> FileVersion {
        FileVersion { mtime: (meta.mtime, meta.mtime_nsec), size: meta.size, file: (meta.dev, meta.ino) }
    }
}

/// A file that was used.
struct UserFileEntry {
    users: RefCell<Option<(FileVersion, Arc<Users>)>>,
    asked: Cell<u64>,
    /// Only one request at a time reads the file, because many at once would each hold a copy.
    turn: Semaphore,
}

impl UserFileEntry {
    fn fresh(&self, meta: &Meta) -> Option<Arc<Users>> {
        let users = self.users.borrow();
        users.as_ref().filter(|(version, _)| *version == FileVersion::from(meta)).map(|(_, users)| users.clone())
    }

    fn memory(&self) -> usize {
        self.users.borrow().as_ref().map_or(0, |(_, users)| users.memory())
    }
}

/// The files that a loop keeps.
#[derive(Default)]
struct UserFileCache {
    entries: RefCell<HashMap<Vec<u8>, Rc<UserFileEntry>>>,
    clock: Cell<u64>,
}

impl UserFileCache {
    fn entry(&self, path: &[u8]) -> Rc<UserFileEntry> {
        let now = self.clock.get() + 1;
        self.clock.set(now);
        let mut entries = self.entries.borrow_mut();
        if let Some(entry) = entries.get(path) {
            entry.asked.set(now);
            return entry.clone();
        }
        if entries.len() >= MAX_FILES {
            remove_oldest(&mut entries);
        }
        let entry =
            Rc::new(UserFileEntry { users: RefCell::default(), asked: Cell::new(now), turn: Semaphore::new(1) });
        entries.insert(path.to_owned(), entry.clone());
        entry
    }

    /// Drops files until the remaining ones are within the limits.
    fn shrink(&self) {
        let mut entries = self.entries.borrow_mut();
        let mut memory: usize = entries.values().map(|entry| entry.memory()).sum();
        while memory > MAX_KEPT
            && let Some(entry) = remove_oldest(&mut entries)
        {
            memory -= entry.memory();
        }
    }
}

fn remove_oldest(entries: &mut HashMap<Vec<u8>, Rc<UserFileEntry>>) -> Option<Rc<UserFileEntry>> {
    let path = entries.iter().min_by_key(|(_, entry)| entry.asked.get()).map(|(path, _)| path.clone())?;
    entries.remove(&path)
}

/// The users in the current state of a file.
///
/// # Errors
/// See [`UsersError`].
pub async fn load(request: &Request, path: &[u8]) -> Result<Arc<Users>, UsersError> {
    let cache = request.client.loop_state.modules.get::<UserFileCache>();
    let entry = cache.entry(path);
    let path = CString::new(path).map_err(|_| UsersError::Path)?;
    let aio = aio::resolve(request).ok_or(UsersError::Path)?;
    let gone = ClientGone::of(&request.client);
    let via = Via { aio: &aio, client: request.client_key(), gone: Some(&gone) };
    let files = &request.generation.files;
    let known = async || files.stat(&path, via).await.ok().and_then(|meta| entry.fresh(&meta));
    if let Some(users) = known().await {
        return Ok(users);
    }
    let _turn = entry.turn.acquire().await;
    if let Some(users) = known().await {
        return Ok(users);
    }
    let file = files.open(&path, via).await?;
    let now = clock::now().secs;
    let users = read(request, &file, &aio).await?;
    let settled = file.meta().mtime < now - SETTLED && users.text.len() as u64 == file.size();
    *entry.users.borrow_mut() = settled.then(|| (FileVersion::from(file.meta()), users.clone()));
    cache.shrink();
    Ok(users)
}

async fn read(request: &Request, file: &Arc<OpenFile>, aio: &Aio) -> Result<Arc<Users>, UsersError> {
    if !file.is_file() {
        return Err(UsersError::NotAFile);
    }
    if file.size() > MAX_SIZE {
        return Err(UsersError::TooLarge(file.size()));
    }
    let gone = ClientGone::of(&request.client);
    let via = Via { aio, client: request.client_key(), gone: Some(&gone) };
    let files = &request.generation.files;
    // One byte more than announced shows that a file has grown since; its current contents count.
    let len = usize::try_from(file.size()).unwrap_or(usize::MAX).saturating_add(1);
    let text = files.read_at(file, 0, len, BytesMut::new(), via).await?.freeze();
    if text.len() <= INDEX_INLINE {
        return Ok(Arc::new(Users::new(text)));
    }
    let tag = Tag::client(via.client);
    Ok(files.offload(via, tag, move || Arc::new(Users::new(text))).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &'static [u8]) -> Users {
        Users::new(Bytes::from_static(text))
    }

    #[test]
    fn lines_are_found_by_their_name() {
        let users = users(
            b"#comment:x\n\n:empty\nnocolon\n  sp:a b \nextra:{PLAIN}x:more:fields\ncr:y\r\ndup:one\ndup:two\n#\nhash#in:z\nnone:\nlast:end",
        );
        for (name, password) in [
            ("  sp", Some("a b ")),
            ("extra", Some("{PLAIN}x")),
            ("cr", Some("y")),
            ("dup", Some("one")),
            ("hash#in", Some("z")),
            ("none", Some("")),
            ("last", Some("end")),
            ("sp", None),
            ("#comment", None),
            ("comment", None),
            ("nocolon", None),
            ("las", None),
            ("lastx", None),
            ("zzz", None),
        ] {
            assert_eq!(users.password(name.as_bytes()), password.map(str::as_bytes), "{name}");
        }
    }

    #[test]
    fn whatever_is_in_the_file_is_bounded() {
        assert_eq!(users(b"").password(b"x"), None);
        assert_eq!(users(b"\n\n\n").lines.len(), 0);
        let no_newline = Users::new(vec![b'x'; 1 << 20].into());
        assert_eq!((no_newline.lines.len(), no_newline.password(b"x")), (0, None));
        let short_lines = Users::new(b":\n".repeat(1 << 19).into());
        assert!(short_lines.memory() <= 3 << 20);
        let binary: Vec<u8> = (0..1 << 16).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        assert_eq!(Users::new(binary.into()).password(b"nobody in here"), None);
    }

    #[test]
    fn a_loop_keeps_only_so_many_files() {
        let cache = UserFileCache::default();
        for index in 0..MAX_FILES + 10 {
            let entry = cache.entry(format!("/{index}").as_bytes());
            let text = Bytes::from(vec![b'x'; 1 << 20]);
            let meta = FileVersion { mtime: (0, 0), size: 0, file: (0, 0) };
            *entry.users.borrow_mut() = Some((meta, Arc::new(Users::new(text))));
            cache.shrink();
        }
        assert_eq!(cache.entries.borrow().len(), MAX_KEPT >> 20);
        assert!(cache.entries.borrow().contains_key(format!("/{}", MAX_FILES + 9).as_bytes()));
        let cache = UserFileCache::default();
        for index in 0..MAX_FILES + 10 {
            cache.entry(format!("/{index}").as_bytes());
        }
        assert_eq!(cache.entries.borrow().len(), MAX_FILES);
    }
}
