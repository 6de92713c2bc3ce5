//! The server as people use it: the documentation, the guide, other people's programs.

pub mod documentation;
pub mod guide;
pub mod tools;
