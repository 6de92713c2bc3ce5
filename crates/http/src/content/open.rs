//! Opening files for a request: from the kept files, else by probing the kernel's caches, else in the thread pool.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use freerun_proto::Status;
use freerun_runtime::files::{Aio, Arrange, FileError, LinkCheck, LinkRule, ListError, Listing, Meta, OpenFile, Via};
use freerun_runtime::loops;
use rustix::io::Errno;

use crate::connection::client_gone::ClientGone;
use crate::content::open_error::OpenError;
use crate::content::path;
use crate::content::path::NO_NAME;
use crate::content::{aio, direct, media_type};
use crate::files::hot::{HotFile, MAX_CONTENT, OpenedFile};
use crate::files::known_files::KnownFile;
use crate::files::open_files::{CachedLookup, Terms};
use crate::log_error;
use crate::request::Request;
use crate::request::location::Location;
use crate::settings::files::{DisableSymlinks, FileSettings, Links, OpenFileCache, Valid};

/// The file, if it is one of the kept files.
pub fn hot(request: &Request, path: &[u8]) -> Option<Rc<HotFile>> {
    let settings = request.settings().get::<FileSettings>();
    match &settings.open_file_cache {
        OpenFileCache::Off => None,
        OpenFileCache::Short => {
            let key = key(request, path);
            let kept = request.generation.hot.borrow_mut().get(&key, loops::now())?;
            if kept.asks && !asked(request, path).is_some_and(|now| now.is_ok_and(|now| now.is_same(&kept.file.meta))) {
                request.generation.hot.borrow_mut().forget_name(&key);
                return None;
            }
            Some(kept.file)
        }
        // A caller that opens a folder looks at the entry of the cache itself.
        OpenFileCache::Shared(_) => match known(request, path)? {
            CachedLookup::File(file) if file.meta.is_file() => Some(Rc::new(file)),
            _ => None,
        },
    }
}

/// The present attributes of a path, if asking for them does not wait.
fn asked(request: &Request, path: &[u8]) -> Option<Result<Meta, FileError>> {
    request.generation.files.try_stat_now(&CString::new(path).ok()?, &aio::resolve(request)?)
}

/// The file that the request's path leads to, if an earlier request has found it.
pub fn known_file(request: &Request) -> Option<Rc<KnownFile<Location>>> {
    if !path::is_as_asked(request) {
        return None;
    }
    request.generation.hot.borrow_mut().known(&request.place.location, &request.asked.path).cloned()
}

/// Makes [`known_file`] return the file that [`hot`] has under this name to the next request for this path.
pub fn learn(request: &Request, name: &[u8]) {
    let settings = request.settings().get::<FileSettings>();
    let is_short = matches!(settings.open_file_cache, OpenFileCache::Short);
    if is_short && path::is_as_asked(request) && path::is_constant(request) && link_check(request, name).is_none() {
        let media_type = media_type(request, &request.asked.path);
        request.generation.hot.borrow_mut().learn(&request.place.location, &request.asked.path, name, media_type);
    }
}

/// The name that a file is kept under. It contains the rule for symbolic links, because other rules may open another
/// file.
fn key<'p>(request: &Request, path: &'p [u8]) -> Cow<'p, [u8]> {
    match link_check(request, path) {
        None => Cow::Borrowed(path),
        Some(LinkCheck { rule, trusted }) => {
            let rule: &[u8] = if rule == LinkRule::None { b"\0n" } else { b"\0o" };
            Cow::Owned([path, rule, trusted.to_string().as_bytes()].concat())
        }
    }
}

/// The check that `disable_symlinks` demands for a path.
pub fn link_check(request: &Request, path: &[u8]) -> Option<LinkCheck> {
    let DisableSymlinks { links, from } = &request.settings().get::<FileSettings>().disable_symlinks;
    let rule = match links {
        Links::All => return None,
        Links::None => LinkRule::None,
        Links::OfOwner => LinkRule::SameOwner,
    };
    let from = from.as_ref().map(|from| from.render(request)).unwrap_or_default();
    let ends = from.last() == Some(&b'/') || matches!(path.get(from.len()), None | Some(b'/'));
    let trusted = if ends && path.starts_with(&from) { from.len() } else { 0 };
    Some(LinkCheck { rule, trusted })
}

