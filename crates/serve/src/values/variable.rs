//! A variable: its getter, the value that a directive computes for it, and a use of it.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use freerun_runtime::log::Level;

use crate::values::captures::VariableSlot;
use crate::values::subject::Subject;

/// The value of a variable: `None` is nginx's "not found", which text shows as empty and logs as `-`.
pub type VariableValue<'r> = Option<Cow<'r, [u8]>>;

/// A getter. The second argument is the part of the name after the prefix, for families such as `$http_…`.
pub type Get<S> = for<'r> fn(&'r S, &str) -> VariableValue<'r>;

/// The effect of `set` on a variable that is not kept in a slot.
pub type Set<S> = fn(&mut S, &[u8]);

/// A variable or, with a name that ends in `_` and `prefix` set, a family of variables.
pub struct Variable<S> {
    /// The name without the `$`, in lower case; for a family, the common beginning of all names.
    pub name: &'static str,
    /// Description of the value: whole sentences of Markdown for the reference. In the description of a family, `NAME` stands
    /// for the part of the name after the prefix.
    pub documentation: &'static str,
    /// Whether this is a family.
    pub prefix: bool,
    /// The getter.
    pub get: Get<S>,
    /// The effect of `set`, if it may be used on the variable.
    pub set: Option<Set<S>>,
    /// Whether it keeps the value of its first use, as in nginx, for all subjects that share their values.
    pub kept: bool,
    /// Whether a value from a directive or a capture replaces the getter's.
    pub changeable: bool,
    /// For a family, the parts after the prefix of those names that no directive may change.
    pub fixed: &'static [&'static str],
}

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for Variable<S> {
    fn clone(&self) -> Variable<S> {
        *self
    }
}

impl<S> Copy for Variable<S> {}

impl<S> Variable<S> {
    /// A single variable with its documentation.
    pub const fn named(name: &'static str, documentation: &'static str, get: Get<S>) -> Variable<S> {
        let (prefix, set, kept, changeable) = (false, None, false, false);
        Variable { name, documentation, prefix, get, set, kept, changeable, fixed: &[] }
    }

    /// A family of variables with its documentation.
    pub const fn family(name: &'static str, documentation: &'static str, get: Get<S>) -> Variable<S> {
        Variable { prefix: true, changeable: true, ..Variable::named(name, documentation, get) }
    }

    /// Allows `set` to change the variable.
    #[must_use]
    pub const fn settable(self, set: Set<S>) -> Variable<S> {
        Variable { set: Some(set), ..self }
    }

    /// Allows a later value to replace the variable's own from then on. A `map` for it is evaluated anew at each use.
    #[must_use]
    pub const fn changeable(self) -> Variable<S> {
        Variable { changeable: true, ..self }
    }

    /// Makes these names of the family, given without the prefix, unchangeable.
    #[must_use]
    pub const fn but_fixed(self, fixed: &'static [&'static str]) -> Variable<S> {
        Variable { fixed, ..self }
    }

    /// Makes the variable keep the value of its first use.
    #[must_use]
    pub const fn kept(self) -> Variable<S> {
        Variable { kept: true, ..self }
    }
}

/// The result of a [`Compute`].
pub enum ComputeResult {
    /// A text of the configuration, by its number in [`Compute::entry`].
    Entry(u32),
    /// A text made for this subject.
    Text(Vec<u8>),
    /// No value.
    Missing,
}

/// A variable that a directive defines: `map`, `geo`, `split_clients`.
pub trait Compute<S>: Send + Sync {
    /// Finds the value.
    fn find(&self, subject: &S) -> ComputeResult;

    /// The text of an entry.
    fn entry(&self, number: u32) -> &[u8];

    /// Whether the value is computed anew at each use; otherwise once for all subjects that share their values.
    fn is_volatile(&self) -> bool {
        false
    }
}

/// The definition of a name.
pub(super) enum Definition<S> {
    /// A getter and its argument.
    Getter(Get<S>, Box<str>),
    /// A getter and its argument, called once, and the slot of its result.
    Kept(u32, Get<S>, Box<str>),
    /// A slot for the value of `set` or a capture; the getter, of a family or of a changeable variable, counts until
    /// then. The flag is whether `set` declares it, so that a use before it deserves a warning.
    User(u32, Option<(Get<S>, Box<str>)>, bool),
    /// A computed value, which is kept if the flag is set; `set` may replace it.
    Computed(u32, Arc<dyn Compute<S>>, bool),
}

