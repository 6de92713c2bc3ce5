//! Reading directories. There is no way to do this without possibly waiting, so it is always left to the pool.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::sync::Arc;

use freerun_conf::text_of;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::FileSystem;
use super::links::{LinkCheck, LinkRule, open_folder};
use super::open::retried;
use super::types::{Closer, FileError, Meta, Via};
use crate::budget::{Budget, BudgetExhausted, Share};
use crate::pool::Tag;

/// The most entries of a listing: with names of 255 bytes, 80 MB.
pub const MAX_ENTRIES: usize = 1 << 18;

/// The most bytes of all listings of the process, from the first entry read to the last one sent.
pub const MAX_LISTINGS: u64 = 256 << 20;
/// Number of entries that are counted at once.
const STEP: usize = 256;

static LISTINGS: Budget = Budget::new(MAX_LISTINGS);

/// Fewer entries than this are freed where they are dropped: that takes less than 0.1 ms.
const FEW: usize = 1024;

/// A directory that was read.
#[derive(Debug)]
pub struct Listing {
    /// The entries of the directory.
    pub entries: Entries,
    /// Encoding of their names.
    pub encoding: Encoding,
}

/// The entries of a directory, in order: folders first, and each by name, unless [`Arrange`] says otherwise. They have their
/// share of [`MAX_LISTINGS`] until they are freed. To free many of them takes milliseconds, so the pool does that.
#[derive(Debug, Default)]
pub struct Entries {
    rest: std::vec::IntoIter<DirectoryEntry>,
    share: Option<Share>,
    /// Frees them; `None`: there are few.
    closer: Option<Arc<Closer>>,
}

impl Entries {
    fn new(entries: Vec<DirectoryEntry>, share: Share, closer: &Arc<Closer>) -> Entries {
        let closer = (entries.capacity() >= FEW).then(|| closer.clone());
        Entries { rest: entries.into_iter(), share: Some(share), closer }
    }
}

impl From<Vec<DirectoryEntry>> for Entries {
    fn from(entries: Vec<DirectoryEntry>) -> Entries {
        Entries { rest: entries.into_iter(), share: None, closer: None }
    }
}

impl Iterator for Entries {
    type Item = DirectoryEntry;

    fn next(&mut self) -> Option<DirectoryEntry> {
        self.rest.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rest.size_hint()
    }
}

impl ExactSizeIterator for Entries {}

impl Drop for Entries {
    fn drop(&mut self) {
        if let Some(closer) = self.closer.take() {
            let (rest, share) = (std::mem::take(&mut self.rest), self.share.take());
            closer.run(Tag::client(0), move || drop((rest, share)));
        }
    }
}

/// Encoding of names; of several names the greatest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encoding {
    /// In ASCII.
    Ascii,
    /// In UTF-8, and not all in ASCII.
    Utf8,
    /// In something else.
    Other,
}

impl Encoding {
    /// Encoding of this name.
    pub fn of(name: &[u8]) -> Encoding {
        match std::str::from_utf8(name) {
            Ok(_) if name.is_ascii() => Encoding::Ascii,
            Ok(_) => Encoding::Utf8,
            Err(_) => Encoding::Other,
        }
    }
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The entry's name.
    pub name: Box<[u8]>,
    /// The entry's attributes; for a link, the attributes of the file that it leads to, if that exists.
    pub meta: Meta,
    /// Whether the entry is a symbolic link.
    pub is_link: bool,
}

/// A change of the entries of a directory, in the pool: selection and order.
pub type Change = Box<dyn FnOnce(&mut Vec<DirectoryEntry>) + Send>;

/// Selection and order of the entries of a listing.
#[derive(Default)]
pub struct Arrange {
    /// Whether entries whose names begin with a dot are among them (`.` and `..` never are).
    pub dotfiles: bool,
    /// Chooses and sorts them; without it, folders come first, and each group is sorted by name.
    pub change: Option<Change>,
}

