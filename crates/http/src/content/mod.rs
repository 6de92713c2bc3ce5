//! Responses, and what makes them.

pub mod aio;
pub mod error_page;
pub mod hot;
pub mod msie;
pub mod open;
pub mod path;
pub mod pull;
pub mod response;
