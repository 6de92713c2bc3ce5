//! Comparing an object in memory with its file, which another program may have removed or replaced.

use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::files::{Aio, FileError, FileSystem, Meta, Via};
use freerun_runtime::timer::timeout;

use crate::cache::Cache;
use crate::folder_watch;
use crate::folder_watch::FolderState;
use crate::index::Event;
use crate::object::{LookBegun, ObjectBody, StoredObject, Unreadable};
use crate::read::is_of_entry;
use crate::store::Store;

/// Time that a request waits for the attributes of a file whose bytes are in memory, if no change of it was reported. A
/// disk that is slower than this does not keep the object from being used; its answer counts when it comes.
const PATIENCE: Duration = Duration::from_millis(100);

impl Cache {
    /// Returns an object in memory if its file is still the stored file.
    ///
    /// # Errors
    /// See [`Unreadable`]. The entry of a file that is missing or another one is removed.
    pub(crate) async fn compared(
        &self,
        object: Arc<StoredObject>,
        now: u64,
        via: Via<'_>,
    ) -> Result<Arc<StoredObject>, Unreadable> {
        let store = self.store();
        if folder_watch::is_applied() && object.looked.is(folder_watch::moment(now)) {
            return Ok(object);
        }
        // While the disk is out, its files cannot have been changed by anybody who could be told.
        let Some(disk) = store.disk.get().filter(|disk| disk.health.is_in()) else { return Ok(object) };
        let look = Look::begin(store, object.clone(), now);
        // Where a change was reported, nothing but the file itself says whether the object may still be used.
        let is_trusted = matches!(object.body, ObjectBody::Bytes(_)) && !look.begun.is_doubted;
        let path = store.c_path_of(object.entry.key());
        if let Some(meta) = disk.files.try_stat_now(&path, via.aio) {
            return look.end(self, &disk.files, meta);
        }
        let (this, tag) = (disk.clone(), disk.files.tag_of(&path, via.client));
        let weak = Arc::downgrade(store);
        let ask = move || {
            let _running = this.health.begin();
            let meta = this.files.try_stat_now(&path, &Aio::Off);
            meta.map(|meta| look.judge(weak.upgrade().as_deref(), &this.files, meta))
        };
        let asked = disk.files.offload(via, tag, ask);
        let limit = if is_trusted { PATIENCE.min(disk.health.limit()) } else { disk.health.limit() };
        match timeout(limit, asked).await {
            Ok(Ok(Some(judged))) => judged.map(|()| object).inspect_err(|why| self.failed(why)),
            Ok(Ok(None)) => Err(Unreadable::Disk),
            Ok(Err(error)) if !is_trusted => Err(error.into()),
            Err(_) if !is_trusted => {
                disk.health.late();
                Err(Unreadable::Disk)
            }
            Ok(Err(_)) | Err(_) => Ok(object),
        }
    }

    fn failed(&self, unreadable: &Unreadable) {
        if let (Unreadable::Failed(error), Some(disk)) = (unreadable, self.store().disk.get()) {
            disk.health.failed(error);
        }
    }
}

/// A look at the file of an object in memory.
struct Look {
    object: Arc<StoredObject>,
    begun: LookBegun,
    /// The moment before the look. `None`: it does not count for later uses, since changes are not reported yet.
    moment: Option<u64>,
}

impl Look {
    /// To be called before the file is looked at: changes from here on are reported, if the folder is watched.
    fn begin(store: &Store, object: Arc<StoredObject>, now: u64) -> Look {
        let key = object.entry.key();
        let (watching, is_first) = store.folders.of_key(key, &store.config.load().levels);
        if is_first {
            store.index.tell(Event::Watch(key));
        }
        let present = folder_watch::moment(now);
        let moment = (watching != FolderState::Soon).then_some(present);
        let begun = object.looked.begin(present);
        Look { object, begun, moment }
    }

    fn end(
        self,
        cache: &Cache,
        files: &FileSystem,
        meta: Result<Meta, FileError>,
    ) -> Result<Arc<StoredObject>, Unreadable> {
        let object = self.object.clone();
        self.judge(Some(cache.store()), files, meta).map(|()| object).inspect_err(|why| cache.failed(why))
    }

    /// Judges by the attributes of the file that the name leads to.
    fn judge(self, store: Option<&Store>, files: &FileSystem, meta: Result<Meta, FileError>) -> Result<(), Unreadable> {
        let Look { object, begun, moment } = self;
        let entry = &object.entry;
        let judged = meta.map_err(Unreadable::from).and_then(|meta| is_of_entry(files, &meta, Some(entry)));
        let Err(unreadable) = judged else {
            if let Some(moment) = moment {
                object.looked.end(begun, moment);
            }
            return Ok(());
        };
        let Some(store) = store else { return Err(unreadable) };
        Err(store.remove_unreadable(entry, unreadable))
    }
}
