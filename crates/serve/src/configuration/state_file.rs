//! Small files with a state that is changed while the server runs: each is replaced as a whole.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use freerun_conf::{Cx, Node, Problem, path_of};

use crate::configuration::parts::{Paths, WrittenPlaces};

/// The end of the name that a file has while it is written.
const UNFINISHED: &str = ".new";

/// The end of the name that a file which could not be used gets when it has been written again.
const UNUSED: &str = ".unused";

/// The permissions of a file that is not there yet: its state may be secret.
const NEW_MODE: u32 = 0o600;

/// Whose state is in the files that the configuration names, by their paths; lives in its context.
#[derive(Default)]
struct Owners(HashMap<String, String>);

/// Notes that the file with this path keeps the state of `owner`, and warns if it keeps another state already: each owner
/// replaces the file as a whole.
pub fn claim(path: &str, owner: &str, directive: &Node, cx: &mut Cx) {
    cx.extensions.get_or_default::<WrittenPlaces>().add(path);
    let owners = &mut cx.extensions.get_or_default::<Owners>().0;
    let first = owners.entry(path.to_owned()).or_insert_with(|| owner.to_owned());
    if first != owner {
        let message =
            format!("state file \"{path}\" is that of {first}, too: a change of one replaces the other's state");
        cx.warn(Problem::warning(message).at_node(directive));
    }
}

/// The texts of state files that a configuration is made of, by the paths of the files. Each has a flag: whether the file now
/// has another text that cannot be used. Lives in the configuration's context.
#[derive(Default)]
struct Texts(HashMap<String, (Fingerprint, bool)>);

/// Notes that the configuration is made of this text of the file with this path; a file that is not there is like an empty one.
/// `is_unusable`: the file has another text by now, which cannot be used.
pub fn note_text(path: &str, text: &[u8], is_unusable: bool, cx: &mut Cx) {
    cx.extensions.get_or_default::<Texts>().0.insert(path.to_owned(), (fingerprint(text), is_unusable));
}

