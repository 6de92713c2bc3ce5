//! Watches of a loop for its hot files: the ways to their folders, and the files themselves.
//!
//! Folders are watched by a thread of a pool, because that may wait; a file that is open is watched by the loop. The
//! ways to folders stay watched for a while after their last use.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_runtime::arrival_era;
use freerun_runtime::files::OpenFile;
use freerun_runtime::watch::{FileChange, News, WatchResult, WatchedPath, Watcher};
use rustc_hash::FxHashMap;

/// The most watches that a loop has at a time.
const MAX_WATCHES: usize = 2048;
/// The most ways that a loop knows: to folders, and to files whose own names have to be watched.
const MAX_WAYS: usize = 768;
/// The most ways that are being walked at a time, to be watched.
const MAX_WALKS: usize = 4;
/// With more ways that have changed at a time, everything is dropped.
const MAX_STALE_WAYS: usize = 64;
/// With more files that may have changed at a time, everything is dropped.
const MAX_STALE_NAMES: usize = 1024;
/// The most changes that are remembered while ways are being walked; with more, the ways are watched again.
const MAX_RECENT: usize = 1024;
/// The time for which a way stays watched after its last use, and the time before another attempt with a way that
/// cannot be watched.
const UNUSED: Duration = Duration::from_secs(10);

/// The state of a way, as a caller sees it who wants to keep a file.
pub enum WatchSight {
    /// The way is watched. [`Stale::ways`] uses this name for it.
    Watched(Rc<[u8]>),
    /// The way cannot be watched, or not now.
    Unwatched,
    /// The way is going to be watched.
    Soon,
    /// The caller is to watch it, with this watcher, and hand the result to [`Watches::walked`].
    Wanted(WatchRequest),
}

/// A way that is to be watched, or is being watched.
pub struct WatchRequest {
    /// The path.
    pub path: Rc<[u8]>,
    /// The watcher.
    pub watcher: Arc<Watcher>,
    /// The number of upheavals when the request began.
    upheavals: u64,
}

/// The files and ways that have changed.
#[derive(Default)]
pub struct Stale {
    /// Everything may have.
    pub everything: bool,
    /// The files with these names.
    pub names: Vec<Box<[u8]>>,
    /// The files to which these ways lead.
    pub ways: Vec<Rc<[u8]>>,
}

enum State {
    Walking,
    Watched(WatchedPath),
    Unwatched,
}

struct WatchedWay {
    state: State,
    used: Instant,
}

/// A name that is looked up in a folder, and the way on which it is.
struct Name {
    name: Box<[u8]>,
    way: Rc<[u8]>,
}

/// The use of a watch.
enum Of {
    Folder {
        /// The names that are looked up in it.
        names: Vec<Name>,
        /// The ways that it is on.
        ways: Vec<Rc<[u8]>>,
        /// The ways that lead to it.
        ends: Vec<Rc<[u8]>>,
    },
    /// The names of the files that are kept of it.
    File(Vec<Box<[u8]>>),
}

/// The watches of a loop.
#[derive(Default)]
pub struct Watches {
    watcher: Option<Arc<Watcher>>,
    /// The time of the last attempt to get a watcher, which failed.
    refused: Option<Instant>,
    /// Whether nothing is to be watched any more.
    is_retired: bool,
    ways: FxHashMap<Rc<[u8]>, WatchedWay>,
    watched: FxHashMap<i32, Of>,
    walks: usize,
    /// The era of the last look.
    looked: u64,
    /// The number of ways that were found to have changed so far.
    forgotten: u64,
    /// The number of upheavals, after which everything may have changed.
    upheavals: u64,
    /// The changes since ways are being walked, by watch; with the name, if it is one in a folder.
    recent: Vec<(i32, Option<Box<[u8]>>)>,
}

impl Watches {
    /// Whether there may be changes that this loop has not looked for.
    #[inline]
    pub fn must_look(&self) -> bool {
        self.looked != arrival_era::now()
    }

    /// The number of ways that were found to have changed so far: between two equal answers none has, as far as was
    /// looked.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Looks for changes.
    pub fn look(&mut self) -> Option<Stale> {
        self.looked = arrival_era::now();
        let news = self.watcher.as_ref()?.news()?;
        self.take_news(news)
    }

