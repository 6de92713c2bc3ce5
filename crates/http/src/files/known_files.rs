//! Files that requests have asked for lately, by location and path.
//!
//! A path has the same meaning in a location each time, unless variables are involved. A later request for it needs to
//! make neither the file's name nor its type, and the first fields of the head are ready to be sent. The entries are
//! dropped together with the files that they were made of: when something has changed, and after a second at most.

use std::hash::Hasher;
use std::rc::Rc;

use bytes::Bytes;
use freerun_proto::{date, encode};
use freerun_serve::loops::local::LoopLocal;
use rustc_hash::FxHasher;

use crate::files::hot::HotFile;

/// Number of files that are known at a time; newer ones take their places.
const PLACES: usize = 1024;

/// A file, as a path of a location names it.
pub struct KnownFile<L> {
    location: LoopLocal<L>,
    path: Box<[u8]>,
    /// The time until which it is kept: nanoseconds since the process began.
    until: u64,
    /// The file.
    pub file: Rc<HotFile>,
    /// The media type.
    pub media_type: Bytes,
    /// The fields of the head that the file determines.
    pub described: Rc<DescribedFile>,
}

/// The fields of a head that a file determines, as they are sent.
pub struct DescribedFile {
    content_type: Bytes,
    length: u64,
    last_modified: i64,
    etag: Bytes,
    /// `Content-Type`, `Content-Length` and `Last-Modified`.
    text: Vec<u8>,
    /// `ETag`.
    tag: Vec<u8>,
}

impl DescribedFile {
    /// The fields of a response with the whole of this file.
    pub fn new(file: &HotFile, media_type: &Bytes) -> DescribedFile {
        let (mut text, mut tag) = (Vec::new(), Vec::new());
        if !media_type.is_empty() {
            encode::field(&mut text, b"Content-Type", media_type);
        }
        encode::number_field(&mut text, b"Content-Length", file.meta.size);
        encode::field(&mut text, b"Last-Modified", &date::imf_fixdate(file.meta.mtime));
        encode::field(&mut tag, b"ETag", &file.etag);
        DescribedFile {
            content_type: media_type.clone(),
            length: file.meta.size,
            last_modified: file.meta.mtime,
            etag: file.etag.clone(),
            text,
            tag,
        }
    }

    /// `Content-Type`, `Content-Length` and `Last-Modified` as text, if the response has exactly these.
    pub fn text_for(&self, content_type: &Bytes, length: Option<u64>, last_modified: Option<i64>) -> Option<&[u8]> {
        let fits = length == Some(self.length)
            && last_modified == Some(self.last_modified)
            && is_same(content_type, &self.content_type);
        fits.then_some(&self.text)
    }

    /// The `ETag` field as text, if this is the file's tag.
    pub fn tag_for(&self, etag: &Bytes) -> Option<&[u8]> {
        is_same(etag, &self.etag).then_some(&self.tag)
    }
}

/// Whether two values are the same bytes in memory, and not only equal.
fn is_same(one: &Bytes, other: &Bytes) -> bool {
    one.as_ptr() == other.as_ptr() && one.len() == other.len()
}

/// The known files of a loop.
pub struct KnownFiles<L> {
    places: Vec<Option<Rc<KnownFile<L>>>>,
    has_some: bool,
}

fn place<L>(location: &LoopLocal<L>, path: &[u8]) -> usize {
    let mut hasher = FxHasher::default();
    hasher.write_usize(location.place());
    hasher.write(path);
    // Names come from clients, but only the names of existing files are entered.
    hasher.finish() as usize % PLACES
}

impl<L> Default for KnownFiles<L> {
    fn default() -> KnownFiles<L> {
        KnownFiles { places: Vec::new(), has_some: false }
    }
}

impl<L> KnownFiles<L> {
    /// The file, if its time has not expired.
    pub fn get(&self, location: &LoopLocal<L>, path: &[u8], now: u64) -> Option<&Rc<KnownFile<L>>> {
        if self.places.is_empty() {
            return None;
        }
        let known = self.places[place(location, path)].as_ref()?;
        (known.until > now && known.location.is_same(location) && *known.path == *path).then_some(known)
    }

    /// Enters a file, valid until `until`.
    pub fn put(&mut self, location: &LoopLocal<L>, path: &[u8], until: u64, file: &Rc<HotFile>, media_type: Bytes) {
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        self.has_some = true;
        let described = Rc::new(DescribedFile::new(file, &media_type));
        let (location, file) = (location.clone(), file.clone());
        let place = &mut self.places[place(&location, path)];
        *place = Some(Rc::new(KnownFile { location, path: path.into(), until, file, media_type, described }));
    }

    /// Drops all entries.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.has_some) {
            self.places.fill(None);
        }
    }
}