fn terms(settings: &FileSettings) -> Terms {
    Terms {
        valid: match settings.open_file_cache_valid {
            Valid::Checked => Duration::MAX,
            Valid::For(time) => time,
        },
        min_uses: settings.open_file_cache_min_uses,
        errors: settings.open_file_cache_errors,
    }
}

/// Keeps the result of opening a path in the shared cache, as far as the settings want it.
fn keep(request: &Request, path: &[u8], found: Result<CachedLookup, &FileError>) {
    let settings = request.settings().get::<FileSettings>();
    let now = loops::now();
    match (&settings.open_file_cache, found) {
        (OpenFileCache::Off | OpenFileCache::Short, _) => {}
        // It could not be told from the same file in another state.
        (OpenFileCache::Shared(_), Ok(CachedLookup::File(file)))
            if settings.open_file_cache_valid == Valid::Checked && !file.meta.is_settled() => {}
        (OpenFileCache::Shared(files), Ok(known)) => files.put(&key(request, path), known, terms(settings), now),
        (OpenFileCache::Shared(files), Err(error)) if says_what_is_there(error) => {
            files.put(&key(request, path), CachedLookup::Error(error.clone()), terms(settings), now);
        }
        (OpenFileCache::Shared(_), Err(_)) => {}
    }
}

/// Whether an error is about the file, and not about the state of the process or the system.
fn says_what_is_there(error: &FileError) -> bool {
    let errno = error.errno().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::ACCESS | Errno::LOOP))
}

/// The cache's entry for a path, of any kind.
fn known(request: &Request, path: &[u8]) -> Option<CachedLookup> {
    let settings = request.settings().get::<FileSettings>();
    let OpenFileCache::Shared(files) = &settings.open_file_cache else { return None };
    let known = files.get(&key(request, path), terms(settings), loops::now())?;
    if settings.open_file_cache_valid != Valid::Checked {
        return Some(known);
    }
    // Where a rule for links holds, the attributes alone do not say that the path may be used.
    if link_check(request, path).is_some() {
        return None;
    }
    match (known, asked(request, path)?) {
        (CachedLookup::File(file), Ok(now)) => now.is_same(&file.meta).then_some(CachedLookup::File(file)),
        (CachedLookup::Meta(_), Ok(now)) => Some(CachedLookup::Meta(now)),
        (CachedLookup::Error(before), Err(now)) => {
            (before.errno() == now.errno()).then_some(CachedLookup::Error(before))
        }
        _ => None,
    }
}

/// Drops a kept file that turned out to have changed.
pub fn forget(request: &Request, file: &Arc<OpenFile>) {
    match &request.settings().get::<FileSettings>().open_file_cache {
        OpenFileCache::Shared(files) => {
            let name = path::file_name(request);
            files.forget(&key(request, &name), file);
        }
        OpenFileCache::Off | OpenFileCache::Short => request.generation.hot.borrow_mut().forget(file),
    }
}

/// Closes kept files to free their descriptors. Returns whether there were any.
fn close_kept(request: &Request) -> bool {
    let closed = request.generation.hot.borrow_mut().close_files();
    match &request.settings().get::<FileSettings>().open_file_cache {
        OpenFileCache::Shared(files) => files.close_files() || closed,
        OpenFileCache::Off | OpenFileCache::Short => closed,
    }
}

fn c_path(path: &[u8]) -> Result<CString, OpenError> {
    CString::new(path).map_err(|_| {
        OpenError::Status(if path.starts_with(NO_NAME) { Status::INTERNAL_SERVER_ERROR } else { Status::BAD_REQUEST })
    })
}

/// Opens a file or a folder (the caller looks at its type) for reading. Small contents come with it if they are in
/// memory.
///
/// # Errors
/// See [`OpenError`].
pub async fn open(request: &Request, path: &[u8]) -> Result<Rc<HotFile>, OpenError> {
    open_for(request, path, OpenPurpose::Content).await
}

