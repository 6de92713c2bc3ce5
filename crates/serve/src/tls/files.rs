//! Files that a configuration names for TLS: certificates, private keys, passwords.
//!
//! Keys are mostly readable by root alone, and the worker has given up its rights. So the master reads these files while it
//! reads the configuration, and the worker gets their contents with the configuration's texts. A file is read once, under
//! however many names it stands in the configuration: it may be a FIFO.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use freerun_conf::Cx;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::configuration::parts::Paths;

/// The most bytes of one file. The revocation lists of large authorities have some tens of megabytes.
pub const MAX_FILE: usize = 64 << 20;

/// The most bytes that all files of a configuration may have together.
pub const MAX_TOTAL: usize = 128 << 20;

/// The error of a file that is too large: `EFBIG`, as errno(3) has it on Linux.
const TOO_LARGE: i32 = 27;

/// The error of a file that is not among the known ones: `ENOENT`.
const NOT_THERE: i32 = 2;

/// The error of a file whose reader gives none: `EIO`.
const UNKNOWN: i32 = 5;

/// The contents of a file that may have a private key: they are overwritten when the last holder drops them, and shown
/// nowhere.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

impl Secret {
    /// The contents as a secret.
    pub fn new(contents: impl Into<Zeroizing<Vec<u8>>>) -> Secret {
        Secret(Arc::new(contents.into()))
    }

    /// The contents.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Secret({} bytes)", self.0.len())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

/// Takes the bytes of a secret where they stand, so that no other copy is made of them.
struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Secret;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("bytes")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Secret, E> {
        Ok(Secret::new(bytes.to_vec()))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        from.deserialize_bytes(Bytes)
    }
}

/// Mark of a file's state: as long as it is equal, the file is the same.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// The number of its file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Time of the last modification: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
}

impl PartialEq for Stamp {
    /// nginx compares whole seconds. Here a file that is modified twice in a second is another one, unless its time has whole
    /// seconds, as programs set that keep a file's time.
    fn eq(&self, other: &Stamp) -> bool {
        let ((seconds, part), (other_seconds, other_part)) = (self.modified, other.modified);
        let same_time = seconds == other_seconds && (part == other_part || part == 0 || other_part == 0);
        same_time && self.device == other.device && self.inode == other.inode
    }
}

/// Result of reading a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KnownFile {
    /// Its contents, or the number of the error with which it could not be opened (errno(3)).
    contents: Result<Secret, i32>,
    /// The number of the error with which reading has ended, if it has not come to the file's end.
    broken: Option<i32>,
    /// Which file it was. Only the process that has read it knows that.
    #[serde(skip)]
    stamp: Option<Stamp>,
}

impl KnownFile {
    /// A file with these contents.
    pub fn read(contents: impl Into<Zeroizing<Vec<u8>>>, stamp: Option<Stamp>) -> KnownFile {
        KnownFile { contents: Ok(Secret::new(contents)), broken: None, stamp }
    }

    /// A file that cannot be opened, for the reason with this number (errno(3)).
    pub fn failed(errno: i32) -> KnownFile {
        KnownFile { contents: Err(errno), broken: None, stamp: None }
    }

    /// Reads a file, unless it still has the state that `earlier` knows.
    pub fn look(
        path: &str,
        earlier: Option<&KnownFile>,
        read: impl FnOnce(&str, Option<Stamp>) -> io::Result<FileState>,
    ) -> KnownFile {
        let earlier = earlier.filter(|earlier| earlier.contents.is_ok());
        let file = match (read(path, earlier.and_then(|earlier| earlier.stamp)), earlier) {
            (Ok(FileState::Contents { contents, stamp, broken }), _) => {
                let broken = broken.map(|error| error.raw_os_error().unwrap_or(UNKNOWN));
                KnownFile { broken, ..KnownFile::read(contents, Some(stamp)) }
            }
            (Ok(FileState::Unchanged), Some(earlier)) => earlier.clone(),
            (Ok(FileState::Unchanged), None) => KnownFile::failed(UNKNOWN),
            (Err(error), _) => KnownFile::failed(error.raw_os_error().unwrap_or(UNKNOWN)),
        };
        if file.size() > MAX_FILE { KnownFile::failed(TOO_LARGE) } else { file }
    }

