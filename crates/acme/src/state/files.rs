//! Reading and replacing files, so that one is always whole: kill -9 and a loss of power leave the old one or the new one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use zeroize::Zeroizing;

/// Reads a file of at most `most` bytes, and one more where it is larger; `None` if there is none.
pub(crate) fn read(folder: &Path, name: &str, most: usize) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let file = match File::open(folder.join(name)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // The room is made at once, because a vector that grows leaves its bytes, a key among them, in freed memory.
    let length = file.metadata()?.len().min(most as u64) as usize;
    let mut bytes = Zeroizing::new(Vec::with_capacity(length + 1));
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Replaces a file, or makes it, and its folder too: the folder for its owner alone, the file as well.
pub(crate) fn replace(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let temporary = folder.join(format!(".{name}.new"));
    // A process that was killed may have left one; its access rights are not known, so it is not written to.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        // Before the name changes, what it will name has to be on the disk.
        file.sync_all()?;
        fs::rename(&temporary, folder.join(name))?;
        File::open(folder)?.sync_all()
    };
    write().inspect_err(|_| {
        // The error that matters is the first one.
        let _ = fs::remove_file(&temporary);
    })
}

/// Renames a file, if there is one: `.old` is added to its name, where the one of before is replaced.
pub(crate) fn set_aside(folder: &Path, name: &str) -> io::Result<()> {
    match fs::rename(folder.join(name), folder.join(format!("{name}.old"))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_are_their_owners_alone_and_replaced_as_a_whole() {
        let folder = freerun_testkit::TempDir::new("acme");
        let state = folder.path().join("deep/state");
        assert!(read(&state, "a", 10).expect("no error").is_none());
        replace(&state, "a", "one").expect("written");
        // Another process was killed while it wrote.
        fs::write(state.join(".a.new"), "half of a ver").expect("written");
        let reader = File::open(state.join("a")).expect("a file");
        replace(&state, "a", "two").expect("written");
        assert_eq!(read(&state, "a", 10).expect("no error").expect("a file").as_slice(), b"two");
        // Who has the old one open still has the old one.
        assert_eq!(io::read_to_string(reader).expect("text"), "one");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        assert_eq!((mode(&state), mode(&state.join("a"))), (0o700, 0o600));
        assert_eq!(fs::read_dir(&state).expect("a folder").count(), 1);
        assert_eq!(read(&state, "a", 1).expect("no error").expect("a file").len(), 2);
        set_aside(&state, "a").expect("renamed");
        set_aside(&state, "a").expect("nothing to rename");
        assert!(read(&state, "a", 10).expect("no error").is_none());
        assert_eq!(read(&state, "a.old", 10).expect("no error").expect("a file").as_slice(), b"two");
    }
}