/// Opens a file as [`open`] does, but does not wait for its content: the caller needs only the name, because another
/// location or a later step reads the content.
///
/// # Errors
/// See [`OpenError`].
pub async fn find(request: &Request, path: &[u8]) -> Result<Rc<HotFile>, OpenError> {
    open_for(request, path, OpenPurpose::Name).await
}

/// The purpose of opening a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenPurpose {
    Content,
    Name,
}

async fn open_for(request: &Request, path: &[u8], purpose: OpenPurpose) -> Result<Rc<HotFile>, OpenError> {
    match known(request, path) {
        Some(CachedLookup::File(file)) => return Ok(Rc::new(file)),
        Some(CachedLookup::Error(error)) => return Err(OpenError::File(error)),
        Some(CachedLookup::Meta(_)) => {}
        None => {
            if let Some(file) = hot(request, path) {
                return Ok(file);
            }
        }
    }
    let aio = aio::resolve(request).ok_or(OpenError::Status(Status::INTERNAL_SERVER_ERROR))?;
    let c_path = c_path(path)?;
    let moment = request.generation.hot.borrow().moment();
    let mut opened = open_path(request, &c_path, &aio).await;
    if let Err(error) = &opened
        && is_out_of_descriptors(error)
        && close_kept(request)
    {
        opened = open_path(request, &c_path, &aio).await;
    }
    let file = match opened {
        Ok(file) => file,
        Err(error) => {
            keep(request, path, Err(&error));
            return Err(OpenError::File(error));
        }
    };
    let is_short = matches!(request.settings().get::<FileSettings>().open_file_cache, OpenFileCache::Short);
    let mut place = None;
    if is_short && file.is_file() {
        let can_be_asked = link_check(request, path).is_none();
        let opened = OpenedFile { path: &c_path, file: &file, can_be_asked, moment };
        place = request.generation.begin_hot(&key(request, path), &opened, &aio);
    }
    let content = match direct::alignment(request, file.meta()) {
        None => match small_content(request, &file, &aio) {
            // The read that updates the access time has to go to the pool. It brings the bytes as well, so that they
            // are not read again for each request.
            None if is_small(&file) && request.generation.files.is_atime_due(&file) => match purpose {
                OpenPurpose::Content => Box::pin(pooled_content(request, &file, &aio)).await,
                // A caller that wants the content opens the file again: if it were kept here, it would be without its
                // content.
                OpenPurpose::Name => return Ok(Rc::new(HotFile::new(file, None))),
            },
            content => content,
        },
        Some(_) => None,
    };
    let file = HotFile::new(file, content);
    keep(request, path, Ok(CachedLookup::File(file.clone())));
    let file = Rc::new(file);
    if let Some(place) = place {
        request.generation.keep_hot(&key(request, path), place, &file);
    }
    Ok(file)
}

async fn open_path(request: &Request, path: &CStr, aio: &Aio) -> Result<Arc<OpenFile>, FileError> {
    let files = &request.generation.files;
    let check = link_check(request, path.to_bytes());
    let at_once = match check {
        None => files.try_open_now(path, aio),
        Some(check) => files.try_open_checked_now(path, check, aio),
    };
    if let Some(outcome) = at_once {
        return outcome;
    }
    let gone = ClientGone::of(&request.client);
    let via = Via { aio, client: request.client_key(), gone: Some(&gone) };
    match check {
        None => files.open(path, via).await,
        Some(check) => files.open_checked(path, check, via).await,
    }
}

fn is_out_of_descriptors(error: &FileError) -> bool {
    matches!(error.errno().map(Errno::from_raw_os_error), Some(Errno::MFILE | Errno::NFILE))
}

/// All bytes of a small file, if they can be read at once. A file that changes while it is read is left alone.
fn small_content(request: &Request, file: &Arc<OpenFile>, aio: &Aio) -> Option<Bytes> {
    if !is_small(file) {
        return None;
    }
    let size = file.size();
    // Reading one byte more than the file's size shows that the file has grown since.
    let mut content = vec![0; usize::try_from(size).ok()? + 1];
    match request.generation.files.try_read_now(file, 0, &mut content, aio) {
        Some(Ok(n)) if n as u64 == size => {
            content.truncate(n);
            Some(content.into())
        }
        _ => None,
    }
}

