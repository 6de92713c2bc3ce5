//! A fill on its way to the disk, in tasks of a pool: one at a time for a fill, none while there is little to write.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use bytes::Bytes;
use freerun_runtime::files::{FileError, Unnamed};
use freerun_runtime::pool::Tag;
use rustix::io::Errno;

use super::Fill;
use super::state::{Step, Storing};
use crate::index::About;
use crate::key::Key;
use crate::memory::SMALL;
use crate::object::{Made, Object, ObjectBody};
use crate::record::Head;

/// One task writes so much, in bytes; then others of the pool have their turn.
const TURN: u64 = 4 << 20;
/// Rights of the files, and of folders on the way, as nginx makes them.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// What is needed to store a fill. Between two tasks it is in the fill's state.
#[derive(Debug)]
pub(super) struct Keeping {
    head: Arc<Head>,
    key: Key,
    /// Whether the head says how long the body is.
    announced: bool,
    head_written: bool,
    file: Option<Unnamed>,
}

impl Keeping {
    pub(super) fn new(head: Arc<Head>, key: Key, announced: bool) -> Keeping {
        Keeping { head, key, announced, head_written: false, file: None }
    }

    /// Where in the file the body begins.
    fn begin(&self) -> u64 {
        self.head.size() as u64
    }

    fn file(&mut self, fill: &Fill) -> Result<&Unnamed, FileError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let path = fill.cache.c_path_of(self.key);
                let file = fill.disk.files.make_unnamed(&path, FILE_MODE, FOLDER_MODE, fill.tag())?;
                if file.has_name() {
                    fill.cache.note_named_early();
                }
                file
            }
        };
        Ok(self.file.insert(file))
    }

    /// Writes pieces at a place of the body, behind the head where that can be said already. `length` is the body's, if all
    /// has come.
    fn write(&mut self, fill: &Fill, mut pieces: Vec<Bytes>, at: u64, length: Option<u64>) -> Result<(), FileError> {
        let mut offset = self.begin() + at;
        if at == 0 && !self.head_written && (self.announced || length.is_some()) {
            pieces.insert(0, self.encoded(length)?);
            offset = 0;
            self.head_written = true;
        }
        self.file(fill)?.write(&pieces, offset)
    }

    /// The head as bytes, with the length of the body.
    fn encoded(&mut self, length: Option<u64>) -> Result<Bytes, FileError> {
        let begin = self.begin();
        if let Some(length) = length
            && self.head.body != length
        {
            let mut head = Head::clone(&self.head);
            head.body = length;
            self.head = Arc::new(head);
        }
        let encoded = self.head.encode().unwrap_or_default();
        // It stands in front of the body, whose length is not known when that is written.
        if encoded.len() as u64 == begin {
            Ok(encoded)
        } else {
            Err(FileError::System { call: "encode()", errno: Errno::INVAL.raw_os_error() })
        }
    }

    /// All is written: the file gets its name, and the index its entry, unless the fill was given up meanwhile. Whether it has.
    fn finish(mut self, fill: &Arc<Fill>, length: u64) -> Result<bool, FileError> {
        if !self.head_written {
            let encoded = self.encoded(Some(length))?;
            self.file(fill)?.write(&[encoded], 0)?;
        }
        let Keeping { head, key, file, .. } = self;
        let Some(file) = file else { return Ok(false) };
        let size = head.size() as u64 + length;
        let body = fill.with(|state, _| {
            let all = length <= SMALL && state.window.start() == 0;
            all.then(|| state.window.batch(0, usize::MAX))
        });
        // One allocation of its own: pieces keep the buffers that they were read into.
        let body = body.map(|pieces| Bytes::from(pieces.concat()));
        let cache = &fill.cache;
        let own = cache.naming().enter(key);
        let sequence = fill.sequence.load(Acquire);
        let compared = cache.compared(sequence, &head.key, &head.tags);
        let Some(compared) = compared.filter(|_| own.is_some() && fill.with(|state, _| state.is_storing())) else {
            return Ok(false);
        };
        let path = cache.c_path_of(key);
        drop(file.name_it(&path, size)?);
        let (main, lifetime) = (Key::of(&head.key), head.lifetime);
        let about = About { key, main, size, sequence, lifetime };
        // Under the lock: a purge comes before, and then nothing is stored, or finds the entry.
        let stored = fill.with(|state, wakes| {
            let reserved = state.reserved.take_if(|_| state.storing == Storing::Yes)?;
            let entry = cache.stored(&about, reserved, head.created);
            state.named(wakes);
            Some(entry.inspect(|entry| entry.set_checked(compared)))
        });
        let is_stored = matches!(stored, Some(Some(_)));
        match (stored, body) {
            (Some(Some(entry)), Some(body)) => {
                let body = ObjectBody::Bytes(body);
                let object = Object { entry: entry.clone(), head, body, made: Made::default() };
                cache.memory().insert(Arc::new(object));
                if entry.is_gone() {
                    cache.memory().forget(key);
                }
            }
            (Some(_), _) => cache.memory().forget(key),
            // What has the name now is neither this object, nor one that was stored meanwhile.
            (None, _) => cache.unwanted(key),
        }
        Ok(is_stored)
    }
}

impl Fill {
    fn tag(&self) -> Tag {
        let mut file = [0; 8];
        file.copy_from_slice(&self.key.0[..8]);
        Tag { file: u64::from_ne_bytes(file), ..self.disk.files.tag_of(self.disk.health.folder(), self.client) }
    }
}

/// Hands the work over to the pool. The state says already that a task is there.
pub(super) fn start(fill: &Arc<Fill>) {
    let task = fill.clone();
    if fill.pool.spawn(fill.tag(), move || work(&task)).is_err() {
        fill.with(|state, _| state.working = false);
        fill.unstored();
    }
}

fn work(fill: &Arc<Fill>) {
    let running = fill.disk.health.begin();
    let mut keeping = fill.with(|state, _| state.keeping.take());
    let mut written = 0;
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
                let outcome = keeping.write(fill, pieces, at, length);
                if let (Ok(()), Some(file)) = (&outcome, &keeping.file) {
                    fill.with(|state, wakes| state.wrote(bytes, file.file(), keeping.begin(), wakes));
                    written += bytes;
                    running.moved();
                }
                outcome
            }
            (Step::Finish(length), keeping) => {
                match keeping.take().map_or(Ok(false), |keeping| keeping.finish(fill, length)) {
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
            fill.failed(&error);
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
