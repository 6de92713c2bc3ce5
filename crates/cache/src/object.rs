//! A stored object, opened: its head, its body, and the value that was made of its head.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use freerun_runtime::files::{FileError, OpenFile};
use freerun_runtime::pool::PoolError;
use rustix::io::Errno;

use crate::index::Entry;
use crate::record::{Damage, Head};

/// A stored object, opened.
#[derive(Debug)]
pub struct Object {
    /// The object's entry: it has the freshness, and says whether this is still the object of its key.
    pub entry: Arc<Entry>,
    /// The status, the fields, and the other values of the stored head.
    pub head: Arc<Head>,
    /// The object's body.
    pub body: ObjectBody,
    /// A value that was made of the head for clients.
    pub made: Made,
}

/// A value that the server makes of an object's head again and again, kept beside the object: the latest value that was
/// given, of any type, up to [`MADE`] bytes.
#[derive(Default)]
pub struct Made(ArcSwapOption<Box<dyn Any + Send + Sync>>);

/// The largest value that is kept in a [`Made`], in bytes. It counts for the memory tier.
pub const MADE: usize = 1024;

impl Made {
    /// Looks at the kept value, if it is of this type.
    pub fn with<T: 'static, R>(&self, look: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        let kept = self.0.load();
        let made: &(dyn Any + Send + Sync) = &***kept.as_ref()?;
        made.downcast_ref().and_then(look)
    }

    /// Keeps a value for the next time, in place of the one before.
    pub fn keep(&self, made: impl Any + Send + Sync) {
        self.0.store(Some(Arc::new(Box::new(made))));
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Made").field(&self.0.load().is_some()).finish()
    }
}

/// The body of a stored object.
#[derive(Debug, Clone)]
pub enum ObjectBody {
    /// The body is in memory.
    Bytes(Bytes),
    /// The body is a range of the object's file.
    File {
        /// The file.
        file: Arc<OpenFile>,
        /// Where the body begins.
        offset: u64,
        /// The length of the body in bytes.
        len: u64,
    },
}

/// Why a stored object cannot be served. The request asks the origin instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The object's file is missing. The entry is removed.
    #[error("its file is not there")]
    Missing,
    /// The file is not the one that was stored. The entry is removed.
    #[error("its file is damaged: {0}")]
    Damaged(Damage),
    /// The file cannot be read.
    #[error(transparent)]
    Failed(FileError),
    /// The disk does not answer in [`LIMIT`](crate::health::LIMIT), or is out.
    #[error("the disk does not answer")]
    Disk,
}

impl Unreadable {
    /// Whether another attempt would give the same result.
    pub(crate) fn is_for_good(&self) -> bool {
        match self {
            Unreadable::Missing | Unreadable::Damaged(_) => true,
            // If such a file were asked for again and again, one bad file would take out the disk.
            Unreadable::Failed(error) => error.errno() == Some(Errno::IO.raw_os_error()),
            Unreadable::Disk => false,
        }
    }

    /// Whether nothing needs to be logged: the file was removed elsewhere, the disk is out and that was logged, or the
    /// client has left.
    pub fn is_expected(&self) -> bool {
        let left = Unreadable::Failed(FileError::Pool(PoolError::ClientGone));
        matches!(self, Unreadable::Missing | Unreadable::Disk) || *self == left
    }
}

impl From<FileError> for Unreadable {
    fn from(error: FileError) -> Unreadable {
        match error.errno() {
            Some(errno) if errno == Errno::NOENT.raw_os_error() => Unreadable::Missing,
            _ => Unreadable::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_kept_by_its_type() {
        let made = Made::default();
        assert_eq!(made.with(|text: &String| Some(text.clone())), None);
        made.keep("one".to_owned());
        assert_eq!(made.with(|text: &String| Some(text.clone())).as_deref(), Some("one"));
        assert_eq!(made.with(|number: &u64| Some(*number)), None);
        made.keep(2_u64);
        assert_eq!(made.with(|text: &String| Some(text.clone())), None);
        assert_eq!(made.with(|number: &u64| Some(*number)), Some(2));
        assert_eq!(made.with(|_: &u64| None::<()>), None);
    }
}