/// A file with a state.
#[derive(Debug)]
pub struct StateFile {
    path: String,
    /// Locked while anybody of this process writes the file.
    writing: Arc<Mutex<()>>,
    /// The contents that the file has if nobody but this process has changed it: as it was read, or written last.
    known: Mutex<Option<Fingerprint>>,
    /// Whether the file has what nobody has read: it is not lost when it is written.
    is_unused: AtomicBool,
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
        StateFile { path, writing: Arc::default(), known: Mutex::new(None), is_unused: AtomicBool::new(false) }
    }

    /// The file with this path as the configuration has it, with the text of it that the configuration is made of
    /// ([`note_text`]).
    pub fn of(path: &str, cx: &mut Cx) -> StateFile {
        let path = cx.extensions.get_or_default::<Paths>().absolute(path);
        let (known, is_unused) = cx.extensions.get::<Texts>().and_then(|texts| texts.0.get(&path).copied()).unzip();
        let is_unused = AtomicBool::new(is_unused.unwrap_or_default());
        StateFile { known: Mutex::new(known), is_unused, ..StateFile::new(path) }
    }

    /// The same file, to be used after `before`: they are never written at a time.
    #[must_use]
    pub fn after(self, before: &StateFile) -> StateFile {
        StateFile { writing: before.writing.clone(), ..self }
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Notes that the file cannot be used as it is. When the new file is written, the old one stays beside it, with `.unused`
    /// behind its name: an administrator who repairs it may need it.
    pub fn note_unused(&self) {
        self.is_unused.store(true, Relaxed);
    }

    /// Replaces the file by what `make` gives. A thread that comes while another one writes waits and then writes the state of
    /// that moment, so that the file has the last state. It waits for the disk, so a loop never calls it. Others see the old file or the new one,
    /// also after a power failure.
    ///
    /// # Errors
    /// The system's; the old file is still there.
    pub fn write(&self, make: impl FnOnce() -> Vec<u8>) -> io::Result<()> {
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = path_of(&self.path);
        let unfinished = format!("{}{UNFINISHED}", self.path);
        let unfinished = path_of(&unfinished);
        let mut file = File::options().write(true).create(true).truncate(true).mode(NEW_MODE).open(&*unfinished)?;
        let text = make();
        // Who may read the file stays as an administrator has set it: pairs may be secrets.
        let allowed = fs::metadata(&*path).map_or(Ok(()), |old| file.set_permissions(old.permissions()));
        let written = allowed.and_then(|()| file.write_all(&text)).and_then(|()| file.sync_all());
        if written.is_ok() && self.is_unused.swap(false, Relaxed) {
            let aside = format!("{}{UNUSED}", self.path);
            let aside = path_of(&aside);
            // A link may be forbidden if the file is another user's. An older link stays.
            let _ = fs::hard_link(&*path, &*aside).or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Ok(()),
                _ => fs::rename(&*path, &*aside),
            });
        }
        written.and_then(|()| fs::rename(&*unfinished, &*path)).inspect_err(|_| {
            // The error before this one is reported.
            let _ = fs::remove_file(&*unfinished);
        })?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(fingerprint(&text));
        Ok(())
    }

    /// Whether the file has what it was read as, or was written as last: nobody but this process has changed it since. A file
    /// that is not there is like an empty one. It waits for the disk, so a loop never calls it.
    pub fn is_as_known(&self) -> bool {
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Some(fingerprint(&fs::read(path_of(&self.path)).unwrap_or_default()));
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) == now
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use freerun_conf::Sources;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("freerun-state-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.state");
        let file = StateFile::new(path.to_str().unwrap().to_owned());
        file.write(|| b"one".to_vec()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        file.write(|| b"two".to_vec()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::create_dir(folder.join("a.state.new")).unwrap();
        assert!(file.write(|| b"three".to_vec()).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_could_not_be_used_is_not_lost() {
        let folder = std::env::temp_dir().join(format!("freerun-unused-state-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.state").to_str().unwrap().to_owned();
        fs::write(&path, "half of").unwrap();
        let mut cx = Cx::new(Sources::default());
        note_text(&path, b"", true, &mut cx);
        let file = StateFile::of(&path, &mut cx);
        let read = |path: &str| fs::read_to_string(path).ok();
        file.write(|| b"one".to_vec()).unwrap();
        let aside = format!("{path}{UNUSED}");
        assert_eq!((read(&path).as_deref(), read(&aside).as_deref()), (Some("one"), Some("half of")));
        file.write(|| b"two".to_vec()).unwrap();
        file.note_unused();
        file.write(|| b"three".to_vec()).unwrap();
        assert_eq!((read(&path).as_deref(), read(&aside).as_deref()), (Some("three"), Some("half of")));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_others_write_is_noticed_until_it_is_read() {
        let folder = std::env::temp_dir().join(format!("freerun-known-state-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.state").to_str().unwrap().to_owned();
        let read_as = |text: &str| {
            let mut cx = Cx::new(Sources::default());
            note_text(&path, text.as_bytes(), false, &mut cx);
            StateFile::of(&path, &mut cx)
        };
        assert!(!StateFile::new(path.clone()).is_as_known(), "nothing is known of it");
        let file = read_as("");
        assert!(file.is_as_known(), "a file that is not there is empty");
        file.write(|| b"one".to_vec()).unwrap();
        assert!(file.is_as_known());
        fs::write(&path, "two").unwrap();
        // A configuration that was going to use this, and could not be built, does not make it known.
        assert_eq!([file.is_as_known(), file.is_as_known()], [false, false]);
        let older = read_as("one").after(&file);
        assert!(!older.is_as_known(), "it was read before it was written");
        assert!(read_as("two").after(&file).is_as_known());
        fs::remove_file(&path).unwrap();
        assert!(!read_as("two").is_as_known());
        fs::remove_dir_all(&folder).unwrap();
    }
}