    #[cold]
    fn take_news(&mut self, news: News) -> Option<Stale> {
        let watcher = self.watcher.clone()?;
        let mut stale = Stale::default();
        watcher.take_news(news, |change| {
            if self.walks > 0 {
                self.remember(change);
            }
            // Many things are dropped all at once, which takes less time than one by one.
            stale.everything |= stale.ways.len() > MAX_STALE_WAYS || stale.names.len() > MAX_STALE_NAMES;
            match change {
                _ if stale.everything => {}
                FileChange::Anything => stale.everything = true,
                FileChange::Itself(watch) => match self.watched.get(&watch) {
                    Some(Of::Folder { ways, .. }) => stale.ways.extend(ways.iter().cloned()),
                    Some(Of::File(names)) => stale.names.extend(names.iter().cloned()),
                    None => {}
                },
                FileChange::Name(watch, name) => {
                    if let Some(Of::Folder { names, ends, .. }) = self.watched.get(&watch) {
                        let on = names.iter().filter(|own| *own.name == *name).map(|own| own.way.clone());
                        stale.ways.extend(on);
                        let below = |end: &[u8]| [end, b"/", name].concat().into();
                        stale.names.extend(ends.iter().map(|end| below(end.strip_suffix(b"/").unwrap_or(end))));
                    }
                }
            }
        });
        if stale.everything {
            self.clear();
        }
        stale.ways.retain(|way| self.forget_way(way));
        (stale.everything || !stale.names.is_empty() || !stale.ways.is_empty()).then_some(stale)
    }

    /// Remembers a change that may concern a way which is being walked.
    fn remember(&mut self, change: FileChange<'_>) {
        if self.recent.len() >= MAX_RECENT {
            self.recent.clear();
            self.upheavals += 1;
        }
        match change {
            FileChange::Name(watch, name) => self.recent.push((watch, Some(name.into()))),
            FileChange::Itself(watch) => self.recent.push((watch, None)),
            FileChange::Anything => {}
        }
    }

    /// Whether a way has changed while it was walked.
    fn has_changed(&self, way: &WatchedPath) -> bool {
        self.recent.iter().any(|(watch, name)| match name {
            Some(name) => way.names.iter().any(|(of, own)| of == watch && own == name),
            None => way.folders.contains(watch),
        })
    }

    /// The state of the way to `path`.
    pub fn way(&mut self, path: &[u8], now: Instant) -> WatchSight {
        if let Some((own, known)) = self.ways.get_key_value(path) {
            let seen = match known.state {
                State::Walking => return WatchSight::Soon,
                State::Unwatched => return WatchSight::Unwatched,
                State::Watched(_) => WatchSight::Watched(own.clone()),
            };
            if let Some(known) = self.ways.get_mut(path) {
                known.used = now;
            }
            return seen;
        }
        if self.walks >= MAX_WALKS {
            return WatchSight::Soon;
        }
        if self.ways.len() >= MAX_WAYS || self.watched.len() >= MAX_WATCHES {
            return WatchSight::Unwatched;
        }
        let Some(watcher) = self.watcher(now) else { return WatchSight::Unwatched };
        self.walks += 1;
        let path: Rc<[u8]> = path.into();
        self.ways.insert(path.clone(), WatchedWay { state: State::Walking, used: now });
        WatchSight::Wanted(WatchRequest { path, watcher, upheavals: self.upheavals })
    }

    fn watcher(&mut self, now: Instant) -> Option<Arc<Watcher>> {
        let may_ask = || self.refused.is_none_or(|since| now.saturating_duration_since(since) >= UNUSED);
        if self.watcher.is_none() && !self.is_retired && may_ask() {
            self.watcher = Watcher::take().ok();
            self.refused = self.watcher.is_none().then_some(now);
        }
        self.watcher.clone()
    }

    /// Takes over a way that was watched, unless something has changed since that was begun. Everything that may have
    /// changed until now must have been [looked](Watches::look) for.
    pub fn walked(&mut self, begun: WatchRequest, walked: Option<WatchResult>, now: Instant) {
        self.walks = self.walks.saturating_sub(1);
        let is_awaited = matches!(self.ways.get(&begun.path), Some(WatchedWay { state: State::Walking, .. }));
        if is_awaited {
            self.ways.remove(&begun.path);
        }
        let WatchResult { way, trouble } = walked.unwrap_or_default();
        let is_walked = !way.folders.is_empty();
        let fits = self.watched.len() + way.folders.len() <= MAX_WATCHES;
        let is_stale = begun.upheavals != self.upheavals || self.has_changed(&way);
        if self.walks == 0 {
            self.recent.clear();
        }
        if trouble.is_some() || !fits || is_stale || !is_awaited || !is_walked {
            if is_awaited && (trouble.is_some() || !fits) {
                self.ways.insert(begun.path, WatchedWay { state: State::Unwatched, used: now });
            }
            // Here the watcher may have been left to another generation, which notices that a watch has ended.
            let unused = way.folders.iter().filter(|watch| !self.watched.contains_key(watch));
            unused.for_each(|watch| begun.watcher.remove(*watch));
            return;
        }
        for watch in &way.folders {
            let unused = || Of::Folder { names: Vec::new(), ways: Vec::new(), ends: Vec::new() };
            let Of::Folder { names, ways, ends } = self.watched.entry(*watch).or_insert_with(unused) else { continue };
            ways.push(begun.path.clone());
            let own = way.names.iter().filter(|(of, _)| of == watch);
            names.extend(own.map(|(_, name)| Name { name: name.clone(), way: begun.path.clone() }));
            if way.end == Some(*watch) {
                ends.push(begun.path.clone());
            }
        }
        self.ways.insert(begun.path, WatchedWay { state: State::Watched(way), used: now });
    }

