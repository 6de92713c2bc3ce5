//! Responses, and the code that makes them.

pub mod aio;
pub mod charsets;
pub mod direct;
pub mod error_page;
pub mod grpc_error;
pub mod msie;
pub mod open;
pub mod open_error;
pub mod path;
pub mod pull;

use bytes::Bytes;
use freerun_proto::uri::extension;

use crate::request::Request;

/// The media type for a path, by its extension.
pub fn media_type(request: &Request, path: &[u8]) -> Bytes {
    let core = request.core();
    match core.types.find(extension(path)) {
        Some(media_type) => media_type.clone(),
        None => core.default_type.0.clone(),
    }
}
