//! The clock that all who share a server go by.

/// Milliseconds of a clock that never goes back; where it begins does not matter.
pub type Millis = u64;

/// The time, as all who share a server have to tell it: since the process began.
pub fn now() -> Millis {
    freerun_runtime::loops::millis()
}
