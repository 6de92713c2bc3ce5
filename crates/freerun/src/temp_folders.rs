//! Folders for temporary files: made by the master, for the user that the worker runs as.

use freerun_conf::{Problem, path_of};
use freerun_serve::configuration::parts::{FolderNeed, TempFolder};
use rustix::fs::{Access, FileType, Mode};
use rustix::io::Errno;

use crate::error::Error;
use crate::settings::user::Identity;

/// The permissions of a folder that is made, and the least permissions of an existing one.
const RIGHTS: u32 = 0o700;
/// The permissions of a missing folder on the way to a compiled-in one.
const PARENT_RIGHTS: u32 = 0o755;

/// Makes the missing ones of these folders on which at least so much depends, and gives them to the worker's user.
/// Returns warnings about compiled-in folders that requests may need and that cannot be used.
///
/// # Errors
/// The system's error about a folder that the configuration names, in nginx's words.
pub fn make(folders: &[TempFolder], least: FolderNeed, identity: Option<&Identity>) -> Result<Vec<Problem>, Error> {
    let mut warnings = Vec::new();
    for folder in folders.iter().filter(|folder| folder.need >= least) {
        if folder.need == FolderNeed::Named {
            make_one(&folder.path, identity)?;
            continue;
        }
        let usable = make_parents(&folder.path)
            .and_then(|()| make_one(&folder.path, identity))
            .and_then(|()| check_access(&folder.path, identity));
        if let Err(error) = usable
            && folder.need == FolderNeed::Used
        {
            let lost = match folder.directive.as_str() {
                "client_body_temp_path" => "request bodies larger than client_body_buffer_size are answered with 500",
                _ => "responses larger than their buffers wait for their clients",
            };
            warnings.push(Problem::warning(format!("{error}, {lost}")).hint(format!(
                "make the folder, or name another one that the worker may write to: {} PATH;",
                folder.directive
            )));
        }
    }
    Ok(warnings)
}

fn make_one(path: &str, identity: Option<&Identity>) -> Result<(), Error> {
    match rustix::fs::mkdir(&*path_of(path), Mode::from_raw_mode(RIGHTS)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(Error::named("mkdir", path)(error)),
    }
    let Some(identity) = identity else { return Ok(()) };
    let stat = rustix::fs::stat(&*path_of(path)).map_err(Error::named("stat", path))?;
    if stat.st_uid != identity.uid {
        let owner = Some(rustix::process::Uid::from_raw(identity.uid));
        rustix::fs::chown(&*path_of(path), owner, None).map_err(Error::named("chown", path))?;
    }
    if stat.st_mode & RIGHTS != RIGHTS {
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | RIGHTS);
        rustix::fs::chmod(&*path_of(path), mode).map_err(Error::named("chmod", path))?;
    }
    Ok(())
}

/// Makes the missing folders above a compiled-in one: a machine on which nginx was never installed, or an image of it
/// with other paths, has none.
fn make_parents(path: &str) -> Result<(), Error> {
    let Some(parent) = std::path::Path::new(path).parent().and_then(|parent| parent.to_str()) else { return Ok(()) };
    if !matches!(rustix::fs::stat(&*path_of(parent)), Err(Errno::NOENT)) {
        return Ok(());
    }
    make_parents(parent)?;
    match rustix::fs::mkdir(&*path_of(parent), Mode::from_raw_mode(PARENT_RIGHTS)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(Error::named("mkdir", parent)(error)),
    }
}

/// Checks that a worker with this process's user may make files in the folder. A worker with another user owns it.
fn check_access(path: &str, identity: Option<&Identity>) -> Result<(), Error> {
    let stat = rustix::fs::stat(&*path_of(path)).map_err(Error::named("stat", path))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Error::named("open", path)(Errno::NOTDIR));
    }
    match identity {
        Some(_) => Ok(()),
        None => rustix::fs::access(&*path_of(path), Access::WRITE_OK | Access::EXEC_OK)
            .map_err(Error::named("access", path)),
    }
}
