//! A stored object, opened: its head, its body, and what is made of its head.

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
    /// Its entry: freshness, and whether it is still the object of its key.
    pub entry: Arc<Entry>,
    /// Status, fields, and what else was stored with it.
    pub head: Arc<Head>,
    /// Its body.
    pub body: ObjectBody,
    /// What was made of its head for clients.
    pub made: Made,
}

/// What whoever serves an object makes of its head again and again, kept beside it: the latest one that was given, of any
/// type, up to [`MADE`] bytes.
#[derive(Default)]
pub struct Made(ArcSwapOption<Box<dyn Any + Send + Sync>>);

/// The most that is kept in a [`Made`], in bytes. It counts for the memory tier.
pub const MADE: usize = 1024;

impl Made {
    /// Looks at what was kept, if it is of this type.
    pub fn with<T: 'static, R>(&self, look: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        let kept = self.0.load();
        let made: &(dyn Any + Send + Sync) = &***kept.as_ref()?;
        made.downcast_ref().and_then(look)
    }

    /// Keeps it for the next time, in place of what was kept.
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
    /// In memory.
    Bytes(Bytes),
    /// A range of its file.
    File {
        /// The file.
        file: Arc<OpenFile>,
        /// Where the body begins.
        offset: u64,
        /// Its length.
        len: u64,
    },
}

/// Why a stored object cannot be served. The request asks the origin instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Its file is not there. The entry is removed.
    #[error("its file is not there")]
    Missing,
    /// Its file is not what was stored. The entry is removed.
    #[error("its file is damaged: {0}")]
    Damaged(Damage),
    /// It cannot be read.
    #[error(transparent)]
    Failed(FileError),
    /// The disk does not answer in [`LIMIT`](crate::health::LIMIT), or is out.
    #[error("the disk does not answer")]
    Disk,
}

impl Unreadable {
    /// Whether it will not be otherwise the next time.
    pub(crate) fn is_for_good(&self) -> bool {
        match self {
            Unreadable::Missing | Unreadable::Damaged(_) => true,
            // Asked for again and again, one bad file would take out the disk.
            Unreadable::Failed(error) => error.errno() == Some(Errno::IO.raw_os_error()),
            Unreadable::Disk => false,
        }
    }

    /// Whether there is nothing to be logged: a file that somebody else has removed, a disk of which it was said that it is
    /// out, a client that has left.
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
