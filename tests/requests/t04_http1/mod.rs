//! HTTP/1.1: heads and bodies of requests, fields of responses.

pub mod early_bodies;
pub mod faulty_bodies;
pub mod headers;
pub mod joined_fields;
pub mod requests;
