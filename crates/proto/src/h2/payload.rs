//! The bytes of bodies on their way out: in memory, or somewhere else.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use bytes::Bytes;

/// Bytes that are not in memory, such as a range of a file. When their turn has come, the owner of the connection brings
/// them into the socket itself.
#[derive(Clone)]
pub struct Elsewhere {
    /// Whatever the owner finds them by.
    pub what: Rc<dyn Any>,
    /// Their begin there.
    pub at: u64,
    /// Their number.
    pub len: usize,
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Elsewhere").field("at", &self.at).field("len", &self.len).finish_non_exhaustive()
    }
}

/// Bytes of a body.
#[derive(Debug, Clone)]
pub(super) enum Payload {
    /// Bytes in memory.
    Memory(Bytes),
    /// Bytes of another place.
    Elsewhere(Elsewhere),
}

impl Payload {
    /// The number of bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Payload::Memory(bytes) => bytes.len(),
            Payload::Elsewhere(elsewhere) => elsewhere.len,
        }
    }

    /// Takes the first `count` bytes out, which are no more than there are.
    pub(super) fn split_to(&mut self, count: usize) -> Payload {
        debug_assert!(count <= self.len(), "{count} bytes are taken of {}", self.len());
        match self {
            Payload::Memory(bytes) => Payload::Memory(bytes.split_to(count)),
            Payload::Elsewhere(elsewhere) => {
                let mut first = elsewhere.clone();
                first.len = count.min(elsewhere.len);
                elsewhere.at += first.len as u64;
                elsewhere.len -= first.len;
                Payload::Elsewhere(first)
            }
        }
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Payload {
        Payload::Memory(bytes)
    }
}