/// A name that is used somewhere; it is defined when the whole configuration has been read.
pub(super) struct DeclaredVariable<S> {
    pub(super) name: Box<str>,
    pub(super) definition: OnceLock<Definition<S>>,
}

/// A use of a variable.
pub struct VariableReference<S>(pub(super) Arc<DeclaredVariable<S>>);

impl<S> Clone for VariableReference<S> {
    fn clone(&self) -> VariableReference<S> {
        VariableReference(self.0.clone())
    }
}

impl<S: Subject> VariableReference<S> {
    /// The value for this subject.
    pub fn get<'r>(&'r self, subject: &'r S) -> VariableValue<'r> {
        match self.0.definition.get()? {
            Definition::Getter(get, argument) => get(subject, argument),
            Definition::Kept(slot, get, argument) => kept(subject, *slot, *get, argument),
            Definition::User(slot, family, by_set) => match subject.values().slot(*slot) {
                VariableSlot::Text(text) => Some(Cow::Borrowed(subject.values().text(text))),
                VariableSlot::Empty => Some(Cow::Borrowed(b"")),
                _ => match family {
                    Some((get, argument)) => get(subject, argument),
                    None => self.uninitialized(subject, *slot, *by_set),
                },
            },
            Definition::Computed(slot, compute, keep) => self.computed(subject, *slot, &**compute, *keep),
        }
    }

    fn uninitialized<'r>(&self, subject: &S, slot: u32, by_set: bool) -> VariableValue<'r> {
        if !by_set {
            return None;
        }
        if subject.warns_of_uninitialized() {
            subject.log(Level::Warn, format_args!("using uninitialized \"{}\" variable", self.0.name));
        }
        // As in nginx the variable is empty from now on, and the warning is logged once.
        subject.values().put(slot, VariableSlot::Empty);
        Some(Cow::Borrowed(b""))
    }

    fn computed<'r>(&'r self, subject: &'r S, slot: u32, compute: &'r dyn Compute<S>, keep: bool) -> VariableValue<'r> {
        let values = subject.values();
        match values.slot(slot) {
            VariableSlot::Text(text) => return Some(Cow::Borrowed(values.text(text))),
            VariableSlot::Empty => return Some(Cow::Borrowed(b"")),
            VariableSlot::Entry(number) => return Some(Cow::Borrowed(compute.entry(number))),
            VariableSlot::Missing => return None,
            VariableSlot::Pending => {
                subject.log(Level::Error, format_args!("cycle while evaluating variable \"{}\"", self.0.name));
                return None;
            }
            VariableSlot::Unset => {}
        }
        values.put(slot, VariableSlot::Pending);
        let found = compute.find(subject);
        values.put(slot, VariableSlot::Unset);
        match found {
            ComputeResult::Entry(number) => {
                if keep {
                    values.put(slot, VariableSlot::Entry(number));
                }
                Some(Cow::Borrowed(compute.entry(number)))
            }
            ComputeResult::Text(text) if keep => {
                let kept = values.set(slot, &text);
                match (kept, values.slot(slot)) {
                    (Ok(()), VariableSlot::Text(text)) => Some(Cow::Borrowed(values.text(text))),
                    _ => Some(Cow::Owned(text)),
                }
            }
            ComputeResult::Text(text) => Some(Cow::Owned(text)),
            ComputeResult::Missing => {
                if keep {
                    values.put(slot, VariableSlot::Missing);
                }
                None
            }
        }
    }

    /// Whether the configuration assigns it a value somewhere, so that it is not always the getter's.
    pub fn is_assigned(&self) -> bool {
        matches!(self.0.definition.get(), Some(Definition::User(..) | Definition::Computed(..)))
    }
}

/// The value of the first use. While logs are written nothing changes any more, so no value is kept.
fn kept<'r, S: Subject>(subject: &'r S, slot: u32, get: Get<S>, argument: &str) -> VariableValue<'r> {
    let values = subject.values();
    match values.slot(slot) {
        VariableSlot::Text(text) => return Some(Cow::Borrowed(values.text(text))),
        VariableSlot::Empty => return Some(Cow::Borrowed(b"")),
        VariableSlot::Missing => return None,
        _ => {}
    }
    let found = get(subject, argument);
    if !subject.is_logged() {
        match &found {
            // If there is no room, the value is computed anew at each use.
            Some(text) => {
                let _ = values.set(slot, text);
            }
            None => values.put(slot, VariableSlot::Missing),
        }
    }
    found
}

impl<S> std::fmt::Debug for VariableReference<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "${}", self.0.name)
    }
}
