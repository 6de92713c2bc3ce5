//! Files as requests have asked for them lately, by location and path.
//!
//! What a path means in a location does not change, but for variables: whoever asks again needs neither the file's name
//! nor its type made, and the first fields of the head are there as they are sent. All of it is forgotten with what it was
//! made of, after a second at most.

use std::hash::Hasher;
use std::rc::Rc;

use bytes::Bytes;
use freerun_proto::{date, encode};
use freerun_serve::loop_local::LoopLocal;
use rustc_hash::FxHasher;

use crate::files::hot::HotFile;

/// How many are known at a time; others take their places.
const PLACES: usize = 1024;

/// A file, as a path of a location names it.
pub struct KnownFile<L> {
    location: LoopLocal<L>,
    path: Box<[u8]>,
    /// Until when it may be taken for what it was: nanoseconds since the process began.
    until: u64,
    /// The file.
    pub file: Rc<HotFile>,
    /// Its type.
    pub media_type: Bytes,
    /// Its head.
    pub described: Rc<Described>,
}

/// The fields of a head that a file decides, as they are sent.
pub struct Described {
    content_type: Bytes,
    length: u64,
    last_modified: i64,
    etag: Bytes,
    /// `Content-Type`, `Content-Length` and `Last-Modified`.
    text: Vec<u8>,
    /// `ETag`
    tag: Vec<u8>,
}

impl Described {
    /// Those of all of this file.
    pub fn new(file: &HotFile, media_type: &Bytes) -> Described {
        let (mut text, mut tag) = (Vec::new(), Vec::new());
        if !media_type.is_empty() {
            encode::field(&mut text, b"Content-Type", media_type);
        }
        encode::number_field(&mut text, b"Content-Length", file.meta.size);
        encode::field(&mut text, b"Last-Modified", &date::imf_fixdate(file.meta.mtime));
        encode::field(&mut tag, b"ETag", &file.etag);
        Described {
            content_type: media_type.clone(),
            length: file.meta.size,
            last_modified: file.meta.mtime,
            etag: file.etag.clone(),
            text,
            tag,
        }
    }

    /// `Content-Type`, `Content-Length` and `Last-Modified`, if they are these.
    pub fn text_for(&self, content_type: &Bytes, length: Option<u64>, last_modified: Option<i64>) -> Option<&[u8]> {
        let fits = length == Some(self.length)
            && last_modified == Some(self.last_modified)
            && is_same(content_type, &self.content_type);
        fits.then_some(&self.text)
    }

    /// The field with this `ETag`, if it is the file's.
    pub fn tag_for(&self, etag: &Bytes) -> Option<&[u8]> {
        is_same(etag, &self.etag).then_some(&self.tag)
    }
}

/// Whether these are the same bytes, and not only alike.
fn is_same(one: &Bytes, other: &Bytes) -> bool {
    one.as_ptr() == other.as_ptr() && one.len() == other.len()
}

/// The known files of a loop.
pub struct KnownFiles<L>(Vec<Option<Rc<KnownFile<L>>>>);

fn place<L>(location: &LoopLocal<L>, path: &[u8]) -> usize {
    let mut hasher = FxHasher::default();
    hasher.write_usize(location.place());
    hasher.write(path);
    // Names come from clients, but only those of files that are there enter.
    hasher.finish() as usize % PLACES
}

impl<L> Default for KnownFiles<L> {
    fn default() -> KnownFiles<L> {
        KnownFiles(Vec::new())
    }
}

impl<L> KnownFiles<L> {
    /// The file, if its time is not up.
    pub fn get(&self, location: &LoopLocal<L>, path: &[u8], now: u64) -> Option<&Rc<KnownFile<L>>> {
        if self.0.is_empty() {
            return None;
        }
        let known = self.0[place(location, path)].as_ref()?;
        (known.until > now && known.location.is_same(location) && *known.path == *path).then_some(known)
    }

    /// Knows a file until then.
    pub fn put(&mut self, location: &LoopLocal<L>, path: &[u8], until: u64, file: &Rc<HotFile>, media_type: Bytes) {
        if self.0.is_empty() {
            self.0.resize(PLACES, None);
        }
        let described = Rc::new(Described::new(file, &media_type));
        let (location, file) = (location.clone(), file.clone());
        let place = &mut self.0[place(&location, path)];
        *place = Some(Rc::new(KnownFile { location, path: path.into(), until, file, media_type, described }));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.fill(None);
    }
}
