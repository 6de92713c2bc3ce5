//! Caching, as far as nginx has nothing to compare with.

mod rfc9111;
