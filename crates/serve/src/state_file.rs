//! Small files with a state that is changed while the server runs: each is replaced as a whole.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use freerun_conf::{Cx, Node, Problem};

/// What the name of a file ends with while it is written.
const UNFINISHED: &str = ".new";

/// Whose state is in the files that the configuration names, by their paths; lives in its context.
#[derive(Default)]
struct Owners(HashMap<String, String>);

/// Notes that the file with this path keeps the state of `owner`, and warns if it keeps that of another one already:
/// each replaces it as a whole.
pub fn claim(path: &str, owner: &str, directive: &Node, cx: &mut Cx) {
    let owners = &mut cx.extensions.get_or_default::<Owners>().0;
    let first = owners.entry(path.to_owned()).or_insert_with(|| owner.to_owned());
    if first != owner {
        let message =
            format!("state file \"{path}\" is that of {first}, too: a change of one replaces the other's state");
        cx.warn(Problem::warning(message).at_node(directive));
    }
}

/// A file with a state.
#[derive(Debug)]
pub struct StateFile {
    path: String,
    /// What this process has written last, or has found there last; locked while it is written.
    known: Mutex<Option<Fingerprint>>,
}

/// The length of a text and a hash of it.
type Fingerprint = (usize, u64);

fn fingerprint(text: &[u8]) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    (text.len(), hasher.finish())
}

impl StateFile {
    /// The file with this absolute path, which need not be there.
    pub fn new(path: String) -> StateFile {
        StateFile { path, known: Mutex::new(None) }
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Replaces the file by what `make` gives. Who comes while another one writes waits and writes what is there then, so that
    /// the file has the last state. It waits for the disk, so a loop never calls it. Others see the old file or the new one,
    /// also after a power failure.
    ///
    /// # Errors
    /// Those of the system; the old file is still there.
    pub fn write(&self, make: impl FnOnce() -> Vec<u8>) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let unfinished = format!("{}{UNFINISHED}", self.path);
        let mut file = File::create(&unfinished)?;
        let text = make();
        let written = file.write_all(&text).and_then(|()| file.sync_all());
        written.and_then(|()| fs::rename(&unfinished, &self.path)).inspect_err(|_| {
            // The error that is told is the one before.
            let _ = fs::remove_file(&unfinished);
        })?;
        *known = Some(fingerprint(&text));
        Ok(())
    }

    /// Whether the file is as this process has written it last, or has found it last by this function; a file that is not there
    /// is like an empty one. It waits for the disk, so a loop never calls it.
    pub fn is_as_known(&self) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Some(fingerprint(&fs::read(&self.path).unwrap_or_default()));
        let is_same = *known == now;
        *known = now;
        is_same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("freerun-state-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.state");
        let file = StateFile::new(path.to_str().unwrap().to_owned());
        file.write(|| b"one".to_vec()).unwrap();
        file.write(|| b"two".to_vec()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::create_dir(folder.join("a.state.new")).unwrap();
        assert!(file.write(|| b"three".to_vec()).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_others_write_is_noticed_once() {
        let folder = std::env::temp_dir().join(format!("freerun-known-state-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.state");
        let file = StateFile::new(path.to_str().unwrap().to_owned());
        let known = || [file.is_as_known(), file.is_as_known()];
        assert_eq!(known(), [false, true], "nothing was known of it");
        file.write(|| b"one".to_vec()).unwrap();
        assert_eq!(known(), [true, true]);
        fs::write(&path, "two").unwrap();
        assert_eq!(known(), [false, true]);
        fs::remove_file(&path).unwrap();
        assert_eq!(known(), [false, true]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
