//! Who may have something: addresses, passwords, tokens, subrequests.

pub mod access;
pub mod auth_requests;
pub mod client_properties;
