//! What is made of a response on its way: compression, includes, substitutions.

pub mod compress;
pub mod echoes;
pub mod replaced_content;
pub mod ssi;
pub mod subrequests;
