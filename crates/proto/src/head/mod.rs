//! Request heads: of HTTP/0.9, 1.0 and 1.1, parsed as nginx parses them, and of HTTP/2 and HTTP/3, made of their
//! fields.
//!
//! freerun has a parser of its own instead of a general one with checks around it, because nginx's rules are rules
//! about lines. They are limits on lines and buffers, names that are ignored instead of refused, HTTP/0.9, and the
//! place in a line that an error names. A head that comes in pieces must cost no more than a whole one.

mod edit;
mod field_fault;
mod field_lines;
mod fields;
mod line;
mod parser;
mod pseudo;
#[cfg(test)]
mod tests;
mod types;

pub use field_fault::{FieldFault, LogExcerpt};
pub use field_lines::{FieldRules, apply_name_rules};
pub use fields::{FieldHead, FieldHeadBuilder};
pub use parser::parse_length;
pub use parser::{HeadParser, HeadRules, HeadStage, Progress, parse_request};
pub use pseudo::Pseudo;
pub use types::{BodyFraming, Field, Method, RequestHead, TargetForm, TargetSpans, Version};
