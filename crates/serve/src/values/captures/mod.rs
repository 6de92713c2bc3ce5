//! The captures of regular expressions, and the values that a subject gives to variables.

mod store;

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

pub(crate) use store::VariableSlot;
pub use store::{Full, MAX_TEXT, Values};

/// The number of the groups `$1` to `$9`.
const NUMBERED: usize = 9;

/// The groups of the last match: the text it was found in, and the begin and end of each group that took part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Groups {
    /// The number of the text in [`Values`].
    pub(crate) text: usize,
    pub(crate) spans: [Option<(u32, u32)>; NUMBERED],
}

/// The captures of a subject's regular expressions, and the other values of its variables.
///
/// A capture can change while values are borrowed, because an expression may be matched meanwhile: texts are kept until the
/// subject ends. Expressions of a map change the numbered groups only while its value is found.
#[derive(Default, Clone)]
pub struct Captures {
    groups: Cell<Groups>,
    values: OnceCell<Rc<Values>>,
}

impl Captures {
    /// The values of variables, including named groups.
    #[inline]
    pub fn values(&self) -> &Rc<Values> {
        self.values.get_or_init(Rc::default)
    }

    /// `$1` … `$9` of the expression that was matched last.
    #[inline]
    pub fn numbered(&self, number: usize) -> Option<&[u8]> {
        let groups = self.groups.get();
        let (begin, end) = (*groups.spans.get(number.checked_sub(1)?)?)?;
        self.values().text(groups.text).get(begin as usize..end as usize)
    }

    /// The numbered groups and the values, if there are any.
    pub fn into_parts(self) -> (Option<Groups>, Option<Rc<Values>>) {
        (Some(self.groups.get()).filter(|groups| *groups != Groups::default()), self.values.into_inner())
    }

    /// The captures made of these parts.
    pub fn from_parts(groups: Option<Groups>, values: Option<Rc<Values>>) -> Captures {
        Captures {
            groups: Cell::new(groups.unwrap_or_default()),
            values: values.map(OnceCell::from).unwrap_or_default(),
        }
    }

    /// The numbered groups.
    pub(crate) fn groups(&self) -> Groups {
        self.groups.get()
    }

    /// Makes these the numbered groups from now on.
    pub(crate) fn set(&self, groups: Groups) {
        self.groups.set(groups);
    }

    /// Clears the numbered groups.
    #[inline]
    pub fn clear(&self) {
        self.groups.set(Groups::default());
    }
}
