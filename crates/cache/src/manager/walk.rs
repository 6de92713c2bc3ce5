//! Looking through the cache's folder after an unclean end, at the pace of `loader_files` and its like. Files that the
//! index does not know are taken in, left-over files are removed.

use std::fs::{self, DirEntry, ReadDir};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustc_hash::FxHashSet;

use super::core::{Manager, Moment};
use super::disk;
use crate::config::CacheConfig;
use crate::index::{About, Entry};
use crate::journal;
use crate::key::Key;
use crate::record::Damage;
use crate::rules::Lifetime;

/// A file that is being written may look up to this much older than it is: time stamps of files are coarse.
const DOUBT: Duration = Duration::from_secs(2);

/// A walk through the folder.
#[derive(Debug)]
pub(super) struct Walk {
    root: PathBuf,
    /// Digits of each level of folders.
    digits: Vec<usize>,
    /// The folders from the root to the present one, and their names below the root, with a slash at the end. `None`
    /// before the first step.
    stack: Option<Vec<(ReadDir, String)>>,
    /// Keys whose objects were removed, according to the journal.
    gone: FxHashSet<Key>,
    /// Begin of the thread, in seconds since 1970: older files are of another process.
    began: u64,
}

impl Walk {
    pub(super) fn new(config: &CacheConfig, now: u64, gone: FxHashSet<Key>) -> Walk {
        let digits = config.levels.digits().collect();
        Walk { root: config.path.clone(), digits, stack: None, gone, began: now }
    }

    /// The next file or subfolder of the present folder. Folders that cannot be read are passed over.
    fn next(&mut self) -> Option<(DirEntry, String)> {
        let root = &self.root;
        let stack = self.stack.get_or_insert_with(|| {
            let top = fs::read_dir(root).ok();
            top.map(|top| (top, String::new())).into_iter().collect()
        });
        while let Some((folder, below)) = stack.last_mut() {
            match folder.next() {
                Some(Ok(entry)) => return Some((entry, below.clone())),
                Some(Err(_)) => {}
                None => {
                    stack.pop();
                }
            }
        }
        None
    }

    /// The depth of the folder that is being read.
    fn depth(&self) -> usize {
        self.stack.as_ref().map_or(0, |stack| stack.len().saturating_sub(1))
    }

    fn enter(&mut self, entry: &DirEntry, below: &str, name: &str) {
        let wanted = self.digits.get(self.depth()).copied();
        let hex = name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if wanted == Some(name.len())
            && hex
            && let Ok(folder) = fs::read_dir(entry.path())
            && let Some(stack) = &mut self.stack
        {
            stack.push((folder, format!("{below}{name}/")));
        }
    }
}

/// Kind of a name that may belong to a file which was being written. Such a name is freerun's with the number of the
/// process, or nginx's with a number behind the name of the entry.
enum Temporary {
    Of(u32),
    Nginx,
}

fn temporary(name: &str) -> Option<Temporary> {
    if let Some(rest) = name.strip_prefix(journal::PREFIX) {
        return rest.split('-').next()?.parse().ok().map(Temporary::Of);
    }
    let (entry, number) = name.split_once('.')?;
    let digits = number.len() >= 10 && number.bytes().all(|byte| byte.is_ascii_digit());
    (Key::from_hex(entry.as_bytes()).is_some() && digits).then_some(Temporary::Nginx)
}

impl Manager {
    /// Continues the walk, if there is one.
    pub(super) fn walk(&mut self, at: Moment) {
        if at.clock < self.next_walk {
            return;
        }
        let Some(mut walk) = self.walk.take() else { return };
        let pace = self.store.config.load().loader;
        let begun = Instant::now();
        for _ in 0..pace.files.max(1) {
            let Some((entry, below)) = walk.next() else {
                self.walked();
                return;
            };
            self.walk_over(&mut walk, &entry, &below, at);
            if begun.elapsed() >= pace.threshold {
                break;
            }
        }
        self.next_walk = at.clock + pace.sleep;
        self.walk = Some(walk);
    }

    fn walk_over(&mut self, walk: &mut Walk, entry: &DirEntry, below: &str, at: Moment) {
        let name = entry.file_name();
        let (Some(name), Ok(kind)) = (name.to_str(), entry.file_type()) else { return };
        if kind.is_dir() {
            walk.enter(entry, below, name);
            return;
        }
        if !kind.is_file() || (below.is_empty() && journal::is_own(name)) {
            return;
        }
        let config = self.store.config.load_full();
        match config.levels.key_of(&format!("{below}{name}")) {
            Some(key) => self.take_in(walk, key, at),
            None => {
                let left_over = match temporary(name) {
                    None => false,
                    // This process has locked the folder, so no other process writes the file.
                    Some(Temporary::Of(process)) if process != std::process::id() => true,
                    Some(_) => is_older(entry, walk.began),
                };
                if left_over && fs::remove_file(entry.path()).is_ok() {
                    self.store.work.orphans.fetch_add(1, Relaxed);
                }
            }
        }
    }

    /// Takes a file into the index that the index does not know.
    fn take_in(&mut self, walk: &Walk, key: Key, at: Moment) {
        let index = &self.store.index;
        if index.peek(key).is_some() {
            return;
        }
        let path = self.store.path_of(key);
        let looked = if walk.gone.contains(&key) {
            None
        } else {
            match disk::look(&path) {
                Ok(looked) => Some(looked),
                // The file is gone meanwhile, or unreadable: it cannot be served or counted.
                Err(_) => return,
            }
        };
        let (size, found) = match looked {
            None => (0, None),
            Some(looked) => match looked.head {
                Ok((head, offset)) => {
                    let whole = head.verify(offset, looked.size, key).is_ok();
                    (looked.size, whole.then(|| (Key::of(&head.key), head.lifetime, false)))
                }
                Err(Damage::Foreign | Damage::Version) => (looked.size, Some((key, Lifetime::default(), true))),
                Err(_) => (looked.size, None),
            },
        };
        let Some((main, lifetime, foreign)) = found else {
            if self.unlink(key).is_some_and(|removed| removed.is_ok_and(|was| was)) {
                self.store.work.orphans.fetch_add(1, Relaxed);
            }
            return;
        };
        let about = About { key, main, size, sequence: 0, lifetime };
        let entry = Entry::new(&about, index.space.round(size), at.unix);
        if foreign {
            entry.set_foreign();
        }
        if index.adopt(entry).is_some() {
            self.store.work.adopted.fetch_add(1, Relaxed);
        }
    }
}

/// Whether a file was last written before a time.
fn is_older(entry: &DirEntry, than: u64) -> bool {
    let modified = entry.metadata().and_then(|meta| meta.modified()).ok();
    let age = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    age.is_some_and(|age| age + DOUBT < Duration::from_secs(than))
}