/// Reason why a directory cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The system's or the pool's error.
    #[error(transparent)]
    File(#[from] FileError),
    /// The directory has more than [`MAX_ENTRIES`].
    #[error("directory has more than {MAX_ENTRIES} entries")]
    TooMany,
    /// All listings together would take more than [`MAX_LISTINGS`].
    #[error(transparent)]
    Exhausted(#[from] BudgetExhausted),
}

impl ListError {
    /// The text for the log: `opendir() "/x" failed (2: No such file or directory)`.
    pub fn describe(&self, path: &[u8]) -> String {
        match self {
            ListError::File(error) => error.describe(path),
            ListError::TooMany | ListError::Exhausted(_) => format!("\"{}\": {self}", text_of(path)),
        }
    }
}

impl FileSystem {
    /// The entries of a directory whose names do not begin with a dot. Entries that vanish meanwhile, or whose
    /// attributes may not be read, are left out; with a check, so are links that may not be followed.
    ///
    /// # Errors
    /// See [`ListError`]. `ELOOP` and `ENOTDIR` for links on the way to it that may not be followed.
    pub async fn list(
        self: &Arc<Self>,
        path: CString,
        check: Option<LinkCheck>,
        arrange: Arrange,
        via: Via<'_>,
    ) -> Result<Listing, ListError> {
        let tag = self.tag_of(&path, via.client);
        let closer = self.closer.clone();
        let work = move || {
            let DirectoryContents { entries, encoding, share } = read(&path, check, arrange, LISTINGS.share())?;
            Ok(Listing { entries: Entries::new(entries, share, &closer), encoding })
        };
        self.offload(via, tag, work).await?
    }
}

/// The contents of a directory.
#[derive(Debug)]
struct DirectoryContents {
    entries: Vec<DirectoryEntry>,
    encoding: Encoding,
    share: Share,
}

fn read(
    path: &CString,
    check: Option<LinkCheck>,
    arrange: Arrange,
    mut share: Share,
) -> Result<DirectoryContents, ListError> {
    let failed = |call| move |error| ListError::File(FileError::new(call, error));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match check {
        None => retried(|| rustix::fs::openat(CWD, path, flags, Mode::empty())),
        Some(check) => open_folder(path, check, flags),
    };
    let folder = folder.map_err(failed("opendir()"))?;
    let dir = Dir::read_from(folder.as_fd()).map_err(failed("opendir()"))?;
    let mut entries = Vec::new();
    let mut encoding = Encoding::Ascii;
    // The bytes of names that are not counted yet.
    let mut names = 0;
    for entry in dir {
        let entry = entry.map_err(failed("readdir()"))?;
        let name = entry.file_name();
        let is_left_out = !arrange.dotfiles || matches!(name.to_bytes(), b"." | b"..");
        if is_left_out && name.to_bytes().starts_with(b".") {
            continue;
        }
        let stat = match rustix::fs::statat(&folder, name, AtFlags::empty()) {
            // A link that leads nowhere is shown with its own attributes.
            Err(Errno::NOENT | Errno::LOOP) => match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => stat,
            },
            Err(Errno::ACCESS) => continue,
            stat => stat,
        };
        if let Some(check) = check {
            match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(own) if FileType::from_raw_mode(own.st_mode) == FileType::Symlink => {
                    let same = stat.as_ref().is_ok_and(|stat| stat.st_uid == own.st_uid);
                    if check.rule == LinkRule::None || !same {
                        continue;
                    }
                }
                Err(Errno::NOENT) => continue,
                _ => {}
            }
        }
        if entries.len() == MAX_ENTRIES {
            return Err(ListError::TooMany);
        }
        if entries.len().is_multiple_of(STEP) {
            share.grow((STEP * size_of::<DirectoryEntry>()) as u64 + std::mem::take(&mut names))?;
        }
        names += name.to_bytes().len() as u64;
        encoding = encoding.max(Encoding::of(name.to_bytes()));
        let meta = Meta::of(&stat.map_err(failed("stat()"))?);
        let is_link = entry.file_type() == FileType::Symlink;
        entries.push(DirectoryEntry { name: name.to_bytes().into(), meta, is_link });
    }
    share.grow(names)?;
    // The entries are sorted here, in the pool, because that may take long.
    match arrange.change {
        Some(change) => change(&mut entries),
        None => entries.sort_unstable_by(|one, other| {
            other.meta.is_dir().cmp(&one.meta.is_dir()).then_with(|| one.name.cmp(&other.name))
        }),
    }
    Ok(DirectoryContents { entries, encoding, share })
}

