//! A stored object, opened: its head, its body, and the value that was made of its head.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use freerun_runtime::files::{FileError, OpenFile};
use freerun_runtime::pool::PoolError;
use rustix::io::Errno;

use crate::index::Entry;
use crate::record::{Damage, Head};

/// A stored object, opened.
#[derive(Debug)]
pub struct StoredObject {
    /// The object's entry: it has the freshness, and says whether this is still the object of its key.
    pub entry: Arc<Entry>,
    /// The status, the fields, and the other values of the stored head.
    pub head: Arc<Head>,
    /// The object's body.
    pub body: ObjectBody,
    /// A value that was made of the head for clients.
    pub made: MadeValue,
    /// Moment of the last look at the file.
    pub looked: LookedAt,
}

/// The bits of a moment that are the second; those above them say how often anything may have changed.
pub(crate) const SECONDS: u32 = 40;

fn is_same_but_for_seconds(one: u64, other: u64) -> bool {
    one >> SECONDS == other >> SECONDS
}

impl StoredObject {
    /// An object whose file has to be looked at before it is used again.
    pub fn new(entry: Arc<Entry>, head: Arc<Head>, body: ObjectBody) -> StoredObject {
        StoredObject { entry, head, body, made: MadeValue::default(), looked: LookedAt::default() }
    }
}

/// Marks a moment, so that it is never 0.
pub(crate) const MOMENT: u64 = 1 << 60;
/// Marks the number of a look that is under way.
const LOOKING: u64 = 1 << 63;
/// Marks the number of a look that is made because a change was reported.
const DOUBTED: u64 = 1 << 62;
/// The state of a file that was not looked at since the object came into memory.
const NEW: u64 = 1 << 61;

static NEXT_LOOK: AtomicU64 = AtomicU64::new(0);

/// A look at the file of an object that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookBegun {
    number: u64,
    /// A change was reported since the last look.
    pub(crate) is_doubted: bool,
}

/// The moment at which the file of an object in memory was last found unchanged. It holds for the rest of that second,
/// unless a change is reported before.
#[derive(Debug)]
pub struct LookedAt(AtomicU64);

impl Default for LookedAt {
    fn default() -> LookedAt {
        LookedAt(AtomicU64::new(NEW))
    }
}

impl LookedAt {
    /// Whether the file was looked at in this moment of [`folder_watch`](crate::folder_watch).
    pub(crate) fn is(&self, moment: u64) -> bool {
        self.0.load(Acquire) == moment
    }

    /// Begins a look at the file, at this moment. Until it ends, nobody takes the file for unchanged.
    pub(crate) fn begin(&self, moment: u64) -> LookBegun {
        let own = (NEXT_LOOK.fetch_add(1, Relaxed) % DOUBTED) | LOOKING;
        let mut is_doubted = false;
        let update = |before: u64| {
            is_doubted = match before {
                before if before & LOOKING != 0 => before & DOUBTED != 0,
                before if before & MOMENT != 0 => !is_same_but_for_seconds(before, moment),
                before => before != NEW,
            };
            Some(own | if is_doubted { DOUBTED } else { 0 })
        };
        let _ = self.0.fetch_update(SeqCst, SeqCst, update);
        LookBegun { number: own | if is_doubted { DOUBTED } else { 0 }, is_doubted }
    }

    /// Ends a look that has found the file unchanged. It does not count if a change was reported, or another look
    /// began, meanwhile.
    pub(crate) fn end(&self, begun: LookBegun, moment: u64) {
        let _ = self.0.compare_exchange(begun.number, moment, SeqCst, SeqCst);
    }

    /// Notes that the file may have changed.
    pub(crate) fn doubt(&self) {
        self.0.store(0, SeqCst);
    }
}

/// A value that the server makes of an object's head again and again, kept beside the object: the latest value that was
/// given, of any type, up to [`MADE`] bytes.
#[derive(Default)]
pub struct MadeValue(ArcSwapOption<Box<dyn Any + Send + Sync>>);

/// The largest value that is kept in a [`MadeValue`], in bytes. It counts for the memory tier.
pub const MADE: usize = 1024;

impl MadeValue {
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

impl fmt::Debug for MadeValue {
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
        /// Place of the body.
        offset: u64,
        /// The length of the body in bytes.
        len: u64,
    },
}

/// Reason why a stored object cannot be served. The request asks the origin instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The object's file is missing. The entry is removed.
    #[error("its file is not there")]
    Missing,
    /// The file is not the stored file. The entry is removed.
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
            Some(errno) if [Errno::NOENT, Errno::NOTDIR].iter().any(|gone| gone.raw_os_error() == errno) => {
                Unreadable::Missing
            }
            _ => Unreadable::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_unless_a_change_was_reported_meanwhile() {
        let (seven, eight) = (MOMENT | 7, MOMENT | 8);
        let looked = LookedAt::default();
        let first = looked.begin(seven);
        assert!(!first.is_doubted && !looked.is(seven));
        looked.end(first, seven);
        assert!(looked.is(seven) && !looked.is(eight));
        let second = looked.begin(eight);
        assert!(!second.is_doubted && !looked.is(seven));
        looked.doubt();
        looked.end(second, eight);
        assert!(!looked.is(eight));
        let (third, fourth) = (looked.begin(eight), looked.begin(eight));
        assert!(third.is_doubted && fourth.is_doubted);
        looked.end(third, eight);
        assert!(!looked.is(eight));
        looked.end(fourth, eight);
        assert!(looked.is(eight));
        // Anything may have changed since.
        assert!(looked.begin(eight + (1 << SECONDS)).is_doubted);
    }

    #[test]
    fn what_was_made_is_kept_by_its_type() {
        let made = MadeValue::default();
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
