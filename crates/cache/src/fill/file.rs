//! The file that a fill is written to: its head and the pieces of its body, before it has a name.

use std::sync::Arc;

use bytes::Bytes;
use freerun_runtime::files::{FileError, UnnamedFile};
use rustix::io::Errno;

use crate::key::Key;
use crate::record::Head;

/// The state that is needed to store a fill. Between two tasks it is in the fill's state.
#[derive(Debug)]
pub(super) struct StoreState {
    pub(super) head: Arc<Head>,
    pub(super) key: Key,
    /// Whether the head says how long the body is.
    announced: bool,
    head_written: bool,
    pub(super) file: Option<UnnamedFile>,
}

impl StoreState {
    pub(super) fn new(head: Arc<Head>, key: Key, announced: bool) -> StoreState {
        StoreState { head, key, announced, head_written: false, file: None }
    }

    /// The offset in the file at which the body begins.
    pub(super) fn begin(&self) -> u64 {
        self.head.size() as u64
    }

    fn file(&mut self, make: impl FnOnce(Key) -> Result<UnnamedFile, FileError>) -> Result<&UnnamedFile, FileError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => make(self.key)?,
        };
        Ok(self.file.insert(file))
    }

    /// Writes pieces at a place of the body, behind the head if the head can be encoded already. `length` is the
    /// body's, if all of it has come; `make` makes the file of a key, if there is none yet.
    pub(super) fn write(
        &mut self,
        make: impl FnOnce(Key) -> Result<UnnamedFile, FileError>,
        mut pieces: Vec<Bytes>,
        at: u64,
        length: Option<u64>,
    ) -> Result<(), FileError> {
        debug_assert!(at == 0 || self.file.is_some(), "the body's beginning is in no file");
        let mut offset = self.begin() + at;
        if at == 0 && !self.head_written && (self.announced || length.is_some()) {
            pieces.insert(0, self.encoded(length)?);
            offset = 0;
            self.head_written = true;
        }
        self.file(make)?.write(&pieces, offset)
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
        // The head stands in front of the body, and the body's length is not known yet when the head's place is
        // written.
        if encoded.len() as u64 == begin {
            Ok(encoded)
        } else {
            Err(FileError::System { call: "encode()", errno: Errno::INVAL.raw_os_error() })
        }
    }

    /// Writes the head, if it was not written before because the length of the body was not known.
    pub(super) fn complete(
        &mut self,
        make: impl FnOnce(Key) -> Result<UnnamedFile, FileError>,
        length: u64,
    ) -> Result<(), FileError> {
        if !self.head_written {
            let encoded = self.encoded(Some(length))?;
            self.file(make)?.write(&[encoded], 0)?;
        }
        debug_assert!(self.head.body == length, "the head says {} bytes, and the body has {length}", self.head.body);
        Ok(())
    }
}
