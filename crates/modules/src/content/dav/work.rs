//! The work of a pool thread for a method, and the status for each error.

use std::ffi::{CStr, CString};

use freerun_proto::Status;
use freerun_runtime::files::change::{self, Aside, AtEnd, Contents, NewFile};
use freerun_runtime::files::{AnchoredName, FileError, LinkCheck};
use rustix::io::Errno;

/// A path, with the information whether the URI names a folder.
pub struct Target {
    /// The path.
    pub path: CString,
    /// Whether the URI ends with a slash.
    pub is_folder: bool,
}

/// A change of the file tree.
pub enum TreeChange {
    /// Writes a file with these contents.
    Put { contents: Contents, target: CString, new: NewFile },
    /// Removes a file, or a folder with its contents. `allowed`: `Depth` had a valid value; `whole`: it was `infinity`.
    Delete { target: Target, allowed: bool, whole: bool },
    /// Makes a folder.
    MakeFolder { path: CString, mode: u32 },
    /// Copies or moves a file or folder.
    Transfer { from: Target, to: Target, moves: Option<Moves>, overwrite: bool },
}

/// The parameters that only a move has.
#[derive(Clone, Copy)]
pub struct Moves {
    /// The rights of folders that are missing on the way to a file's new name. nginx makes such folders whether or not
    /// `create_full_put_path` is on, but neither for a folder nor for a copy.
    pub folders: u32,
}

/// The reason why a change was not made.
pub struct Failure {
    /// The status of the answer.
    pub status: Status,
    /// The error to log.
    pub error: Option<FileError>,
    /// The path that the error is about.
    pub path: CString,
}

fn refused(status: Status, path: &CStr, errno: Option<Errno>) -> Failure {
    let error = errno.map(|errno| FileError::System { call: "stat()", errno: errno.raw_os_error() });
    Failure { status, error, path: path.to_owned() }
}

/// nginx's statuses for errors of the system; `missing` is the status for a file or folder that does not exist.
fn status(error: &FileError, missing: Status) -> Status {
    match error.errno().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => missing,
        Some(Errno::ACCESS | Errno::PERM) => Status::FORBIDDEN,
        Some(Errno::EXIST) => Status::METHOD_NOT_ALLOWED,
        Some(Errno::LOOP) => Status::FORBIDDEN,
        _ if error.is_full_disk() => Status::INSUFFICIENT_STORAGE,
        _ => Status::INTERNAL_SERVER_ERROR,
    }
}

fn failed(path: &CStr, missing: Status) -> impl FnOnce(FileError) -> Failure {
    move |error| Failure { status: status(&error, missing), error: Some(error), path: path.to_owned() }
}

/// The failure for errors that nginx always answers with 500; a full disk has its own status.
fn broken(path: &CStr) -> impl FnOnce(FileError) -> Failure {
    move |error| Failure {
        status: if error.is_full_disk() { Status::INSUFFICIENT_STORAGE } else { Status::INTERNAL_SERVER_ERROR },
        error: Some(error),
        path: path.to_owned(),
    }
}

fn without_slash(path: &CStr) -> CString {
    let mut bytes = path.to_bytes();
    while bytes.len() > 1 && bytes.ends_with(b"/") {
        bytes = &bytes[..bytes.len() - 1];
    }
    CString::new(bytes).unwrap_or_default()
}

impl TreeChange {
    /// The path that is changed.
    pub fn path(&self) -> &CStr {
        match self {
            TreeChange::Put { target, .. } => target,
            TreeChange::MakeFolder { path, .. } => path,
            TreeChange::Delete { target, .. } | TreeChange::Transfer { to: target, .. } => &target.path,
        }
    }

    /// All paths that may be changed.
    pub fn paths(&self) -> Vec<CString> {
        let mut paths = vec![self.path().to_owned()];
        if let TreeChange::Transfer { from, moves: Some(_), .. } = self {
            paths.push(from.path.clone());
        }
        paths
    }

    /// The checks of `disable_symlinks` on the paths: first on the path that is changed, then on the source of a copy
    /// or move.
    pub fn checks(&self, check: impl Fn(&[u8]) -> Option<LinkCheck>) -> Option<(LinkCheck, LinkCheck)> {
        let target = check(self.path().to_bytes())?;
        let source = match self {
            TreeChange::Transfer { from, .. } => check(from.path.to_bytes())?,
            _ => target,
        };
        Some((target, source))
    }

    /// Makes the change through folders that are reached by allowed links only and that stay the same; a link at the
    /// end of a path is refused.
    pub fn run_checked(mut self, target: LinkCheck, source: LinkCheck) -> Result<bool, Failure> {
        let mut held = Vec::new();
        let mut anchor = |path: &mut CString, check, make, missing| {
            let anchored = AnchoredName::new(path, check, make).map_err(failed(path, missing))?;
            let mut new = anchored.path().into_bytes();
            // The slash still tells whether a folder is meant.
            if path.to_bytes().ends_with(b"/") {
                new.push(b'/');
            }
            held.push((CString::new(new).unwrap_or_default(), path.clone(), anchored));
            path.clone_from(&held[held.len() - 1].0);
            Ok(())
        };
        match &mut self {
            TreeChange::Put { target: path, new, .. } => {
                anchor(path, target, new.folders, Status::INTERNAL_SERVER_ERROR)?
            }
            TreeChange::Delete { target: to, .. } => anchor(&mut to.path, target, None, Status::NOT_FOUND)?,
            TreeChange::MakeFolder { path, .. } => anchor(path, target, None, Status::CONFLICT)?,
            TreeChange::Transfer { from, to, moves, .. } => {
                let folders = moves.filter(|_| !to.is_folder).map(|moves| moves.folders);
                anchor(&mut to.path, target, folders, Status::INTERNAL_SERVER_ERROR)?;
                anchor(&mut from.path, source, None, Status::NOT_FOUND)?;
            }
        }
        self.run_with(AtEnd::Refuse).map_err(|failure| {
            // The log shows the path of the request.
            let asked = held.iter().find(|(new, ..)| without_slash(new) == without_slash(&failure.path));
            match asked {
                Some((_, path, _)) => Failure { path: path.clone(), ..failure },
                None => failure,
            }
        })
    }

