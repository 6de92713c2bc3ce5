//! Problems found in a configuration.

use std::fmt;

use crate::node::{Node, Word};
use crate::odd_text;
use crate::place::{Place, Sources};

/// The hint to a brace of a regular expression that was taken for the brace of a block.
pub(crate) const UNQUOTED: &str = "a regular expression with \"{\" or \"}\" has to stand in quotes";

/// The severity of a problem, with nginx's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration works; this is for information.
    Notice,
    /// The configuration works, but probably not as intended.
    Warn,
    /// The configuration is refused; nginx's level for a failed system call.
    Crit,
    /// The configuration is refused.
    Emerg,
}

impl Severity {
    /// nginx's name for the level.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Notice => "notice",
            Severity::Warn => "warn",
            Severity::Crit => "crit",
            Severity::Emerg => "emerg",
        }
    }
}

/// A problem: nginx's words, the place, and a hint. This is the crate's only error type.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub struct Problem {
    /// The severity.
    pub level: Severity,
    /// nginx's wording, without ` in FILE:LINE`.
    pub message: String,
    /// The place that the caret points at.
    pub place: Option<Place>,
    /// The line the message names. nginx names the line of a directive's `;` or `{`, not the line of the wrong word. If
    /// this is absent, `place` is used; [`crate::apply_block`] fills it in.
    pub reported: Option<Place>,
    /// The text after `help: `.
    pub hint: Option<String>,
    /// The place of the first of two things where only one may be; this is the problem of the second. Without a `hint`
    /// it is the help.
    pub first: Option<Place>,
    /// The [`Node::order`] of the directive that the problem is about; filled in by [`crate::apply_block`].
    pub order: Option<u32>,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{}] {}", self.level.name(), self.message)
    }
}

impl Problem {
    /// An error that refuses the configuration, without a place so far.
    pub fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Problem { level: Severity::Emerg, message, place: None, reported: None, hint: None, first: None, order: None }
    }

    /// A warning, without a place so far.
    pub fn warning(message: impl Into<String>) -> Self {
        Problem { level: Severity::Warn, ..Problem::new(message) }
    }

    /// The problem `"name" directive WHAT`, pointing at the directive's name: `Problem::directive(node, "is
    /// duplicate")`.
    pub fn directive(node: &Node, what: &str) -> Self {
        Problem::new(format!("\"{}\" directive {what}", node.name.text)).at_node(node)
    }

    /// The problem `"name" directive invalid value`, pointing at the word: nginx's message about sizes, times and
    /// offsets.
    pub fn invalid_value(node: &Node, word: &Word) -> Self {
        Problem::directive(node, "invalid value").at(word.place)
    }

    /// The problem `invalid parameter "word"`, pointing at the word.
    pub fn invalid_parameter(node: &Node, word: &Word) -> Self {
        Problem::new(format!("invalid parameter \"{}\"", word.text)).at_node(node).at(word.place)
    }

    /// The problem `invalid number of arguments in "name" directive`.
    pub fn wrong_count(node: &Node) -> Self {
        Problem::new(format!("invalid number of arguments in \"{}\" directive", node.name.text)).at_node(node)
    }

    /// The problem `"name" directive is duplicate`.
    pub fn duplicate(node: &Node) -> Self {
        Problem::directive(node, "is duplicate")
    }

    /// Points the caret at a place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Points the caret at the directive's name and sets the line that nginx names for it.
    #[must_use]
    pub fn at_node(mut self, node: &Node) -> Self {
        self.place = Some(node.name.place);
        self.reported = Some(node.end);
        self.order = Some(node.order);
        self
    }

    /// Sets the line that the message names, whatever the caret points at.
    #[must_use]
    pub fn reported_at(mut self, place: Place) -> Self {
        self.reported = Some(place);
        self
    }

    /// Adds a `help:` line.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a `help:` line, if there is one.
    #[must_use]
    pub fn hint_if(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// Names the place of the first of two things where only one may be.
    #[must_use]
    pub fn first_at(mut self, place: Place) -> Self {
        self.first = Some(place);
        self
    }

    /// The text after `help: `.
    pub fn help(&self, sources: &Sources) -> Option<String> {
        let first = || sources.location(self.first?).map(|location| format!("the first one is in {location}"));
        let odd = self.place.and_then(|place| odd_text::help(sources, place));
        odd.or_else(|| self.hint.clone()).or_else(first)
    }

    /// Fills in missing places from the directive that was being applied.
    pub(crate) fn complete(&mut self, node: &Node) {
        self.place.get_or_insert(node.name.place);
        self.reported.get_or_insert(node.end);
        self.order.get_or_insert(node.order);
    }
}