    /// Watches an open file that is going to be kept under this name. `None`: there are too many watches.
    pub fn file(&mut self, file: &OpenFile, name: &[u8]) -> Option<i32> {
        let watcher = self.watcher.as_ref()?;
        if self.watched.len() >= MAX_WATCHES {
            return None;
        }
        let watch = watcher.add_file(file).ok()?;
        match self.watched.entry(watch).or_insert_with(|| Of::File(Vec::new())) {
            Of::File(names) => names.push(name.into()),
            Of::Folder { .. } => return None,
        }
        Some(watch)
    }

    /// Ends the watch of a file that is no longer kept under this name.
    pub fn forget_file(&mut self, watch: i32, name: &[u8]) {
        let Some(Of::File(names)) = self.watched.get_mut(&watch) else { return };
        if let Some(at) = names.iter().position(|own| **own == *name) {
            names.swap_remove(at);
        }
        if names.is_empty() {
            self.watched.remove(&watch);
            self.remove_unused(watch);
        }
    }

    /// Ends the watches of a way, as far as no other way needs them. Returns whether it was watched.
    fn forget_way(&mut self, path: &Rc<[u8]>) -> bool {
        let is_watched = matches!(self.ways.get(path), Some(WatchedWay { state: State::Watched(_), .. }));
        let known = if is_watched { self.ways.remove(path) } else { None };
        let Some(WatchedWay { state: State::Watched(way), .. }) = known else { return false };
        self.forgotten += 1;
        for watch in way.folders {
            let Some(Of::Folder { names, ways, ends }) = self.watched.get_mut(&watch) else { continue };
            names.retain(|name| !Rc::ptr_eq(&name.way, path));
            ways.retain(|way| !Rc::ptr_eq(way, path));
            ends.retain(|way| !Rc::ptr_eq(way, path));
            if ways.is_empty() {
                self.watched.remove(&watch);
                self.remove_unused(watch);
            }
        }
        true
    }

    fn remove_unused(&self, watch: i32) {
        if let Some(watcher) = &self.watcher
            && !self.watched.contains_key(&watch)
        {
            watcher.remove(watch);
        }
    }

    /// Forgets the ways that were not used for a while. No file may be kept that they lead to: those are kept for a
    /// shorter time.
    pub fn purge(&mut self, now: Instant) {
        let is_old = |known: &WatchedWay| now.saturating_duration_since(known.used) >= UNUSED;
        self.ways.retain(|_, known| !(matches!(known.state, State::Unwatched) && is_old(known)));
        let old: Vec<_> = self.ways.iter().filter(|(_, known)| is_old(known)).map(|(path, _)| path.clone()).collect();
        for path in old {
            self.forget_way(&path);
        }
    }

    /// Ends all watches. Ways that are being walked are not awaited any more.
    pub fn clear(&mut self) {
        self.ways.clear();
        let watched = std::mem::take(&mut self.watched);
        if let Some(watcher) = &self.watcher {
            watched.keys().for_each(|watch| watcher.remove(*watch));
        }
        // A way that is being walked may have some of these watches.
        self.forgotten += 1;
        self.upheavals += 1;
    }

    /// Ends all watches for good, and leaves the watcher to the next generation of this loop.
    pub fn retire(&mut self) {
        self.clear();
        self.is_retired = true;
        if let Some(watcher) = self.watcher.take() {
            Watcher::give_back(watcher);
        }
    }

    /// The number of known ways.
    #[cfg(test)]
    pub fn ways(&self) -> usize {
        self.ways.len()
    }

    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.ways.is_empty() && self.watched.is_empty()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.retire();
    }
}
