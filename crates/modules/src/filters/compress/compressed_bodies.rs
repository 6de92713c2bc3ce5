//! The compressed bodies of one loop, used again for at most one second.
//!
//! The key to a compressed body is the uncompressed bytes themselves, or the open file, and never a name. So a response
//! is sent only if its uncompressed form could be sent at the same moment. `open_file_cache off` keeps no files, and so
//! no bodies made of them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use freerun_http::files::hot::VALID;
use freerun_http::request::response::{Body, SourceError};
use freerun_runtime::files::OpenFile;
use freerun_runtime::loops;
use tokio::sync::Notify;

use super::coding::{Coding, Params};

/// The most bodies that a loop keeps.
const MAX_BODIES: usize = 1024;
/// The most bytes of compressed bodies, and of the small originals, that a loop keeps.
const MAX_BYTES: usize = 8 << 20;

/// The identity of the original. While this exists, no other original has its address.
#[derive(Clone)]
enum Identity {
    Bytes(Bytes),
    /// A file; the weak reference does not keep it open.
    File(Weak<OpenFile>),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct BodyKey {
    address: usize,
    len: u64,
    coding: &'static str,
    params: Params,
}

/// A body that is kept uncompressed, so that it may come again, and the coding for it.
#[derive(Clone)]
pub struct Original {
    identity: Identity,
    key: BodyKey,
}

impl Original {
    /// The body, if several responses share it: a kept file. A body that was made for one response is not shared.
    pub fn of(body: &Body, coding: &Coding, params: Params) -> Option<Original> {
        let (address, len, identity) = match body {
            Body::Bytes(bytes) if !bytes.is_empty() && !bytes.is_unique() => {
                (bytes.as_ptr().addr(), bytes.len() as u64, Identity::Bytes(bytes.clone()))
            }
            Body::File(range)
                if range.offset == 0 && range.len == range.file.size() && Arc::strong_count(&range.file) > 1 =>
            {
                (Arc::as_ptr(&range.file).addr(), range.len, Identity::File(Arc::downgrade(&range.file)))
            }
            _ => return None,
        };
        Some(Original { identity, key: BodyKey { address, len, coding: coding.name, params } })
    }

    /// The length of the body.
    pub fn len(&self) -> u64 {
        self.key.len
    }
}

struct BodyEntry {
    since: Instant,
    /// The identity keeps the address from being used again.
    identity: Identity,
    packed: Bytes,
}

impl BodyEntry {
    fn bytes(&self) -> usize {
        let original = match &self.identity {
            Identity::Bytes(bytes) => bytes.len(),
            Identity::File(_) => 0,
        };
        original + self.packed.len()
    }
}

/// The compressed bodies of a loop.
#[derive(Default)]
pub struct CompressedBodies {
    entries: RefCell<HashMap<BodyKey, BodyEntry>>,
    bytes: Cell<usize>,
    /// The bodies that are being compressed, at most as many as there are requests.
    making: RefCell<HashMap<BodyKey, Rc<CompressionMark>>>,
}

/// A body that a request is compressing, for all requests that want it meanwhile.
#[derive(Default)]
struct CompressionMark {
    packed: RefCell<Option<Bytes>>,
    over: Notify,
}

/// The request that compresses the body. Dropping it notifies the others that it is done, or given up.
struct Maker<'k> {
    kept: &'k CompressedBodies,
    key: BodyKey,
}

impl Drop for Maker<'_> {
    fn drop(&mut self) {
        if let Some(making) = self.kept.making.borrow_mut().remove(&self.key) {
            making.over.notify_waiters();
        }
    }
}

impl CompressedBodies {
    /// The compressed body, if it was made at most [`VALID`] ago.
    pub fn get(&self, original: &Original, now: Instant) -> Option<Bytes> {
        let entries = self.entries.borrow();
        let entry = entries.get(&original.key)?;
        (now.saturating_duration_since(entry.since) < VALID).then(|| entry.packed.clone())
    }

    /// The compressed body: from the cache, or from another request that is making it now, or the result of `make`.
    ///
    /// # Errors
    /// The errors of `make`. They concern this request alone: the next request that waits tries itself.
    pub async fn shared(
        self: &Rc<Self>,
        original: Original,
        make: impl AsyncFnOnce() -> Result<Bytes, SourceError>,
    ) -> Result<Bytes, SourceError> {
        loop {
            if let Some(packed) = self.get(&original, loops::now()) {
                return Ok(packed);
            }
            let making = self.making.borrow().get(&original.key).cloned();
            let Some(making) = making else { break };
            making.over.notified().await;
            if let Some(packed) = making.packed.borrow().clone() {
                return Ok(packed);
            }
        }
        let making = Rc::new(CompressionMark::default());
        self.making.borrow_mut().insert(original.key, making.clone());
        let maker = Maker { kept: self, key: original.key };
        let packed = make().await?;
        *making.packed.borrow_mut() = Some(packed.clone());
        drop(maker);
        self.put(original, packed.clone());
        Ok(packed)
    }

    /// Keeps a compressed body, if there is room for it.
    pub fn put(self: &Rc<Self>, original: Original, packed: Bytes) {
        let was_empty = self.entries.borrow().is_empty();
        self.insert(original, packed, loops::now());
        if was_empty && !self.entries.borrow().is_empty() {
            let kept = self.clone();
            loops::spawn(0, "letting go of packed bodies", async move {
                while !kept.entries.borrow().is_empty() {
                    freerun_runtime::timer::sleep(VALID).await;
                    kept.purge(Instant::now());
                }
            });
        }
    }

