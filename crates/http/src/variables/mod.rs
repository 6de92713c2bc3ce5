//! nginx variables: looked up by name once, when a configuration is read.
//!
//! A variable is computed by a getter (those of the core and the modules), or has a slot in the [`Values`] of the request:
//! what `set` and named captures give it, and what a map has found.

mod core;
mod table;
mod values;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use crate::log_error;
use crate::request::Request;
use crate::rewrite::RewriteSettings;

pub use core::find_cookie as cookie;
pub use core::{LimitRate, VARIABLES as CORE_VARIABLES};
pub use table::{Target, VariableTable};
pub use values::{Full, MAX_TEXT, Values};

use values::Slot;

/// The value of a variable: `None` is nginx's "not found", which text shows as nothing and logs as `-`.
pub type Value<'r> = Option<Cow<'r, [u8]>>;

/// A getter. The second argument is what follows the prefix, for families such as `$http_…`.
pub type Get = for<'r> fn(&'r Request, &str) -> Value<'r>;

/// What `set` does with a variable that is not kept in a slot.
pub type Set = fn(&mut Request, &[u8]);

/// A variable, or with a name that ends in `_` and `prefix` set, a family of them.
#[derive(Clone, Copy)]
pub struct Variable {
    /// Its name without the `$`, in lower case; of a family, what all names begin with.
    pub name: &'static str,
    /// Whether this is a family.
    pub prefix: bool,
    /// The getter.
    pub get: Get,
    /// What `set` does, where it may be used on it.
    pub set: Option<Set>,
    /// Whether it stays what it was when it was first asked for, as in nginx, for the client's request and its subrequests.
    pub kept: bool,
    /// Whether a value that a directive or a capture gives it takes the place of what the getter finds.
    pub changeable: bool,
    /// What follows the prefix in those names of a family that nothing may change, though all others may be.
    pub fixed: &'static [&'static str],
}

impl Variable {
    /// A single variable.
    pub const fn named(name: &'static str, get: Get) -> Variable {
        Variable { name, prefix: false, get, set: None, kept: false, changeable: false, fixed: &[] }
    }

    /// A family of variables.
    pub const fn family(name: &'static str, get: Get) -> Variable {
        Variable { name, prefix: true, get, set: None, kept: false, changeable: true, fixed: &[] }
    }

    /// The same, and `set` may change it.
    #[must_use]
    pub const fn settable(self, set: Set) -> Variable {
        Variable { set: Some(set), ..self }
    }

    /// A variable that may be given another value, which counts from then on. A `map` for it is looked at anew at each use.
    #[must_use]
    pub const fn changeable(self) -> Variable {
        Variable { changeable: true, ..self }
    }

    /// A family of which these names, given without the prefix, cannot be changed.
    #[must_use]
    pub const fn but_fixed(self, fixed: &'static [&'static str]) -> Variable {
        Variable { fixed, ..self }
    }

    /// The same, and it stays what it first was.
    #[must_use]
    pub const fn kept(self) -> Variable {
        Variable { kept: true, ..self }
    }
}

/// What a [`Compute`] has found.
pub enum Found {
    /// A text of the configuration, by its number in [`Compute::entry`].
    Entry(u32),
    /// A text made for this request.
    Text(Vec<u8>),
    /// No value.
    Missing,
}

/// A variable that a directive defines: `map`, `geo`, `split_clients`.
pub trait Compute: Send + Sync {
    /// Finds the value.
    fn find(&self, request: &Request) -> Found;

    /// The text of an entry.
    fn entry(&self, number: u32) -> &[u8];

    /// Whether the value is found anew at each use; otherwise once for each request of a client.
    fn is_volatile(&self) -> bool {
        false
    }
}

/// What stands behind a name.
enum Definition {
    /// A getter and its argument.
    Getter(Get, Box<str>),
    /// The same, asked once.
    Kept(u32, Get, Box<str>),
    /// Given by `set` or a capture; the getter, of a family or of a changeable variable, counts until then. The flag: `set` declares it, so a use before it is worth a warning.
    User(u32, Option<(Get, Box<str>)>, bool),
    /// Computed, and where the flag says so kept; `set` may replace it.
    Computed(u32, Arc<dyn Compute>, bool),
}

