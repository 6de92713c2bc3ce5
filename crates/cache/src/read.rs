//! Reading a stored object: operations that cannot wait are done at once, all others by one task of a pool, for at most
//! the time that a request waits for a disk.

use std::ffi::CStr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use freerun_runtime::files::{Aio, FileError, FileSystem, OpenFile, Trouble, Via};
use rustix::io::Errno;

use crate::cache::Cache;
use crate::disk::Disk;
use crate::index::{Entry, Leave};
use crate::key::Key;
use crate::memory::SMALL;
use crate::object::{Made, Object, ObjectBody, Unreadable};
use crate::record::{Damage, Head, MAX_HEAD};

/// How many bytes of a large object's file are read for its head; more only if the head is longer.
const HEAD: u64 = 4 << 10;

impl Cache {
    /// The object of a key, if it is in memory, or if its file is open on a disk that is well. This neither waits nor
    /// uses the disk.
    pub fn in_memory(&self, key: Key) -> Option<Arc<Object>> {
        let object = self.store().memory.get(key)?;
        let on_disk = matches!(object.body, ObjectBody::File { .. });
        (!on_disk || self.store().disk.get().is_some_and(|disk| disk.health.is_in())).then_some(object)
    }

    /// Opens a stored object. When the future is ready, the head was verified and the file has the length that the head
    /// says; the caller has to compare the text of the key with the request's.
    ///
    /// # Errors
    /// See [`Unreadable`]. The entry of a file that is missing, damaged, or on a bad part of the disk is removed.
    pub async fn object(&self, entry: &Arc<Entry>, via: Via<'_>) -> Result<Arc<Object>, Unreadable> {
        let key = entry.key();
        if let Some(object) = self.in_memory(key)
            && Arc::ptr_eq(&object.entry, entry)
        {
            return Ok(object);
        }
        match self.open_object(key, Some(entry.size()), via).await {
            Ok((head, body)) => {
                entry.set_verified();
                self.watch(entry, &body);
                let object =
                    Arc::new(Object { entry: entry.clone(), head: Arc::new(head), body, made: Made::default() });
                self.store().memory.insert(object.clone());
                if entry.is_gone() {
                    self.store().memory.forget(key);
                }
                Ok(object)
            }
            Err(unreadable) => {
                if unreadable.is_for_good() {
                    self.discard(entry, Leave::Damaged);
                }
                Err(unreadable)
            }
        }
    }

    /// Opens the file of a key that the index does not know yet ([`Found::Unknown`](crate::cache::Found)), and puts it
    /// into the index. An object that a purge means is not used.
    ///
    /// # Errors
    /// See [`Unreadable`]; [`Unreadable::Missing`] if there is no object that may be used.
    pub async fn adopt_object(&self, key: Key, now: u64, via: Via<'_>) -> Result<Arc<Object>, Unreadable> {
        let (head, body) = match self.open_object(key, None, via).await {
            // A file of another program, or of another version: the cache's thread counts it, and it is replaced when
            // there is a reason.
            Err(Unreadable::Damaged(Damage::Foreign | Damage::Version)) => return Err(Unreadable::Missing),
            opened => opened?,
        };
        let size = head.size() as u64 + head.body;
        let entry = self.adopt(key, Key::of(&head.key), size, head.lifetime, now).ok_or(Unreadable::Missing)?;
        self.watch(&entry, &body);
        let object = Arc::new(Object { entry: entry.clone(), head: Arc::new(head), body, made: Made::default() });
        self.store().memory.insert(object.clone());
        if entry.is_gone() {
            self.store().memory.forget(key);
        }
        Ok(object)
    }

    /// Watches the reading and sending of the body, which happens elsewhere. Errors there count for the disk's health,
    /// and a file that cannot be read to its end is not served again.
    fn watch(&self, entry: &Arc<Entry>, body: &ObjectBody) {
        let ObjectBody::File { file, .. } = body else { return };
        let (store, entry) = (Arc::downgrade(self.store()), Arc::downgrade(entry));
        file.watch(move |trouble| {
            let (Some(store), Some(entry)) = (store.upgrade(), entry.upgrade()) else { return };
            let for_good = match trouble {
                Trouble::Short => true,
                Trouble::Failed(error) => {
                    if let Some(disk) = store.disk.get() {
                        disk.health.failed(error);
                    }
                    Unreadable::Failed(error.clone()).is_for_good()
                }
            };
            if for_good {
                store.discard(&entry, Leave::Damaged);
            }
        });
    }

