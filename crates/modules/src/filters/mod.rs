//! Modules that filter responses.

pub mod addition;
pub mod charset;
pub mod compress;
pub mod gunzip;
pub mod headers;
pub mod more_headers;
pub mod not_modified;
pub mod range;
#[cfg(test)]
pub mod repeated;
pub mod sequence;
pub mod slice;
pub mod ssi;
pub mod sub;
pub mod subs;
pub mod unmeasured;
pub mod userid;
