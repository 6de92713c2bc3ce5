//! Caching, as far as nginx has nothing to compare with.

mod restarts;
mod rfc9111;
