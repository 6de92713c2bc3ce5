//! Request heads of HTTP/0.9, 1.0 and 1.1, parsed as nginx parses them.
//!
//! freerun has a parser of its own instead of a general one with checks around it: nginx's rules — limits on lines and
//! buffers, names that are ignored instead of refused, HTTP/0.9, the place in a line that an error names — are rules
//! about lines, and a head that comes in pieces must cost no more than one that comes whole.

mod line;
mod parser;
#[cfg(test)]
mod tests;
mod types;

pub use parser::parse_length;
pub use parser::{HeadParser, HeadRules, HeadStage, Progress, parse_request};
pub use types::{BodyFraming, Field, Method, RequestHead, Target, TargetForm, Version};
