//! Which part of a response a request asks the origin for, where `slice` divides it.

use std::cell::Cell;

/// The first byte of the slice that a request asks for; `None` until `$slice_range` was used. Whoever asks anew for the
/// response to a request, without the client, has to take this over: otherwise it would ask for all of it.
#[derive(Debug, Default, Clone)]
pub struct SliceBegin(pub Cell<Option<u64>>);
