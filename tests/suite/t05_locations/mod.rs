//! Which server and location a request gets, and what answers it there.

pub mod predicates;
