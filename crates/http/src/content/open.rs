//! Opening files for a request: from the hot ones, else by probing, else in the pool.

use std::ffi::{CStr, CString};
use std::rc::Rc;

use bytes::Bytes;
use freerun_runtime::files::{Aio, FileError, Meta, Via};
use freerun_runtime::loops;
use freerun_runtime::pool::PoolError;

use crate::content::aio;
use crate::content::hot::{HotFile, MAX_CONTENT};
use crate::request::Request;
use crate::settings::core::{CoreSettings, OpenFileCache};
use crate::write::body::ClientGone;

/// Why a file could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The path has a NUL byte, or the pool's name made of variables names none: 400 or 500.
    Status(u16),
    /// What the system or the pool said.
    File(FileError),
}

impl OpenError {
    /// The status of the answer.
    pub fn status(&self) -> u16 {
        use rustix::io::Errno;
        match self {
            OpenError::Status(status) => *status,
            OpenError::File(FileError::Pool(PoolError::ClientGone)) => 499,
            OpenError::File(FileError::Pool(_)) => 503,
            OpenError::File(error) => match error.errno().map(Errno::from_raw_os_error) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => 404,
                Some(Errno::ACCESS | Errno::LOOP | Errno::PERM) => 403,
                Some(Errno::MFILE | Errno::NFILE) => 503,
                _ => 500,
            },
        }
    }

    /// Whether it just is not there.
    pub fn is_missing(&self) -> bool {
        self.status() == 404
    }
}

fn keeps(request: &Request) -> bool {
    request.settings().get::<CoreSettings>().open_file_cache != OpenFileCache::Off
}

/// The file, if it is a hot one.
pub fn hot(request: &Request, path: &[u8]) -> Option<Rc<HotFile>> {
    if !keeps(request) {
        return None;
    }
    request.connection.home.hot.borrow().get(path, loops::now())
}

fn c_path(path: &[u8]) -> Result<CString, OpenError> {
    CString::new(path).map_err(|_| OpenError::Status(400))
}

/// Opens a file (or a folder: look at what it is) for reading. Small contents come with it if they are in memory.
///
/// # Errors
/// See [`OpenError`].
pub async fn open(request: &Request, path: &[u8]) -> Result<Rc<HotFile>, OpenError> {
    if let Some(file) = hot(request, path) {
        return Ok(file);
    }
    let aio = aio::resolve(request).ok_or(OpenError::Status(500))?;
    let c_path = c_path(path)?;
    let files = &request.generation.files;
    let open_once = async || match files.try_open_now(&c_path, &aio) {
        Some(file) => file,
        None => {
            let gone = ClientGone(&request.connection);
            let via = Via { aio: &aio, client: request.client_key(), gone: Some(&gone) };
            files.open(&c_path, via).await
        }
    };
    let mut opened = open_once().await;
    if let Err(error) = &opened
        && is_out_of_descriptors(error)
        && request.connection.home.hot.borrow_mut().close_files()
    {
        opened = open_once().await;
    }
    let file = opened.map_err(OpenError::File)?;
    let content = small_content(request, &file, &aio);
    let is_file = file.is_file();
    let file = Rc::new(HotFile::new(file, content));
    if is_file && keeps(request) {
        request.connection.home.keep_hot(path, &file);
    }
    Ok(file)
}

fn is_out_of_descriptors(error: &FileError) -> bool {
    use rustix::io::Errno;
    matches!(error.errno().map(Errno::from_raw_os_error), Some(Errno::MFILE | Errno::NFILE))
}

/// All bytes of a small file, if they can be had at once. A file that changes while it is read is left alone.
fn small_content(
    request: &Request,
    file: &std::sync::Arc<freerun_runtime::files::OpenFile>,
    aio: &Aio,
) -> Option<Bytes> {
    let size = file.size();
    if !file.is_file() || size == 0 || size > MAX_CONTENT {
        return None;
    }
    // One byte more than announced shows a file that has grown since.
    let mut content = vec![0; usize::try_from(size).ok()? + 1];
    match request.generation.files.try_read_now(file, 0, &mut content, aio) {
        Some(Ok(n)) if n as u64 == size => {
            content.truncate(n);
            Some(content.into())
        }
        _ => None,
    }
}

/// What is at a path.
///
/// # Errors
/// See [`OpenError`].
pub async fn stat(request: &Request, path: &[u8]) -> Result<Meta, OpenError> {
    if let Some(file) = hot(request, path) {
        return Ok(file.meta);
    }
    let aio = aio::resolve(request).ok_or(OpenError::Status(500))?;
    let c_path: CString = c_path(path)?;
    stat_path(request, &c_path, &aio).await.map_err(OpenError::File)
}

async fn stat_path(request: &Request, path: &CStr, aio: &Aio) -> Result<Meta, FileError> {
    let files = &request.generation.files;
    if let Some(meta) = files.try_stat_now(path, aio) {
        return meta;
    }
    let gone = ClientGone(&request.connection);
    let via = Via { aio, client: request.client_key(), gone: Some(&gone) };
    files.stat(path, via).await
}