    /// Makes the change. `true`: for a PUT, the file existed before; for a transfer, the source is a folder.
    pub fn run(self) -> Result<bool, Failure> {
        self.run_with(AtEnd::Follow)
    }

    fn run_with(self, link: AtEnd) -> Result<bool, Failure> {
        match self {
            TreeChange::Put { contents, target, new } => put(&contents, &target, new),
            TreeChange::Delete { target, allowed, whole } => delete(&target, allowed, whole, link).map(|()| false),
            TreeChange::MakeFolder { path, mode } => change::make_folder(&without_slash(&path), mode)
                .map_err(failed(&path, Status::CONFLICT))
                .map(|()| false),
            TreeChange::Transfer { from, to, moves, overwrite } => transfer(&from, &to, moves, overwrite, link),
        }
    }
}

fn put(contents: &Contents, target: &CStr, new: NewFile) -> Result<bool, Failure> {
    let existed = match change::look_through(target) {
        Ok(meta) if meta.is_dir() => return Err(refused(Status::CONFLICT, target, Some(Errno::ISDIR))),
        found => found.is_ok(),
    };
    change::put(contents, target, new).map_err(broken(target))?;
    Ok(existed)
}

fn delete(target: &Target, allowed: bool, whole: bool, link: AtEnd) -> Result<(), Failure> {
    let path = &target.path;
    let meta = match change::look(path) {
        Ok(meta) => meta,
        Err(error) if error.errno() == Some(Errno::NOTDIR.raw_os_error()) => {
            return Err(refused(Status::CONFLICT, path, Some(Errno::NOTDIR)));
        }
        Err(error) => return Err(failed(path, Status::NOT_FOUND)(error)),
    };
    if meta.is_dir() {
        if !target.is_folder {
            return Err(refused(Status::CONFLICT, path, Some(Errno::ISDIR)));
        }
        if !whole {
            return Err(refused(Status::BAD_REQUEST, path, None));
        }
        change::remove_tree(&without_slash(path), link).map_err(failed(path, Status::NOT_FOUND))
    } else {
        if !allowed {
            return Err(refused(Status::BAD_REQUEST, path, None));
        }
        change::remove(path).map_err(failed(path, Status::NOT_FOUND))
    }
}

fn transfer(from: &Target, to: &Target, moves: Option<Moves>, overwrite: bool, link: AtEnd) -> Result<bool, Failure> {
    let new = without_slash(&to.path);
    let there = match change::look(&new) {
        Ok(meta) => Some(meta),
        Err(error) if error.errno() == Some(Errno::NOENT.raw_os_error()) => None,
        Err(error) => return Err(failed(&new, Status::NOT_FOUND)(error)),
    };
    if there.is_some_and(|meta| meta.is_dir()) && !to.is_folder {
        return Err(refused(Status::CONFLICT, &new, Some(Errno::ISDIR)));
    }
    if there.is_some() && !overwrite {
        return Err(refused(Status::PRECONDITION_FAILED, &new, Some(Errno::EXIST)));
    }
    let source = change::look(&from.path).map_err(failed(&from.path, Status::NOT_FOUND))?;
    if source.is_dir() && !from.is_folder {
        return Err(refused(Status::BAD_REQUEST, &from.path, Some(Errno::ISDIR)));
    }
    let old = without_slash(&from.path);
    if overlap(old.to_bytes(), new.to_bytes())
        || there.is_some_and(|there| (there.dev, there.ino) == (source.dev, source.ino))
    {
        return Err(refused(Status::FORBIDDEN, &new, None));
    }
    if !source.is_dir() {
        let outcome = match moves {
            Some(Moves { folders }) => change::rename_into(&old, &new, link, folders),
            None => change::copy_file(&old, &new, link),
        };
        return outcome.map_err(broken(&new)).map(|()| false);
    }
    let aside = there.map(|_| Aside::set(&new)).transpose().map_err(failed(&new, Status::NOT_FOUND))?;
    let outcome = match (moves.is_some(), link) {
        (true, AtEnd::Follow) => change::rename(&from.path, &to.path, link),
        (true, AtEnd::Refuse) => change::rename(&old, &new, link),
        (false, AtEnd::Follow) => change::copy_tree(&from.path, &new, link),
        (false, AtEnd::Refuse) => change::copy_tree(&old, &new, link),
    };
    match (outcome, aside) {
        (Ok(()), None) => Ok(true),
        (Ok(()), Some(aside)) => aside.remove().map_err(failed(&new, Status::NOT_FOUND)).map(|()| true),
        (Err(error), aside) => {
            if let Some(aside) = aside {
                aside.put_back();
            }
            Err(failed(&new, Status::NOT_FOUND)(error))
        }
    }
}

/// Whether the paths are equal, or one is inside the other.
fn overlap(one: &[u8], other: &[u8]) -> bool {
    let inside = |outer: &[u8], inner: &[u8]| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || outer.ends_with(b"/"))
    };
    inside(one, other) || inside(other, one)
}