    async fn open_object(&self, key: Key, size: Option<u64>, via: Via<'_>) -> Result<(Head, ObjectBody), Unreadable> {
        let Some(disk) = self.store().disk.get().filter(|disk| disk.health.is_in()) else {
            return Err(Unreadable::Disk);
        };
        match self.read(disk, key, size, via).await {
            Err(Unreadable::Failed(error)) if is_out_of_descriptors(&error) => {
                self.store().memory.close_files();
                self.read(disk, key, size, via).await
            }
            read => read,
        }
    }

    async fn read(
        &self,
        disk: &Arc<Disk>,
        key: Key,
        size: Option<u64>,
        via: Via<'_>,
    ) -> Result<(Head, ObjectBody), Unreadable> {
        let path = self.store().c_path_of(key);
        let load = match load(&disk.files, &path, key, size, via.aio) {
            Some(load) => load,
            None => {
                let this = disk.clone();
                let tag = disk.files.tag_of(&path, via.client);
                let read = move || {
                    let _running = this.health.begin();
                    load(&this.files, &path, key, size, &Aio::Off)
                };
                let read = disk.files.offload(via, tag, read);
                match freerun_runtime::timer::timeout(disk.health.limit(), read).await {
                    Ok(Ok(Some(load))) => load,
                    // Does not happen: with `Aio::Off` the read may wait.
                    Ok(Ok(None)) => return Err(Unreadable::Disk),
                    Ok(Err(error)) => Err(error.into()),
                    Err(_) => {
                        disk.health.late();
                        return Err(Unreadable::Disk);
                    }
                }
            }
        };
        match &load {
            Err(Unreadable::Failed(error)) => disk.health.failed(error),
            Ok((_, ObjectBody::File { file, .. })) => disk.health.is_on(file.mount()),
            _ => {}
        }
        load
    }
}

fn is_out_of_descriptors(error: &FileError) -> bool {
    error.errno().is_some_and(|errno| [Errno::MFILE, Errno::NFILE].iter().any(|out| out.raw_os_error() == errno))
}

type Loaded = Result<(Head, ObjectBody), Unreadable>;

/// Opens and reads a file; `None` if that would wait and `aio` does not allow it.
fn load(files: &FileSystem, path: &CStr, key: Key, expected: Option<u64>, aio: &Aio) -> Option<Loaded> {
    let file = match files.try_open_now(path, aio)? {
        Ok(file) => file,
        Err(error) => return Some(Err(error.into())),
    };
    files.spare_atime(&file);
    if !file.is_file() || expected.is_some_and(|expected| file.size() != expected) {
        return Some(Err(Unreadable::Damaged(Damage::Length)));
    }
    let expected = file.size();
    let first = if expected <= SMALL + HEAD { expected } else { HEAD };
    let mut bytes = match read(files, &file, first, aio)? {
        Ok(bytes) => bytes,
        Err(unreadable) => return Some(Err(unreadable)),
    };
    let decoded = match Head::decode(&bytes) {
        Err(Damage::Short(needed))
            if bytes.len() as u64 != expected && needed as u64 <= expected.min(MAX_HEAD as u64) =>
        {
            bytes = match read(files, &file, needed as u64, aio)? {
                Ok(bytes) => bytes,
                Err(unreadable) => return Some(Err(unreadable)),
            };
            Head::decode(&bytes)
        }
        decoded => decoded,
    };
    let (head, offset) = match decoded {
        Ok((head, offset)) => (head, offset as u64),
        Err(damage) => return Some(Err(Unreadable::Damaged(damage))),
    };
    if let Err(damage) = head.verify(offset as usize, expected, key) {
        return Some(Err(Unreadable::Damaged(damage)));
    }
    let len = head.body;
    let body = if bytes.len() as u64 == expected && len <= SMALL {
        ObjectBody::Bytes(bytes.slice(offset as usize..))
    } else {
        ObjectBody::File { file, offset, len }
    };
    Some(Ok((head, body)))
}

fn read(files: &FileSystem, file: &OpenFile, len: u64, aio: &Aio) -> Option<Result<Bytes, Unreadable>> {
    let mut buffer = BytesMut::zeroed(usize::try_from(len).ok()?);
    let read = files.try_read_now(file, 0, &mut buffer, aio)?;
    Some(match read {
        Ok(read) if read as u64 == len => Ok(buffer.freeze()),
        Ok(_) => Err(Unreadable::Damaged(Damage::Length)),
        Err(error) => Err(error.into()),
    })
}