    fn insert(&self, original: Original, packed: Bytes, now: Instant) {
        let entry = BodyEntry { since: now, identity: original.identity, packed };
        let bytes = entry.bytes();
        let has_room =
            || self.entries.borrow().len() < MAX_BODIES && self.bytes.get().saturating_add(bytes) <= MAX_BYTES;
        if !has_room() {
            self.purge(now);
            if !has_room() {
                return;
            }
        }
        self.bytes.set(self.bytes.get() + bytes);
        if let Some(old) = self.entries.borrow_mut().insert(original.key, entry) {
            self.bytes.set(self.bytes.get() - old.bytes());
        }
    }

    fn purge(&self, now: Instant) {
        self.entries.borrow_mut().retain(|_, entry| {
            let can_come_again = match &entry.identity {
                Identity::Bytes(_) => true,
                Identity::File(file) => file.strong_count() > 0,
            };
            let keep = can_come_again && now.saturating_duration_since(entry.since) < VALID;
            if !keep {
                self.bytes.set(self.bytes.get() - entry.bytes());
            }
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::filters::compress::gzip::CODING;

    const PARAMS: Params = Params { level: 1, window: 15 };

    fn original(bytes: &Bytes) -> Option<Original> {
        Original::of(&Body::Bytes(bytes.clone()), &CODING, PARAMS)
    }

    #[test]
    fn the_same_bytes_are_known_again_and_equal_ones_are_not() {
        let kept = CompressedBodies::default();
        let now = Instant::now();
        let one = Bytes::from(vec![b'x'; 100]);
        let other = Bytes::from(vec![b'x'; 100]);
        let (one_key, other_key) = (original(&one).unwrap(), original(&other).unwrap());
        kept.insert(one_key.clone(), Bytes::from_static(b"packed"), now);
        assert_eq!(kept.get(&one_key, now), Some(Bytes::from_static(b"packed")));
        assert_eq!(kept.get(&other_key, now), None);
        let harder = Original::of(&Body::Bytes(one.clone()), &CODING, Params { level: 2, ..PARAMS }).unwrap();
        assert_eq!(kept.get(&harder, now), None, "another level");
        assert_eq!(kept.get(&one_key, now + VALID), None, "old");
        kept.purge(now + VALID);
        assert!(kept.entries.borrow().is_empty());
        assert_eq!(kept.bytes.get(), 0);
    }

    #[test]
    fn who_comes_while_it_is_packed_waits_for_that() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = Bytes::from(vec![b'x'; 100]);
        let original = original(&body).unwrap();
        let made = Cell::new(0);
        let many = async |results: &[bool]| {
            let kept = Rc::new(CompressedBodies { bytes: Cell::new(MAX_BYTES), ..CompressedBodies::default() });
            let (begin, begun) = (Notify::new(), Cell::new(0));
            let one = || {
                kept.shared(original.clone(), async || {
                    let succeeds = results[made.replace(made.get() + 1)];
                    begin.notified().await;
                    if succeeds { Ok(Bytes::from_static(b"packed")) } else { Err(io::Error::other("no").into()) }
                })
            };
            let go = async {
                while begun.replace(begun.get() + 1) < results.len() {
                    begin.notify_one();
                    tokio::task::yield_now().await;
                }
            };
            let (a, b, c, ()) = tokio::join!(biased; one(), one(), one(), go);
            assert!(kept.making.borrow().is_empty());
            [a, b, c].map(|result| result.is_ok())
        };
        assert_eq!(runtime.block_on(many(&[true])), [true; 3]);
        assert_eq!(made.replace(0), 1, "there was no room to keep it, and all the same it was made once");
        assert_eq!(runtime.block_on(many(&[false, true])), [false, true, true]);
        assert_eq!(made.replace(0), 2, "the next one tried");
        // A request that goes away while it compresses leaves the work to the others.
        runtime.block_on(async {
            let kept = Rc::new(CompressedBodies::default());
            let mut first = Box::pin(kept.shared(original.clone(), async || std::future::pending().await));
            let mut second = Box::pin(kept.shared(original.clone(), async || Err(io::Error::other("tried").into())));
            tokio::select! { biased;
                _ = &mut first => panic!("it never ends"),
                _ = &mut second => panic!("it waits"),
                () = std::future::ready(()) => {}
            }
            drop(first);
            assert_eq!(second.await.unwrap_err().to_string(), "tried");
        });
    }

    #[test]
    fn what_nobody_else_has_is_not_kept() {
        assert!(Original::of(&Body::Bytes(Bytes::from(vec![b'x'; 100])), &CODING, PARAMS).is_none());
        assert!(Original::of(&Body::Bytes(Bytes::new()), &CODING, PARAMS).is_none());
        assert!(Original::of(&Body::Empty, &CODING, PARAMS).is_none());
    }

    #[test]
    fn there_is_a_bound() {
        let kept = CompressedBodies::default();
        let now = Instant::now();
        let originals: Vec<Bytes> = (0..2000).map(|_| Bytes::from(vec![b'x'; 10])).collect();
        for bytes in &originals {
            kept.insert(original(bytes).unwrap(), Bytes::from_static(b"packed"), now);
        }
        assert_eq!(kept.entries.borrow().len(), MAX_BODIES);
        let large = Bytes::from(vec![b'x'; MAX_BYTES]);
        kept.insert(original(&large).unwrap(), Bytes::from_static(b"packed"), now + VALID);
        assert!(kept.entries.borrow().is_empty(), "the old ones went, and it is too large all the same");
        assert_eq!(kept.bytes.get(), 0);
        // Under the same key a new body replaces the old one.
        for _ in 0..3 {
            kept.insert(original(&originals[0]).unwrap(), Bytes::from_static(b"packed"), now);
        }
        assert_eq!(kept.bytes.get(), 16);
    }
}
