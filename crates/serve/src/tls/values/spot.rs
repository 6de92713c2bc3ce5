//! Places of values in the configuration, for problems that are found later.

use std::hash::{Hash, Hasher};

use freerun_conf::{Node, Place, Problem, Word};

/// Place of a value in the configuration. It makes no difference between values: values of several servers are equal if
/// they are written alike.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    place: Place,
    end: Place,
}

impl Spot {
    /// No place: the value stands in no text.
    pub const NONE: Spot = Spot { place: Place::NONE, end: Place::NONE };

    /// The place of a word of a directive.
    pub fn of(word: &Word, directive: &Node) -> Spot {
        Spot { place: word.place, end: directive.end }
    }

    /// The spot of a value that stands nowhere, for tests.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Spot {
        Spot { place: Place::NONE, end: Place::NONE }
    }

    /// A problem with the value, for which nginx names no line. Here it has the value's.
    #[must_use]
    pub fn blamed(self, problem: Problem) -> Problem {
        if self.place.is_some() { problem.at(self.place).reported_at(self.end) } else { problem }
    }

    /// A problem with the value where nginx names the line up to which it has read the configuration. That line is
    /// still to be filled in; the value is shown below it.
    #[must_use]
    pub fn shown(self, problem: Problem) -> Problem {
        if self.place.is_some() { problem.at(self.place) } else { problem }
    }

    /// The place itself.
    pub fn place(self) -> Place {
        self.place
    }
}

impl PartialEq for Spot {
    fn eq(&self, _: &Spot) -> bool {
        true
    }
}

impl Eq for Spot {}

impl Hash for Spot {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
