//! Who may have something: addresses, passwords, tokens, subrequests.

pub mod access;
pub mod tokens;
