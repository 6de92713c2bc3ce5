//! Modules that filter responses.

pub mod addition;
pub mod charset;
pub mod compress;
pub mod gunzip;
pub mod headers;
pub mod more_headers;
pub mod not_modified;
pub mod range;
pub mod sequence;
pub mod slice;
pub mod ssi;
pub mod sub;
pub mod subs;
#[cfg(test)]
pub mod test_source;
pub mod unknown_length;
pub mod userid;
