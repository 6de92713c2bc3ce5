//! A number of bytes that may come from variables.

use std::fmt;

use freerun_conf::{Cx, Node, Problem, Shape, Value, parse_size, text_of};
use freerun_runtime::log::Level;

use super::template::Template;
use crate::values::subject::Subject;

/// A number of bytes that may come from variables: a rate, for example.
pub enum ComputedBytes<S> {
    /// The number is written in the configuration.
    Fixed(u64),
    /// The number is computed from variables.
    Computed(Template<S>),
}

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for ComputedBytes<S> {
    fn clone(&self) -> ComputedBytes<S> {
        match self {
            ComputedBytes::Fixed(bytes) => ComputedBytes::Fixed(*bytes),
            ComputedBytes::Computed(template) => ComputedBytes::Computed(template.clone()),
        }
    }
}

impl<S> fmt::Debug for ComputedBytes<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComputedBytes::Fixed(bytes) => formatter.debug_tuple("Fixed").field(bytes).finish(),
            ComputedBytes::Computed(template) => formatter.debug_tuple("Computed").field(template).finish(),
        }
    }
}

impl<S: Subject> ComputedBytes<S> {
    /// The number for this subject; 0 for an invalid size, which is logged.
    pub fn of(&self, subject: &S) -> u64 {
        match self {
            ComputedBytes::Fixed(bytes) => *bytes,
            ComputedBytes::Computed(template) => {
                let text = template.render(subject);
                let text = text_of(&text);
                parse_size(&text).unwrap_or_else(|| {
                    subject.log(Level::Error, format_args!("invalid size \"{text}\""));
                    0
                })
            }
        }
    }
}

impl<S: Subject> Value for ComputedBytes<S> {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ComputedBytes<S>, Problem> {
        let word = &directive.args[0];
        if word.text.contains('$') {
            return Ok(ComputedBytes::Computed(Template::parse(word, cx)?));
        }
        parse_size(&word.text).map(ComputedBytes::Fixed).ok_or_else(|| Problem::invalid_value(directive, word))
    }
}
