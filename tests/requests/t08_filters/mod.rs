//! What is made of a response on its way: includes, substitutions.

pub mod echoes;
pub mod replaced_content;
pub mod subrequests;