/// All bytes of a small file, read by the thread pool.
async fn pooled_content(request: &Request, file: &Arc<OpenFile>, aio: &Aio) -> Option<Bytes> {
    let gone = ClientGone::of(&request.client);
    let via = Via { aio, client: request.client_key(), gone: Some(&gone) };
    let len = usize::try_from(file.size()).ok()?;
    let content = request.generation.files.read_at(file, 0, len + 1, BytesMut::new(), via).await.ok()?;
    (content.len() == len).then(|| content.freeze())
}

fn is_small(file: &OpenFile) -> bool {
    file.is_file() && (1..=MAX_CONTENT).contains(&file.size())
}

/// The attributes of the file at a path.
///
/// # Errors
/// See [`OpenError`].
pub async fn stat(request: &Request, path: &[u8]) -> Result<Meta, OpenError> {
    match known(request, path) {
        Some(CachedLookup::File(file)) => return Ok(file.meta),
        Some(CachedLookup::Meta(meta)) => return Ok(meta),
        Some(CachedLookup::Error(error)) => return Err(OpenError::File(error)),
        None => {
            if let Some(file) = hot(request, path) {
                return Ok(file.meta);
            }
        }
    }
    let aio = aio::resolve(request).ok_or(OpenError::Status(Status::INTERNAL_SERVER_ERROR))?;
    let c_path: CString = c_path(path)?;
    let found = stat_path(request, &c_path, &aio).await;
    keep(request, path, found.as_ref().map(|meta| CachedLookup::Meta(*meta)));
    found.map_err(OpenError::File)
}

async fn stat_path(request: &Request, path: &CStr, aio: &Aio) -> Result<Meta, FileError> {
    let files = &request.generation.files;
    let check = link_check(request, path.to_bytes());
    if check.is_none()
        && let Some(meta) = files.try_stat_now(path, aio)
    {
        return meta;
    }
    let gone = ClientGone::of(&request.client);
    let via = Via { aio, client: request.client_key(), gone: Some(&gone) };
    match check {
        None => files.stat(path, via).await,
        Some(check) => files.stat_checked(path, check, via).await,
    }
}

/// The entries of a folder whose names do not begin with a dot; the thread pool always reads them.
///
/// # Errors
/// The status of the response; the reason was logged.
pub async fn list(request: &Request, folder: &[u8]) -> Result<Listing, Status> {
    list_arranged(request, folder, Arrange::default()).await
}

/// The entries of a folder that are asked for, in the order that is asked for.
///
/// # Errors
/// The errors of [`list`].
pub async fn list_arranged(request: &Request, folder: &[u8], arrange: Arrange) -> Result<Listing, Status> {
    let aio = aio::resolve(request).ok_or(Status::INTERNAL_SERVER_ERROR)?;
    let path = c_path(folder).map_err(|error| error.status())?;
    let gone = ClientGone::of(&request.client);
    let via = Via { aio: &aio, client: request.client_key(), gone: Some(&gone) };
    let error = match request.generation.files.list(path, link_check(request, folder), arrange, via).await {
        Ok(listing) => return Ok(listing),
        Err(error) => error,
    };
    let status = match &error {
        ListError::File(error) => OpenError::File(error.clone()).status(),
        ListError::TooMany => Status::INTERNAL_SERVER_ERROR,
        ListError::Exhausted(_) => Status::SERVICE_UNAVAILABLE,
    };
    let text = error.describe(folder);
    match status {
        Status::CLIENT_CLOSED_REQUEST => log_error!(request, Info, "{text}"),
        Status::FORBIDDEN | Status::NOT_FOUND | Status::SERVICE_UNAVAILABLE => log_error!(request, Error, "{text}"),
        _ => log_error!(request, Crit, "{text}"),
    }
    Err(status)
}