    /// The contents.
    ///
    /// # Errors
    /// The file cannot be opened. The error has a number, see [`io::Error::raw_os_error`].
    pub fn contents(&self) -> io::Result<Secret> {
        self.contents.clone().map_err(io::Error::from_raw_os_error)
    }

    /// Which file it was, in the process that has read it.
    pub fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// Number of its bytes that are known.
    pub fn size(&self) -> usize {
        self.contents.as_ref().map_or(0, |secret| secret.bytes().len())
    }
}

impl PartialEq for KnownFile {
    /// Whether the contents are the same; they may have been read at other times.
    fn eq(&self, other: &KnownFile) -> bool {
        self.contents == other.contents && self.broken == other.broken
    }
}

impl Eq for KnownFile {}

/// Files by their full paths.
pub type SecretFiles = BTreeMap<String, KnownFile>;

/// Result of a look at a file.
pub enum FileState {
    /// The file is the one with the stamp that was given.
    Unchanged,
    /// The contents, and which file it is.
    Contents {
        /// The contents, as far as they could be read.
        contents: Zeroizing<Vec<u8>>,
        /// Which file it is.
        stamp: Stamp,
        /// The error that ended the reading, if there may be more contents.
        broken: Option<io::Error>,
    },
}

/// A function that reads a file. Its caller wants at most [`MAX_FILE`] bytes and one more. The argument is the stamp of
/// the contents that were read earlier from there.
#[derive(Clone)]
pub struct ReadFile(pub Arc<ReadFunction>);

/// See [`ReadFile`].
pub type ReadFunction = dyn Fn(&str, Option<Stamp>) -> io::Result<FileState> + Send + Sync;

impl ReadFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn read(&self, path: &str, known: Option<Stamp>) -> io::Result<FileState> {
        (self.0)(path, known)
    }
}

impl fmt::Debug for ReadFile {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("ReadFile")
    }
}

/// The files of a configuration; lives in its context. The master reads them and notes what became of them; the worker has
/// the notes, so that both see the same.
#[derive(Debug, Clone, Default)]
pub struct ConfigurationFiles {
    /// The function that reads a file, which may wait. If it is `None`, only known files are there.
    pub read: Option<ReadFile>,
    /// The files that were read for this configuration.
    pub known: SecretFiles,
    /// The files of the configuration before it. A file that has not been modified since is not read again
    /// (`ssl_object_cache_inheritable`).
    pub earlier: SecretFiles,
    /// The bytes of the known files.
    total: usize,
}

impl ConfigurationFiles {
    /// The files for a process that reads them with this function, after a configuration that had the `earlier` ones.
    pub fn reading(read: ReadFile, earlier: SecretFiles) -> ConfigurationFiles {
        ConfigurationFiles { read: Some(read), earlier, ..ConfigurationFiles::default() }
    }

    /// The files for a process that was told of them.
    pub fn known(known: SecretFiles) -> ConfigurationFiles {
        ConfigurationFiles { known, ..ConfigurationFiles::default() }
    }

    /// The contents of a file. They are empty if it can be opened and not read, such as a folder, as for OpenSSL.
    ///
    /// # Errors
    /// The file cannot be opened, is larger than [`MAX_FILE`], or all files together are larger than [`MAX_TOTAL`]. The error
    /// has a number, see [`io::Error::raw_os_error`].
    pub fn get(&mut self, path: &str) -> io::Result<Secret> {
        self.look(path).contents.map_err(io::Error::from_raw_os_error)
    }

    /// The contents of a file that is to be read to its end.
    ///
    /// # Errors
    /// The system call that has failed, and the error, see [`ConfigurationFiles::get`].
    pub fn get_whole(&mut self, path: &str) -> Result<Secret, (&'static str, io::Error)> {
        let KnownFile { contents, broken, .. } = self.look(path);
        let secret = contents.map_err(|errno| ("open()", io::Error::from_raw_os_error(errno)))?;
        broken.map_or(Ok(secret), |errno| Err(("read()", io::Error::from_raw_os_error(errno))))
    }

