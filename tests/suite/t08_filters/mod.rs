//! What is made of a response on its way: compression, includes.

pub mod compress;
pub mod ssi;
