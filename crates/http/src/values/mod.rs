//! Values of directives for the settings of requests. They do not depend on requests: values with variables are generic
//! over the subject.

pub mod access;
pub mod aio;
pub mod conditions;
pub mod error_page;
pub mod folder;
pub mod keepalive;
pub mod media_types;
pub mod protocols;
pub mod switch;
pub mod temp_path;
pub mod types;
