//! The clock that all users of a server share.

/// Milliseconds of a clock that never goes back; where it begins does not matter.
pub type Millis = u64;

/// The time since the process began. All users of a server have to take the time from here.
pub fn now() -> Millis {
    freerun_runtime::loops::millis()
}
