//! nginx variables: a table of getters, looked up by name once, when a configuration is read.

mod core;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use freerun_conf::{Place, Problem};

use crate::request::Request;

pub use core::VARIABLES as CORE_VARIABLES;

/// The value of a variable: `None` is nginx's "not found", which text shows as nothing and logs as `-`.
pub type Value<'r> = Option<Cow<'r, [u8]>>;

/// A getter. The second argument is what follows the prefix, for families such as `$http_…`.
pub type Get = for<'r> fn(&'r Request, &str) -> Value<'r>;

/// A variable, or with a name that ends in `_` and `prefix` set, a family of them.
#[derive(Clone, Copy)]
pub struct Variable {
    /// Its name without the `$`; of a family, what all names begin with.
    pub name: &'static str,
    /// Whether this is a family.
    pub prefix: bool,
    /// The getter.
    pub get: Get,
}

impl Variable {
    /// A single variable.
    pub const fn named(name: &'static str, get: Get) -> Variable {
        Variable { name, prefix: false, get }
    }

    /// A family of variables.
    pub const fn family(name: &'static str, get: Get) -> Variable {
        Variable { name, prefix: true, get }
    }
}

/// A use of a variable, resolved.
#[derive(Clone)]
pub struct Reference {
    get: Get,
    argument: Box<str>,
}

impl Reference {
    /// The value for this request.
    pub fn get<'r>(&self, request: &'r Request) -> Value<'r> {
        (self.get)(request, &self.argument)
    }
}

impl std::fmt::Debug for Reference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "${}", self.argument)
    }
}

fn capture<'r>(request: &'r Request, name: &str) -> Value<'r> {
    request.captures.named(name).map(Cow::Borrowed)
}

fn numbered<'r>(request: &'r Request, name: &str) -> Value<'r> {
    request.captures.numbered(name.parse().ok()?).map(Cow::Borrowed)
}

/// All variables that a configuration may name; lives in the configuration's context while it is read.
#[derive(Default)]
pub struct VariableTable {
    names: HashMap<&'static str, Get>,
    families: Vec<Variable>,
    captures: HashSet<String>,
    /// Names that only a capture can define, with their first use; judged when everything has been read, because a
    /// variable may be used above the expression that sets it.
    pending: Vec<(String, Place)>,
    /// Whether `$sent_http_…` is used at all: otherwise the heads of responses need not be kept for the log.
    uses_sent_head: bool,
}

impl VariableTable {
    /// Adds a module's variables.
    pub fn add(&mut self, variables: &[Variable]) {
        for variable in variables {
            if variable.prefix {
                self.families.push(*variable);
            } else {
                self.names.insert(variable.name, variable.get);
            }
        }
    }

    /// Tells that a regular expression sets `$name`.
    pub fn add_capture(&mut self, name: &str) {
        self.captures.insert(name.to_owned());
    }

    /// Resolves `$name`, used at `place`.
    pub fn resolve(&mut self, name: &str, place: Place) -> Reference {
        if let Some(get) = self.names.get(name) {
            return Reference { get: *get, argument: name.into() };
        }
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            return Reference { get: numbered, argument: name.into() };
        }
        for family in &self.families {
            if let Some(rest) = name.strip_prefix(family.name) {
                self.uses_sent_head |= family.name == "sent_http_";
                return Reference { get: family.get, argument: rest.into() };
            }
        }
        self.pending.push((name.to_owned(), place));
        Reference { get: capture, argument: name.into() }
    }

    /// Whether `$sent_http_…` is used.
    pub fn uses_sent_head(&self) -> bool {
        self.uses_sent_head
    }

    /// After everything was read: the first use of a variable that nothing defines.
    ///
    /// # Errors
    /// nginx's `unknown "x" variable`, at the place of the use.
    pub fn check(&self) -> Result<(), Problem> {
        match self.pending.iter().find(|(name, _)| !self.captures.contains(name)) {
            None => Ok(()),
            Some((name, place)) => Err(Problem::new(format!("unknown \"{name}\" variable")).at(*place)),
        }
    }
}
