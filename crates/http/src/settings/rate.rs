//! How fast responses are sent.

use freerun_conf::{Cx, Node, Problem, Shape, Value, parse_size, settings};
use std::cell::Cell;

use crate::log_error;
use crate::request::Request;
use crate::template::Template;

settings! {
    /// How fast responses are sent.
    #[module = "rate"]
    pub struct RateSettings {
        /// The most bytes a second that a response is sent with; 0 is no limit.
        ///
        /// The limit holds for each response, so a client with two connections gets twice as much. The bytes of the first
        /// second are sent at once. Where `$limit_rate` is set, its value counts instead.
        limit_rate: Bytes = "0", in HTTP | SERVER | LOCATION | LOCATION_IF,
            fidelity = Differs("up to four pieces a second instead of one");
        /// How much of a response is sent before `limit_rate` counts.
        limit_rate_after: Bytes = "0", in HTTP | SERVER | LOCATION | LOCATION_IF;
    }
}

/// A number of bytes that may come from variables.
#[derive(Debug, Clone)]
pub enum Bytes {
    /// The number is written in the configuration.
    Fixed(u64),
    /// The number is computed from variables.
    Computed(Template),
}

impl Bytes {
    /// The number for this request; 0 for an invalid size, which is logged.
    pub fn of(&self, request: &Request) -> u64 {
        match self {
            Bytes::Fixed(bytes) => *bytes,
            Bytes::Computed(template) => {
                let text = template.render(request);
                let text = String::from_utf8_lossy(&text);
                parse_size(&text).unwrap_or_else(|| {
                    log_error!(request, Error, "invalid size \"{text}\"");
                    0
                })
            }
        }
    }
}

impl Value for Bytes {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Bytes, Problem> {
        let word = &directive.args[0];
        if word.text.contains('$') {
            return Ok(Bytes::Computed(Template::parse(word, cx)?));
        }
        parse_size(&word.text).map(Bytes::Fixed).ok_or_else(|| Problem::invalid_value(directive, word))
    }
}

/// The rate that `set $limit_rate` has asked for or, once a response is being written, the rate that it is written
/// with: bytes a second, 0 for no limit.
#[derive(Debug, Default)]
pub struct LimitRate(Cell<Option<u64>>);

impl LimitRate {
    /// The rate, if it was set.
    pub fn get(&self) -> Option<u64> {
        self.0.get()
    }

    /// Sets the rate.
    pub fn set(&self, rate: u64) {
        self.0.set(Some(rate));
    }
}