/// A name that is used somewhere; defined at the latest when all of the configuration has been read.
struct Declared {
    name: Box<str>,
    definition: OnceLock<Definition>,
}

/// A use of a variable.
#[derive(Clone)]
pub struct Reference(Arc<Declared>);

impl Reference {
    /// The value for this request.
    pub fn get<'r>(&'r self, request: &'r Request) -> Value<'r> {
        match self.0.definition.get()? {
            Definition::Getter(get, argument) => get(request, argument),
            Definition::Kept(slot, get, argument) => kept(request, *slot, *get, argument),
            Definition::User(slot, family, by_set) => match request.values().slot(*slot) {
                Slot::Text(text) => Some(Cow::Borrowed(request.values().text(text))),
                Slot::Empty => Some(Cow::Borrowed(b"")),
                _ => match family {
                    Some((get, argument)) => get(request, argument),
                    None => self.uninitialized(request, *slot, *by_set),
                },
            },
            Definition::Computed(slot, compute, keep) => self.computed(request, *slot, &**compute, *keep),
        }
    }

    fn uninitialized<'r>(&self, request: &Request, slot: u32, by_set: bool) -> Value<'r> {
        if !by_set {
            return None;
        }
        if request.settings().get::<RewriteSettings>().uninitialized_variable_warn {
            log_error!(request, Warn, "using uninitialized \"{}\" variable", self.0.name);
        }
        // As in nginx it is empty from now on, and that is told once for each request.
        request.values().put(slot, Slot::Empty);
        Some(Cow::Borrowed(b""))
    }

    fn computed<'r>(&'r self, request: &'r Request, slot: u32, compute: &'r dyn Compute, keep: bool) -> Value<'r> {
        let values = request.values();
        match values.slot(slot) {
            Slot::Text(text) => return Some(Cow::Borrowed(values.text(text))),
            Slot::Empty => return Some(Cow::Borrowed(b"")),
            Slot::Entry(number) => return Some(Cow::Borrowed(compute.entry(number))),
            Slot::Missing => return None,
            Slot::Pending => {
                log_error!(request, Error, "cycle while evaluating variable \"{}\"", self.0.name);
                return None;
            }
            Slot::Unset => {}
        }
        values.put(slot, Slot::Pending);
        let found = compute.find(request);
        values.put(slot, Slot::Unset);
        match found {
            Found::Entry(number) => {
                if keep {
                    values.put(slot, Slot::Entry(number));
                }
                Some(Cow::Borrowed(compute.entry(number)))
            }
            Found::Text(text) if keep => {
                let kept = values.set(slot, &text);
                match (kept, values.slot(slot)) {
                    (Ok(()), Slot::Text(text)) => Some(Cow::Borrowed(values.text(text))),
                    _ => Some(Cow::Owned(text)),
                }
            }
            Found::Text(text) => Some(Cow::Owned(text)),
            Found::Missing => {
                if keep {
                    values.put(slot, Slot::Missing);
                }
                None
            }
        }
    }

    /// Whether the configuration gives it a value of its own somewhere, so that it is not always what the getter finds.
    pub fn is_assigned(&self) -> bool {
        matches!(self.0.definition.get(), Some(Definition::User(..) | Definition::Computed(..)))
    }

    /// Whether finding the value may change the captures of the request.
    pub(crate) fn is_computed(&self) -> bool {
        matches!(self.0.definition.get(), Some(Definition::Computed(..)))
    }
}

/// What was found at first. While logs are written nothing changes any more, so nothing is kept.
fn kept<'r>(request: &'r Request, slot: u32, get: Get, argument: &str) -> Value<'r> {
    let values = request.values();
    match values.slot(slot) {
        Slot::Text(text) => return Some(Cow::Borrowed(values.text(text))),
        Slot::Empty => return Some(Cow::Borrowed(b"")),
        Slot::Missing => return None,
        _ => {}
    }
    let found = get(request, argument);
    if !request.is_logged {
        match &found {
            // Where there is no room it is found anew.
            Some(text) => {
                let _ = values.set(slot, text);
            }
            None => values.put(slot, Slot::Missing),
        }
    }
    found
}

impl std::fmt::Debug for Reference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "${}", self.0.name)
    }
}
