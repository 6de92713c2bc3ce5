//! After the response.

pub mod access;