impl DirectoryEntry {
    /// Whether the entry is a symbolic link that leads nowhere.
    pub fn is_broken_link(&self) -> bool {
        FileType::from_raw_mode(self.meta.mode) == FileType::Symlink
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::pool::{PoolSpec, ThreadPool};

    #[test]
    fn all_listings_together_are_bounded() {
        static FEW: Budget = Budget::new((STEP * size_of::<DirectoryEntry>()) as u64 * 2 + 3000);
        let folder = std::env::temp_dir().join(format!("freerun-listings-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for number in 0..200 {
            std::fs::write(folder.join(format!("file-{number:05}")), "").unwrap();
        }
        let path = CString::new(folder.as_os_str().as_encoded_bytes()).unwrap();
        let first = read(&path, None, Arrange::default(), FEW.share()).unwrap();
        assert!(FEW.taken() >= 2000 + 200 * size_of::<DirectoryEntry>() as u64);
        let refused = read(&path, None, Arrange::default(), FEW.share()).unwrap_err();
        assert!(matches!(refused, ListError::Exhausted(_)), "{refused}");
        drop(first);
        assert_eq!(FEW.taken(), 0);
        assert_eq!(read(&path, None, Arrange::default(), FEW.share()).unwrap().entries.len(), 200);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn many_entries_are_freed_in_the_pool_and_count_until_then() {
        static ALL: Budget = Budget::new(1 << 20);
        let spec = PoolSpec { name: "freeing".to_owned(), threads: 1, max_queue: 8 };
        let pool = ThreadPool::start(&spec).unwrap();
        let closer = Arc::new(Closer::new(pool.clone()));
        let (go, wait) = std::sync::mpsc::channel::<()>();
        // The only thread has something else to do.
        drop(pool.spawn(Tag::client(1), move || wait.recv().unwrap()));
        let entries = |count: usize| {
            let mut share = ALL.share();
            share.grow(1000).unwrap();
            Entries::new(Vec::with_capacity(count), share, &closer)
        };
        drop(entries(FEW - 1));
        assert_eq!(ALL.taken(), 0);
        drop(entries(FEW));
        assert_eq!(ALL.taken(), 1000);
        go.send(()).unwrap();
        while ALL.taken() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_encoding_of_names_is_that_of_the_worst_one() {
        let folder = std::env::temp_dir().join(format!("freerun-encodings-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = CString::new(folder.as_os_str().as_encoded_bytes()).unwrap();
        let put = |name: &[u8]| {
            std::fs::write(folder.join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
            read(&path, None, Arrange::default(), LISTINGS.share()).unwrap().encoding
        };
        assert_eq!(put(b"a"), Encoding::Ascii);
        assert_eq!(put("ä".as_bytes()), Encoding::Utf8);
        assert_eq!(put(b"\xe4"), Encoding::Other);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_directory_is_listed_without_hidden_entries_and_a_file_is_none() {
        let folder = std::env::temp_dir().join(format!("freerun-list-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        std::fs::write(folder.join("file"), "four").unwrap();
        std::fs::write(folder.join(".hidden"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", folder.join("broken")).unwrap();
        std::os::unix::fs::symlink("sub", folder.join("link")).unwrap();
        let path = CString::new(folder.as_os_str().as_encoded_bytes()).unwrap();
        std::fs::create_dir_all(folder.join("a")).unwrap();
        let read = |path: &CString, check| {
            read(path, check, Arrange::default(), LISTINGS.share()).map(|listing| listing.entries)
        };
        let entries = read(&path, None).unwrap();
        let seen: Vec<_> = entries
            .iter()
            .map(|entry| (&*entry.name, entry.meta.is_dir(), entry.is_broken_link(), entry.meta.size))
            .collect();
        // Folders come first, and each group is sorted by name.
        assert_eq!(seen.len(), 5);
        assert_eq!((seen[0].0, seen[0].1), (&b"a"[..], true));
        assert_eq!((seen[1].0, seen[1].1), (&b"link"[..], true));
        assert_eq!((seen[2].0, seen[2].1), (&b"sub"[..], true));
        assert_eq!((seen[3].0, seen[3].2), (&b"broken"[..], true));
        assert_eq!((seen[4].0, seen[4].1, seen[4].3), (&b"file"[..], false, 4));
        let check = |rule| Some(LinkCheck { rule, trusted: path.as_bytes().len() });
        let names = |rule| -> Vec<Box<[u8]>> {
            read(&path, check(rule)).unwrap().into_iter().map(|entry| entry.name).collect()
        };
        let arrange =
            Arrange { dotfiles: true, change: Some(Box::new(|entries| entries.retain(|entry| !entry.is_link))) };
        let entries = super::read(&path, None, arrange, LISTINGS.share()).unwrap().entries;
        let mut seen: Vec<_> = entries.iter().map(|entry| &*entry.name).collect();
        seen.sort_unstable();
        assert_eq!(seen, [&b".hidden"[..], b"a", b"file", b"sub"]);
        assert_eq!(names(LinkRule::None), [&b"a"[..], b"sub", b"file"].map(Box::from));
        assert_eq!(names(LinkRule::SameOwner), [&b"a"[..], b"link", b"sub", b"broken", b"file"].map(Box::from));
        let link = CString::new(folder.join("link").as_os_str().as_encoded_bytes()).unwrap();
        assert!(read(&link, None).is_ok());
        assert!(read(&link, check(LinkRule::None)).unwrap_err().describe(b"/x").contains("(40:"), "a link is no way");
        let file = CString::new(folder.join("file").as_os_str().as_encoded_bytes()).unwrap();
        let error = read(&file, None).unwrap_err();
        assert!(error.describe(b"/x").starts_with("opendir() \"/x\" failed (20:"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
