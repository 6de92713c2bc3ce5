//! Finds the stored response for a request: first in memory, then on disk, and of several variants (`Vary`) the
//! request's own.

use std::sync::Arc;

use bytes::Bytes;
use freerun_cache::cache::{Cache, Entry, IndexAnswer, Leave};
use freerun_cache::key::Key;
use freerun_cache::object::{StoredObject, Unreadable};
use freerun_conf::text_of_os;
use freerun_http::connection::client_gone::ClientGone;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_runtime::files::{Aio, Via};

use crate::cached::store_decision::variant;

/// The cache, and the key of a request's response in it.
#[derive(Debug, Clone)]
pub struct CacheRequest {
    /// The cache.
    pub cache: Arc<Cache>,
    /// The text of the key.
    pub text: Bytes,
    /// The hash of the key's text.
    pub key: Key,
}

/// The result of a lookup.
#[derive(Debug, Clone)]
pub struct CacheLookup {
    /// The stored response.
    pub object: Option<Arc<StoredObject>>,
    /// An entry that is stored but cannot be read now: the server is asked anew, without another look at the entry.
    pub unreadable: Option<Arc<Entry>>,
    /// The key that the request's variant is stored under, or would be.
    pub key: Key,
    /// The names of the fields that chose this variant, where the key is not the request's own.
    pub names: Option<Bytes>,
    /// Whether another text has the same key (MD5): nothing can be stored for this request.
    pub taken: bool,
}

/// The object of a key that a request wants.
enum WantedObject {
    /// The object of the key that was looked up.
    This,
    /// The object of another key.
    Other(Key),
    /// No object.
    None,
}

fn which(request: &Request, object: &StoredObject, text: &[u8], main: Key, key: Key) -> WantedObject {
    if *object.head.key != *text {
        return WantedObject::None;
    }
    match &object.head.vary {
        None if key == main => WantedObject::This,
        Some(vary) if key == main => match variant(request, vary.names.clone(), main).variant {
            variant if variant == vary.variant => WantedObject::This,
            variant => WantedObject::Other(variant),
        },
        Some(vary) if vary.variant == key => WantedObject::This,
        _ => WantedObject::None,
    }
}

/// The object in memory that a request wants, if it may be used. The use is recorded.
pub fn in_memory(request: &Request, cache: &Cache, text: &[u8], main: Key, now: u64) -> Option<Arc<StoredObject>> {
    let mut key = main;
    loop {
        let object = cache.unchanged_in_memory(key, now)?;
        let entry = &object.entry;
        if entry.is_gone() || cache.is_purged(entry, &object.head.key, &object.head.tags) {
            return None;
        }
        match which(request, &object, text, main, key) {
            WantedObject::This => {
                entry.touch(now);
                return Some(object);
            }
            WantedObject::Other(other) if key == main => key = other,
            _ => return None,
        }
    }
}

impl CacheRequest {
    /// Looks in memory and then on disk.
    pub async fn locate(&self, request: &Request, aio: &Aio, now: u64) -> CacheLookup {
        let main = self.key;
        let mut key = main;
        let mut names = None;
        loop {
            let (object, unreadable) = match self.open(request, aio, key, now).await {
                Ok(object) => (Some(object), None),
                Err(unreadable) => (None, unreadable),
            };
            let Some(object) = object else {
                return CacheLookup { object: None, unreadable, key, names, taken: false };
            };
            match which(request, &object, &self.text, main, key) {
                WantedObject::This => {
                    return CacheLookup { object: Some(object), unreadable: None, key, names, taken: false };
                }
                WantedObject::Other(other) if key == main => {
                    key = other;
                    names = object.head.vary.as_ref().map(|vary| vary.names.clone());
                }
                _ => {
                    let taken = *object.head.key != *self.text;
                    if taken {
                        log_error!(
                            request,
                            Crit,
                            "cache file \"{}\" has md5 collision",
                            text_of_os(&self.cache.path_of(key))
                        );
                    }
                    return CacheLookup { object: None, unreadable: None, key, names, taken };
                }
            }
        }
    }

    /// Opens the object of a key; the error is the entry that cannot be read, if there is one.
    async fn open(
        &self,
        request: &Request,
        aio: &Aio,
        key: Key,
        now: u64,
    ) -> Result<Arc<StoredObject>, Option<Arc<Entry>>> {
        let gone = ClientGone::of(&request.client);
        let via = Via { aio, client: request.client_key(), gone: Some(&gone) };
        let (known, found) = match self.cache.find(key, now) {
            IndexAnswer::Stored(entry) => (Some(entry.clone()), self.cache.object(&entry, now, via).await),
            IndexAnswer::Unknown => match self.cache.adopt_object(key, now, via).await {
                // Another request was faster.
                Err(Unreadable::Missing) => match self.cache.find(key, now) {
                    IndexAnswer::Stored(entry) => (Some(entry.clone()), self.cache.object(&entry, now, via).await),
                    _ => return Err(None),
                },
                found => (None, found),
            },
            IndexAnswer::Nothing => return Err(None),
        };
        let object = match found {
            Ok(object) => object,
            Err(why) => {
                if !why.is_expected() {
                    log_error!(request, Crit, "cache file \"{}\": {why}", text_of_os(&self.cache.path_of(key)));
                }
                return Err(known.filter(|entry| !entry.is_gone()));
            }
        };
        if self.cache.is_purged(&object.entry, &object.head.key, &object.head.tags) {
            self.cache.discard(&object.entry, Leave::Purged);
            return Err(None);
        }
        Ok(object)
    }
}
