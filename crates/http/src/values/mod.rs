//! Values of directives that the settings of requests are made of. They know no request: those with variables in them are
//! generic over who is asked for.

pub mod access;
pub mod aio;
pub mod error_page;
pub mod folder;
pub mod keepalive;
pub mod media_types;
pub mod switch;
pub mod temp_path;
pub mod types;
