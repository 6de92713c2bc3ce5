//! The file with the master's process id.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

use freerun_conf::{path_of, text_of};

use crate::error::Error;

/// The longest content that is read from a pid file, in bytes.
const MAX_CONTENT: usize = 64;

/// Writes this process's id. The file appears complete: it is written under another name and renamed, if the folder
/// allows that. A pid file that is a device or a link is written in place, and so is a file in a folder without write
/// permission.
pub fn write(path: &str) -> Result<(), Error> {
    let content = format!("{}\n", std::process::id());
    let plain =
        fs::symlink_metadata(path_of(path)).map_or_else(|e| e.kind() == io::ErrorKind::NotFound, |meta| meta.is_file());
    if plain && write_renamed(path, &content).is_ok() {
        return Ok(());
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o644)
        .open(path_of(path))
        .map_err(Error::named("open", path))?;
    file.write_all(content.as_bytes()).map_err(Error::named("write", path))
}

fn write_renamed(path: &str, content: &str) -> io::Result<()> {
    let temporary = format!("{path}.{}.tmp", std::process::id());
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path_of(&temporary))?;
    let done = file
        .write_all(content.as_bytes())
        .and_then(|()| file.set_permissions(fs::Permissions::from_mode(0o644)))
        .and_then(|()| fs::rename(path_of(&temporary), path_of(path)));
    if done.is_err() {
        let _ = fs::remove_file(path_of(&temporary));
    }
    done
}

/// Removes the file at the end, if it still has this process's id.
pub fn remove(path: &str) -> Result<(), Error> {
    match read(path) {
        Ok(pid) if pid != std::process::id() as i32 => Ok(()),
        _ => fs::remove_file(path_of(path)).map_err(Error::named("unlink", path)),
    }
}

/// Whether a pid file could be made there. Changes nothing: `-t` must not leave an empty file behind.
pub fn check(path: &str) -> Result<(), Error> {
    use rustix::fs::{Access, access};
    let file = path_of(path);
    if file.exists() {
        return access(&*file, Access::WRITE_OK).map_err(Error::named("open", path));
    }
    let folder = match path.rfind('/') {
        Some(0) => "/",
        Some(slash) => &path[..slash],
        None => ".",
    };
    access(&*path_of(folder), Access::WRITE_OK | Access::EXEC_OK).map_err(Error::named("open", path))
}

/// The id in the file.
pub fn read(path: &str) -> Result<i32, Error> {
    let content = fs::read(path_of(path)).map_err(Error::named("open", path))?;
    let content = &content[..content.len().min(MAX_CONTENT)];
    let text = text_of(content);
    // nginx takes the number up to the end of the line.
    let number = text.trim_end_matches(['\r', '\n']);
    match number.parse::<i32>() {
        Ok(pid) if pid > 0 && number.bytes().all(|b| b.is_ascii_digit()) => Ok(pid),
        _ => Err(Error::Configuration(format!("invalid PID number \"{number}\" in \"{path}\""))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn scratch(name: &str) -> String {
        let dir = std::env::temp_dir().join(format!("freerun-pid-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        dir.join("pid").to_str().unwrap().to_owned()
    }

    #[test]
    fn what_is_written_is_read_and_removed() {
        let path = scratch("round");
        check(&path).unwrap();
        assert!(!Path::new(&path).exists(), "checking leaves nothing behind");
        write(&path).unwrap();
        assert_eq!(read(&path).unwrap(), std::process::id() as i32);
        check(&path).unwrap();
        remove(&path).unwrap();
        assert!(!Path::new(&path).exists());
    }

    #[test]
    fn the_file_of_another_process_is_left_alone() {
        let path = scratch("other");
        fs::write(&path, "1\n").unwrap();
        remove(&path).unwrap();
        assert_eq!(read(&path).unwrap(), 1);
    }

    #[test]
    fn a_link_is_written_through() {
        let path = scratch("link");
        let target = format!("{path}.target");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        write(&path).unwrap();
        assert_eq!(read(&target).unwrap(), std::process::id() as i32);
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    }

    #[test]
    fn contents_that_are_no_pid() {
        let path = scratch("bad");
        for content in ["", "\n", "12x", "-5", "+5", "0", "99999999999", " 7", "\0"] {
            fs::write(&path, content).unwrap();
            let shown = content.trim_end_matches('\n');
            assert_eq!(read(&path).unwrap_err().to_string(), format!("invalid PID number \"{shown}\" in \"{path}\""));
        }
        let absent = format!("{path}.absent");
        let told = format!("open() \"{absent}\" failed (2: No such file or directory)");
        assert_eq!(read(&absent).unwrap_err().to_string(), told);
        let nowhere = format!("{path}.dir/pid");
        assert!(check(&nowhere).unwrap_err().to_string().ends_with("failed (2: No such file or directory)"));
    }
}
