//! From a URI to the name of a file: `root` and `alias`.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};

use freerun_conf::{bytes_of, text_of};
use freerun_runtime::files::FileError;

use crate::content::open_error::OpenError;
use crate::log_error;
use crate::request::Request;
use crate::request::core_settings::CoreSettings;
use crate::template::Template;

/// `$document_root`: `root`, or `alias`, as an absolute path.
pub fn document_root(request: &Request) -> Vec<u8> {
    root_with_room(request, 0)
}

/// The document root, in a vector with room for `room` bytes more.
fn root_with_room(request: &Request, room: usize) -> Vec<u8> {
    once(request, |request| {
        let folder = folder(request);
        let mut name = absolute(request, &folder.render(request), room);
        // A `root` without variables loses one slash at its end, because the path that follows begins with one.
        if request.place.location.alias.is_none() && folder.constant().is_some() && name.last() == Some(&b'/') {
            name.pop();
        }
        name
    })
}

/// The value of `root` or `alias`.
fn folder(request: &Request) -> &Template {
    match &request.place.location.alias {
        Some(alias) => &alias.path,
        None => &request.settings().get::<CoreSettings>().root.0,
    }
}

/// Calls `make` unless it is running already: names of files are made of variables, and some variables of names of
/// files. Where a name would need itself, it is empty.
fn once<N: Default>(request: &Request, make: impl FnOnce(&Request) -> N) -> N {
    if request.naming_file.replace(true) {
        log_error!(request, Error, "cycle while evaluating the name of a file");
        return N::default();
    }
    let name = make(request);
    request.naming_file.set(false);
    name
}

/// `$realpath_root`: the document root with its symbolic links resolved. `None` if there is no such folder.
///
/// A variable cannot wait: a folder whose name is not in the kernel's lookup cache is returned as it is written. It is
/// in the cache as soon as any file was served from it.
pub fn real_root(request: &Request) -> Option<Vec<u8>> {
    let root = document_root(request);
    once(request, |request| match resolve(request, &root) {
        Some(Err(error)) if OpenError::File(error.clone()).is_missing() => {
            log_error!(request, Crit, "realpath() \"{}\" failed ({error})", text_of(&root));
            None
        }
        Some(Ok(path)) => Some(path),
        _ => Some(root),
    })
}

fn resolve(request: &Request, root: &[u8]) -> Option<Result<Vec<u8>, FileError>> {
    let aio = crate::content::aio::resolve(request)?;
    let folder = match request.generation.files.try_open_now(&CString::new(root).ok()?, &aio)? {
        Ok(folder) => folder,
        Err(error) => return Some(Err(error)),
    };
    // procfs makes the target of a descriptor's link from memory, so reading it does not wait.
    let link = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
    Some(Ok(rustix::fs::readlink(link, Vec::new()).ok()?.into_bytes()))
}

/// Whether the location and the path alone determine where the file is, independent of what happened to the request
/// before, if [`is_constant`] holds for the location.
pub fn is_as_asked(request: &Request) -> bool {
    !request.place.rewritten_here && !request.place.path_behind_alias
}

/// Whether the folder that is put before paths in the request's location is the same for all requests.
pub fn is_constant(request: &Request) -> bool {
    folder(request).constant().is_some()
}

/// `$request_filename`: the name of the file that the request's path leads to.
pub fn file_name(request: &Request) -> Vec<u8> {
    file_name_of(request, &request.asked.path)
}

/// The value of [`file_name_of`] where there is no name: opening it is answered with 500.
pub const NO_NAME: &[u8] = b"\0";

/// The beginning of names of files that cannot be: a device has nothing below it.
const NOWHERE: &[u8] = b"/dev/null/";

/// The name of the file that `path` leads to, in the request's location.
pub fn file_name_of(request: &Request, path: &[u8]) -> Vec<u8> {
    if alias_is_lost(request) {
        return NO_NAME.to_vec();
    }
    if leads_beside_root(request, path) {
        return [NOWHERE, path].concat();
    }
    let rest = match &request.place.location.alias {
        None => path,
        Some(alias) => match &alias.prefix {
            Some(prefix) => path.get(prefix.len()..).unwrap_or_default(),
            None if request.place.path_behind_alias => path,
            None => b"",
        },
    };
    // One byte more, for a caller that makes a C string of it.
    let mut name = root_with_room(request, rest.len() + 1);
    name.extend_from_slice(rest);
    name
}

/// Whether the location has an `alias` and a `rewrite` has changed the path, so that the alias has no part of it to
/// replace. That is an error, as in nginx, and is logged.
pub fn alias_is_lost(request: &Request) -> bool {
    let lost = request.place.rewritten_here && request.place.location.alias.is_some();
    if lost {
        let name = &request.place.location.name;
        log_error!(request, Alert, "\"alias\" cannot be used in location \"{name}\" where URI was rewritten");
    }
    lost
}

/// Whether a path has no slash in front, as a `rewrite` or `try_files` may make it. Behind `root`, it would name a file
/// beside that folder (`/srv/www` and `old/x`: `/srv/wwwold/x`). It is logged.
fn leads_beside_root(request: &Request, path: &[u8]) -> bool {
    let leads = request.place.location.alias.is_none() && path.first().is_some_and(|byte| *byte != b'/');
    if leads {
        let path = text_of(path);
        log_error!(request, Error, "the URI \"{path}\" does not begin with a slash, so it names no file");
    }
    leads
}

fn absolute(request: &Request, path: &[u8], room: usize) -> Vec<u8> {
    let prefix = match path.first() {
        Some(b'/') => "",
        _ => &request.generation.paths.prefix,
    };
    let mut name = Vec::with_capacity(prefix.len() + path.len() + room);
    name.extend_from_slice(&bytes_of(prefix));
    name.extend_from_slice(path);
    name
}
