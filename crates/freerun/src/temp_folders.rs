//! Folders for temporary files: made by the master, for the user that the worker runs as.

use rustix::fs::Mode;

use crate::error::Error;
use crate::settings::user::Identity;

/// The permissions of a folder that is made, and the least permissions of an existing one.
const RIGHTS: u32 = 0o700;

/// Makes missing folders, and gives them to the worker's user.
///
/// # Errors
/// The system's error, in nginx's words.
pub fn make(paths: &[String], identity: Option<&Identity>) -> Result<(), Error> {
    for path in paths {
        match rustix::fs::mkdir(path, Mode::from_raw_mode(RIGHTS)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(Error::named("mkdir", path)(error)),
        }
        let Some(identity) = identity else { continue };
        let stat = rustix::fs::stat(path).map_err(Error::named("stat", path))?;
        if stat.st_uid != identity.uid {
            let owner = Some(rustix::process::Uid::from_raw(identity.uid));
            rustix::fs::chown(path, owner, None).map_err(Error::named("chown", path))?;
        }
        if stat.st_mode & RIGHTS != RIGHTS {
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | RIGHTS);
            rustix::fs::chmod(path, mode).map_err(Error::named("chmod", path))?;
        }
    }
    Ok(())
}
