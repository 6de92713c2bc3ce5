//! Modules that run after the response.

pub mod access;