    /// Result of reading a file, which is read if it is not known.
    fn look(&mut self, path: &str) -> KnownFile {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let known = self.read(path);
        self.known.insert(path.to_owned(), known.clone());
        known
    }

    fn read(&mut self, path: &str) -> KnownFile {
        let Some(read) = &self.read else { return KnownFile::failed(NOT_THERE) };
        let file = KnownFile::look(path, self.earlier.get(path), |path, known| read.read(path, known));
        if self.total.saturating_add(file.size()) > MAX_TOTAL {
            return KnownFile::failed(TOO_LARGE);
        }
        self.total += file.size();
        file
    }
}

/// Number of bytes that are read from a file with secrets at a time.
const PIECE: usize = 4096;

/// Reads to the end, to an error, or until it is clear that the file is too large. Memory that becomes too small for the
/// contents is overwritten before it is given back. What is returned takes no more memory than it needs: the contents are
/// kept as long as the configuration, and there may be thousands of small ones.
pub fn read_wiping(mut from: impl io::Read, expected: usize) -> (Zeroizing<Vec<u8>>, Option<io::Error>) {
    let mut contents = Zeroizing::new(Vec::with_capacity(expected.min(MAX_FILE + 1)));
    let mut piece = Zeroizing::new([0; PIECE]);
    let mut broken = None;
    while contents.len() <= MAX_FILE {
        let count = match from.read(&mut piece[..]) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                broken = Some(error);
                break;
            }
        };
        append_wiping(&mut contents, &piece[..count]);
    }
    if contents.capacity() > contents.len() {
        contents = Zeroizing::new(contents.to_vec());
    }
    (contents, broken)
}

/// Appends bytes. Memory that is too small for that is overwritten before it is given back.
pub fn append_wiping(to: &mut Zeroizing<Vec<u8>>, bytes: &[u8]) {
    if to.capacity() - to.len() < bytes.len() {
        let capacity = (to.len() + bytes.len()).max(to.capacity() * 2);
        let mut larger = Zeroizing::new(Vec::with_capacity(capacity));
        larger.extend_from_slice(to);
        *to = larger;
    }
    to.extend_from_slice(bytes);
}

