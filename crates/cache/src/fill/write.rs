//! Writing a fill to the disk, in tasks of a pool: one task at a time for a fill, none while there is little to write.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use bytes::Bytes;
use freerun_runtime::files::{FileError, UnnamedFile};
use freerun_runtime::pool::Tag;

use super::file::StoreState;
use super::state::{Step, StorePhase};
use super::table::{ActiveFill, Fill};
use crate::index::{About, FileMark};
use crate::key::Key;
use crate::memory::SMALL;
use crate::object::{ObjectBody, StoredObject};

/// Number of bytes that one task writes before other tasks of the pool have their turn.
const TURN: u64 = 4 << 20;
/// The permissions of the files, and of folders on the way, as nginx sets them.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

impl Fill {
    /// Makes the file of a key.
    fn make_file(&self, key: Key) -> Result<UnnamedFile, FileError> {
        let store = &self.store;
        let file = self.disk.files.make_unnamed(&store.c_path_of(key), FILE_MODE, FOLDER_MODE, self.tag())?;
        if file.has_name() {
            store.named_early.store(true, Relaxed);
        }
        Ok(file)
    }

    fn tag(&self) -> Tag {
        let mut file = [0; 8];
        file.copy_from_slice(&self.key.0[..8]);
        Tag { file: u64::from_ne_bytes(file), ..self.disk.files.tag_of(self.disk.health.folder(), self.client) }
    }
}

impl ActiveFill {
    /// Starts the task that writes, if there is work for it. If no pool takes it, nothing is stored.
    pub(super) fn work(&self) {
        if self.with(|state, _| state.wants_work()) {
            start(self);
        }
    }

    /// Notes that the task that writes has stored the object.
    fn done(&self) {
        self.counts.stored.fetch_add(1, Relaxed);
        self.remove();
        drop(self.with(|state, _| state.stopped()));
    }

    /// Notes that the task that writes has ended without storing the object.
    fn abandoned(&self) {
        self.with(|state, wakes| state.give_up_disk(wakes));
        self.remove();
        drop(self.with(|state, _| state.stopped()));
    }

    /// Notes that the disk has refused the object, which was to be stored under `key`.
    fn failed(&self, key: Key, error: &FileError) {
        self.disk.trouble(error, &self.store.c_path_of(key));
        self.unstored();
    }

    /// Notes that storing has failed.
    pub(super) fn unstored(&self) {
        let was = self.with(|state, wakes| {
            let was = state.storing;
            state.give_up_disk(wakes);
            was
        });
        if matches!(was, StorePhase::Undecided | StorePhase::Yes) {
            self.counts.unstored.fetch_add(1, Relaxed);
            self.remove();
        }
    }
}

/// Gives the written file its name and the index its entry, unless the fill was given up meanwhile. Returns whether it
/// did.
fn finish(fill: &Fill, mut keeping: StoreState, length: u64) -> Result<bool, FileError> {
    keeping.complete(|key| fill.make_file(key), length)?;
    let StoreState { head, key, file, .. } = keeping;
    let Some(file) = file else { return Ok(false) };
    let size = head.size() as u64 + length;
    let body = fill.with(|state, _| {
        let all = length <= SMALL && state.window.start() == 0;
        all.then(|| state.window.batch(0, usize::MAX))
    });
    // The body gets an allocation of its own: pieces keep alive the buffers that they were read into.
    let body = body.map(|pieces| Bytes::from(pieces.concat()));
    let store = &fill.store;
    let own = store.naming.enter(key);
    let sequence = fill.sequence.load(Acquire);
    let compared = store.compared(sequence, &head.key, &head.tags);
    let Some(compared) = compared.filter(|_| own.is_some() && fill.with(|state, _| state.is_storing())) else {
        return Ok(false);
    };
    let path = store.c_path_of(key);
    let named = file.name_it(&path, size)?;
    let mark = fill.disk.files.present_meta(&named).map(|meta| FileMark::of(&meta, &fill.disk.files));
    drop(named);
    let (main, lifetime) = (Key::of(&head.key), head.lifetime);
    let about = About { key, main, size, sequence, lifetime };
    // This happens under the lock: a purge either comes before, and then nothing is stored, or it finds the entry.
    let stored = fill.with(|state, wakes| {
        let reserved = state.reserved.take_if(|_| state.storing == StorePhase::Yes)?;
        let entry = store.stored(&about, reserved, head.created);
        state.named(wakes);
        Some(entry.inspect(|entry| {
            entry.set_checked(compared);
            if let Some(mark) = mark {
                entry.has_file(mark);
            }
        }))
    });
    let is_stored = matches!(stored, Some(Some(_)));
    match (stored, body) {
        (Some(Some(entry)), Some(body)) => {
            let body = ObjectBody::Bytes(body);
            let object = StoredObject::new(entry.clone(), head, body);
            store.memory.insert(Arc::new(object));
            if entry.is_gone() {
                store.memory.forget(key);
            }
        }
        (Some(_), _) => store.memory.forget(key),
        // The file that has the name now is neither this object nor another stored one.
        (None, _) => store.unwanted(key),
    }
    Ok(is_stored)
}

/// Hands the work over to the pool. The state already says that a task is there.
pub(super) fn start(fill: &ActiveFill) {
    let task = fill.clone();
    if fill.pool.spawn(fill.tag(), move || work(&task)).is_err() {
        fill.with(|state, _| state.working = false);
        fill.unstored();
    }
}

fn work(fill: &ActiveFill) {
    let running = fill.disk.health.begin();
    let mut keeping = fill.with(|state, _| state.keeping.take());
    let key = keeping.as_ref().map_or(fill.key, |keeping| keeping.key);
    let mut written = 0;
    debug_assert!(fill.with(|state, _| state.working), "the task was not announced");
    loop {
        let (step, length) = fill.with(|state, _| {
            let step = state.step();
            if step == Step::Rest {
                state.keeping = keeping.take();
            }
            (step, state.whole_length())
        });
        let outcome = match (step, &mut keeping) {
            (Step::Rest, _) => return,
            (Step::Write(pieces, at), Some(keeping)) => {
                let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
                let outcome = keeping.write(|key| fill.make_file(key), pieces, at, length);
                if let (Ok(()), Some(file)) = (&outcome, &keeping.file) {
                    fill.with(|state, wakes| state.wrote(bytes, file.file(), keeping.begin(), wakes));
                    written += bytes;
                    running.moved();
                }
                outcome
            }
            (Step::Finish(length), keeping) => {
                match keeping.take().map_or(Ok(false), |keeping| finish(fill, keeping, length)) {
                    Ok(true) => return fill.done(),
                    Ok(false) => return fill.abandoned(),
                    Err(error) => Err(error),
                }
            }
            (Step::Write(..), None) | (Step::Abandon, _) => {
                drop(keeping);
                fill.abandoned();
                return;
            }
        };
        if let Err(error) = outcome {
            drop(keeping);
            fill.failed(key, &error);
            fill.abandoned();
            return;
        }
        if written >= TURN {
            fill.with(|state, _| state.keeping = keeping.take());
            drop(running);
            return start(fill);
        }
    }
}
