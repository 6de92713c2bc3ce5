//! Reading a stored object. Operations that cannot wait are done at once, all others by one task of a pool, for at most
//! the time that a request waits for a disk.

use std::ffi::CStr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use freerun_runtime::files::{Aio, FileError, FileSystem, Meta, OpenFile, Trouble, Via};
use rustix::io::Errno;

use crate::cache::Cache;
use crate::disk::Disk;
use crate::folder_watch;
use crate::index::{Entry, FileMark, Leave};
use crate::key::Key;
use crate::memory::SMALL;
use crate::object::{ObjectBody, StoredObject, Unreadable};
use crate::record::{Damage, Head, MAX_HEAD};

/// Number of bytes of a large object's file that are read for its head; more only if the head is longer.
const HEAD: u64 = 4 << 10;

impl Cache {
    /// The object of a key, if it is in memory, or if its file is open on a disk that is well. This neither waits nor
    /// uses the disk.
    pub fn in_memory(&self, key: Key) -> Option<Arc<StoredObject>> {
        self.store().memory.get(key).filter(|object| self.is_readable(object))
    }

    /// Whether the body of an object in the memory tier can be read: an open file only if its disk is well.
    fn is_readable(&self, object: &StoredObject) -> bool {
        let on_disk = matches!(object.body, ObjectBody::File { .. });
        !on_disk || self.store().disk.get().is_some_and(|disk| disk.health.is_in())
    }

    /// As [`in_memory`](Cache::in_memory), but only if the object's file was looked at in this second (`now`, in seconds
    /// since 1970) and no change of it was reported since.
    pub fn unchanged_in_memory(&self, key: Key, now: u64) -> Option<Arc<StoredObject>> {
        self.in_memory(key).filter(|object| folder_watch::is_applied() && object.looked.is(folder_watch::moment(now)))
    }

    /// Opens a stored object. An object in memory is compared with its file, if that has not been done in this second
    /// (`now`, in seconds since 1970). When the future is ready, the head was verified and the file has the length that
    /// the head says. The caller has to compare the text of the key with the request's.
    ///
    /// # Errors
    /// See [`Unreadable`]. The entry of a file that is missing, damaged, or on a bad part of the disk is removed.
    pub async fn object(&self, entry: &Arc<Entry>, now: u64, via: Via<'_>) -> Result<Arc<StoredObject>, Unreadable> {
        let key = entry.key();
        if let Some(object) = self.store().memory.peek(key)
            && Arc::ptr_eq(&object.entry, entry)
            && self.is_readable(&object)
        {
            return self.compared(object, now, via).await;
        }
        match self.open_object(key, Some(entry), via).await {
            Ok((head, body)) => {
                entry.set_verified();
                self.watch(entry, &body);
                let object = Arc::new(StoredObject::new(entry.clone(), Arc::new(head), body));
                self.store().memory.insert(object.clone());
                if entry.is_gone() {
                    self.store().memory.forget(key);
                }
                Ok(object)
            }
            Err(unreadable) => Err(self.store().remove_unreadable(entry, unreadable)),
        }
    }

    /// Opens the file of a key that the index does not know yet ([`IndexAnswer::Unknown`](crate::cache::IndexAnswer)), and puts it
    /// into the index. An object that a purge means is not used.
    ///
    /// # Errors
    /// See [`Unreadable`]; [`Unreadable::Missing`] if there is no object that may be used.
    pub async fn adopt_object(&self, key: Key, now: u64, via: Via<'_>) -> Result<Arc<StoredObject>, Unreadable> {
        let (head, body) = match self.open_object(key, None, via).await {
            // A file of another program, or of another version: the cache's thread counts it, and it is replaced when
            // there is a reason.
            Err(Unreadable::Damaged(Damage::Foreign | Damage::Version)) => return Err(Unreadable::Missing),
            opened => opened?,
        };
        let size = head.size() as u64 + head.body;
        let entry = self.adopt(key, Key::of(&head.key), size, head.lifetime, now).ok_or(Unreadable::Missing)?;
        self.watch(&entry, &body);
        let object = Arc::new(StoredObject::new(entry.clone(), Arc::new(head), body));
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

    async fn open_object(
        &self,
        key: Key,
        known: Option<&Arc<Entry>>,
        via: Via<'_>,
    ) -> Result<(Head, ObjectBody), Unreadable> {
        let Some(disk) = self.store().disk.get().filter(|disk| disk.health.is_in()) else {
            return Err(Unreadable::Disk);
        };
        match self.read(disk, key, known, via).await {
            Err(Unreadable::Failed(error)) if is_out_of_descriptors(&error) => {
                self.store().memory.close_files();
                self.read(disk, key, known, via).await
            }
            read => read,
        }
    }

    async fn read(
        &self,
        disk: &Arc<Disk>,
        key: Key,
        known: Option<&Arc<Entry>>,
        via: Via<'_>,
    ) -> Result<(Head, ObjectBody), Unreadable> {
        let path = self.store().c_path_of(key);
        let load = match load(&disk.files, &path, key, known, via.aio) {
            Some(load) => load,
            None => {
                let (this, known) = (disk.clone(), known.cloned());
                let tag = disk.files.tag_of(&path, via.client);
                let read = move || {
                    let _running = this.health.begin();
                    load(&this.files, &path, key, known.as_ref(), &Aio::Off)
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

/// Compares a file with what the index knows of it.
pub(crate) fn is_of_entry(files: &FileSystem, meta: &Meta, known: Option<&Arc<Entry>>) -> Result<(), Unreadable> {
    if !meta.is_file() || known.is_some_and(|entry| meta.size != entry.size()) {
        return Err(Unreadable::Damaged(Damage::Length));
    }
    if known.is_some_and(|entry| !entry.has_file(FileMark::of(meta, files))) {
        return Err(Unreadable::Damaged(Damage::Replaced));
    }
    Ok(())
}

fn is_out_of_descriptors(error: &FileError) -> bool {
    error.errno().is_some_and(|errno| [Errno::MFILE, Errno::NFILE].iter().any(|out| out.raw_os_error() == errno))
}

type ReadResult = Result<(Head, ObjectBody), Unreadable>;

/// Opens and reads a file; `None` if that would wait and `aio` does not allow it.
fn load(files: &FileSystem, path: &CStr, key: Key, known: Option<&Arc<Entry>>, aio: &Aio) -> Option<ReadResult> {
    let file = match files.try_open_now(path, aio)? {
        Ok(file) => file,
        Err(error) => return Some(Err(error.into())),
    };
    files.spare_atime(&file);
    if let Err(unreadable) = is_of_entry(files, file.meta(), known) {
        return Some(Err(unreadable));
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