/// The full path of a file that a directive of TLS names: relative ones begin at the folder of the configuration.
pub fn full_path(name: &str, cx: &mut Cx) -> String {
    if name.starts_with('/') {
        return name.to_owned();
    }
    format!("{}{name}", cx.extensions.get_or_default::<Paths>().conf_prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The stamp of a file with this number that was never modified.
    fn stamp(inode: u64) -> Stamp {
        Stamp { device: 1, inode, modified: (0, 0) }
    }

    fn contents(bytes: Vec<u8>, stamp: Stamp) -> FileState {
        FileState::Contents { contents: bytes.into(), stamp, broken: None }
    }

    static READS: AtomicU32 = AtomicU32::new(0);

    fn read(path: &str, _: Option<Stamp>) -> io::Result<FileState> {
        READS.fetch_add(1, Ordering::Relaxed);
        match path {
            "/there" => Ok(contents(b"key".to_vec(), stamp(1))),
            _ => Err(io::Error::from_raw_os_error(13)),
        }
    }

    #[test]
    fn a_file_is_read_once_and_then_known_without_reading() {
        let mut master = ConfigurationFiles::reading(ReadFile(Arc::new(read)), SecretFiles::new());
        for _ in 0..2 {
            assert_eq!(master.get("/there").unwrap().bytes(), b"key");
            assert_eq!(master.get("/closed").unwrap_err().raw_os_error(), Some(13), "failures are known as well");
        }
        assert_eq!(READS.load(Ordering::Relaxed), 2);
        let mut worker = ConfigurationFiles::known(master.known.clone());
        assert_eq!(worker.get("/there").unwrap().bytes(), b"key");
        assert_eq!(worker.get("/closed").unwrap_err().raw_os_error(), Some(13));
        assert_eq!(worker.get("/else").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!format!("{worker:?}").contains("key"), "contents are not shown");
    }

    #[test]
    fn a_file_that_is_the_same_as_before_is_not_read_again() {
        fn read(path: &str, known: Option<Stamp>) -> io::Result<FileState> {
            let now = stamp(if path == "/new" { 3 } else { 2 });
            if known == Some(now) {
                return Ok(FileState::Unchanged);
            }
            Ok(contents(b"now".to_vec(), now))
        }
        let before = || KnownFile::read(b"before".to_vec(), Some(stamp(2)));
        let earlier = SecretFiles::from([
            ("/same".to_owned(), before()),
            ("/new".to_owned(), before()),
            ("/failed".to_owned(), KnownFile::failed(13)),
        ]);
        let mut files = ConfigurationFiles::reading(ReadFile(Arc::new(read)), earlier);
        let expected = [("/same", &b"before"[..]), ("/new", b"now"), ("/failed", b"now"), ("/other", b"now")];
        for (path, contents) in expected {
            assert_eq!(files.get(path).unwrap().bytes(), contents, "{path}");
        }
        assert_eq!(files.known["/same"].stamp, Some(stamp(2)), "the next configuration compares with it again");
    }

    #[test]
    fn all_is_read_whatever_size_was_expected() {
        let contents: Vec<u8> = (0..3 * PIECE + 5).map(|n| n as u8).collect();
        for expected in [0, 1, contents.len(), usize::MAX] {
            let (read, broken) = read_wiping(&contents[..], expected);
            assert!(*read == contents && broken.is_none(), "{expected}");
            assert_eq!(read.capacity(), contents.len(), "{expected}");
        }
    }

    #[test]
    fn a_folder_is_empty_for_some_and_an_error_for_others() {
        fn read(_: &str, _: Option<Stamp>) -> io::Result<FileState> {
            let broken = Some(io::Error::from_raw_os_error(21));
            Ok(FileState::Contents { contents: Vec::new().into(), stamp: stamp(1), broken })
        }
        let mut files = ConfigurationFiles::reading(ReadFile(Arc::new(read)), SecretFiles::new());
        assert_eq!(files.get("/").unwrap().bytes(), b"");
        let told = |error: (&'static str, io::Error)| (error.0, error.1.raw_os_error());
        assert_eq!(files.get_whole("/").map_err(told), Err(("read()", Some(21))));
        let mut worker = ConfigurationFiles::known(files.known);
        assert_eq!(worker.get_whole("/").map_err(told), Err(("read()", Some(21))));
        assert_eq!(worker.get_whole("/else").map_err(told), Err(("open()", Some(NOT_THERE))));
    }

    #[test]
    fn times_differ_by_parts_of_a_second_unless_somebody_keeps_whole_ones() {
        let at = |modified| Stamp { modified, ..stamp(1) };
        assert_eq!(at((7, 5)), at((7, 5)));
        assert_ne!(at((7, 5)), at((7, 6)));
        assert_eq!(at((7, 5)), at((7, 0)));
        assert_ne!(at((7, 0)), at((8, 0)));
        assert_ne!(stamp(1), stamp(2));
    }

    #[test]
    fn files_are_bounded_one_by_one_and_together() {
        fn read(path: &str, _: Option<Stamp>) -> io::Result<FileState> {
            let size = if path == "/large" { MAX_FILE + 1 } else { MAX_FILE };
            Ok(contents(vec![0; size], stamp(1)))
        }
        let mut files = ConfigurationFiles::reading(ReadFile(Arc::new(read)), SecretFiles::new());
        for (path, error) in [("/large", Some(TOO_LARGE)), ("/1", None), ("/2", None), ("/3", Some(TOO_LARGE))] {
            assert_eq!(files.get(path).err().and_then(|error| error.raw_os_error()), error, "{path}");
        }
    }
}
