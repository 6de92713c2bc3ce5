//! `location` and the choice of one: exact, longest prefix (final with `^~`), regular expressions in order.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::regex::{Captures, GaveUp, Pattern};
use crate::request::location::Location;

/// The outcome of the choice.
pub enum Found<'l> {
    /// This location.
    Location(&'l Arc<Location>),
    /// None, but this one is a folder that the path names without its slash, and passes requests to another server: the
    /// client is sent there.
    Folder(&'l Arc<Location>),
    /// None: the server's own settings hold.
    Nothing,
}

/// A location, and how far the choice is final.
type Choice<'l> = Option<(&'l Arc<Location>, Certainty)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// An expression of an outer level may match.
    Open,
    /// Exact, or by an expression.
    Final,
    /// [`Found::Folder`]
    Folder,
}

/// The locations of a server, or those nested in a location.
#[derive(Debug, Default)]
pub struct Locations {
    // What is looked up comes from clients, what is entered does not: a fast hash will do.
    exact: FxHashMap<Box<[u8]>, Arc<Location>>,
    /// How long the exact names are: a bit for each length, the last one for all that are longer.
    exact_lengths: u64,
    /// In the order of their names.
    prefix: Vec<Prefix>,
    regex: Vec<(Pattern, Arc<Location>)>,
    /// Locations that pass requests on and whose names end with a slash, by their names without it.
    folders: FxHashMap<Box<[u8]>, Arc<Location>>,
    named: FxHashMap<Box<str>, Arc<Location>>,
}

/// A location for all paths that begin with its name.
#[derive(Debug)]
struct Prefix {
    name: Box<[u8]>,
    /// The one with the longest other name that this name begins with.
    within: Option<usize>,
    location: Arc<Location>,
}

/// The bit of a length, in a number that says which lengths names in a table have.
pub(crate) fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}

impl Locations {
    /// Adds an `=` location; `false` when the name was taken.
    pub fn add_exact(&mut self, path: &str, location: Arc<Location>) -> bool {
        self.add_folder(path, &location);
        self.exact_lengths |= length_bit(path.len());
        self.exact.insert(path.as_bytes().into(), location).is_none()
    }

    /// Adds a prefix location; `false` when the name was taken.
    pub fn add_prefix(&mut self, path: &str, location: Arc<Location>) -> bool {
        self.add_folder(path, &location);
        let name = path.as_bytes();
        let at = match self.prefix.binary_search_by(|prefix| (*prefix.name).cmp(name)) {
            Ok(taken) => {
                self.prefix[taken].location = location;
                return false;
            }
            Err(at) => at,
        };
        let within = self.longest_prefix(name);
        // A name stands behind those that it begins with: what stands before this one has nothing to do with it.
        for prefix in &mut self.prefix[at..] {
            prefix.within = prefix.within.map(|index| index + usize::from(index >= at));
        }
        // Those that begin with a name come right behind it.
        for prefix in self.prefix[at..].iter_mut().take_while(|prefix| prefix.name.starts_with(name)) {
            if prefix.within == within {
                prefix.within = Some(at);
            }
        }
        self.prefix.insert(at, Prefix { name: name.into(), within, location });
        true
    }

    fn add_folder(&mut self, path: &str, location: &Arc<Location>) {
        if let Some(folder) = path.strip_suffix('/').filter(|_| location.passes_on) {
            self.folders.insert(folder.as_bytes().into(), location.clone());
        }
    }

    /// Adds a regular expression.
    pub fn add_regex(&mut self, pattern: Pattern, location: Arc<Location>) {
        self.regex.push((pattern, location));
    }

    /// Adds a named location (with its `@`); `false` when the name was taken, and stays with the one that has it.
    pub fn add_named(&mut self, name: &str, location: Arc<Location>) -> bool {
        match self.named.entry(name.into()) {
            Entry::Vacant(entry) => {
                entry.insert(location);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// A named location.
    pub fn named(&self, name: &str) -> Option<&Arc<Location>> {
        self.named.get(name)
    }

    /// Where the longest name is that the path begins with.
    fn longest_prefix(&self, path: &[u8]) -> Option<usize> {
        // Between that name and the path stand only names that begin with it, too.
        let mut at = self.prefix.partition_point(|prefix| *prefix.name <= *path).checked_sub(1)?;
        while !path.starts_with(&self.prefix[at].name) {
            at = self.prefix[at].within?;
        }
        Some(at)
    }

    /// Whether there is nothing to choose from.
    fn is_empty(&self) -> bool {
        self.exact_lengths == 0 && self.prefix.is_empty() && self.regex.is_empty()
    }

    fn folder(&self, path: &[u8]) -> Option<&Arc<Location>> {
        if self.folders.is_empty() { None } else { self.folders.get(path) }
    }

    /// Chooses.
    ///
    /// # Errors
    /// The match of an expression was given up.
    pub fn find(&self, path: &[u8], captures: &Captures) -> Result<Found<'_>, GaveUp> {
        Ok(match self.choose(path, captures)? {
            Some((location, Certainty::Folder)) => Found::Folder(location),
            Some((location, _)) => Found::Location(location),
            None => Found::Nothing,
        })
    }

    /// The location, and whether that is final: then no expression of an outer level is tried.
    fn choose<'l>(&'l self, path: &[u8], captures: &Captures) -> Result<Choice<'l>, GaveUp> {
        if self.exact_lengths & length_bit(path.len()) != 0
            && let Some(location) = self.exact.get(path)
        {
            return Ok(Some((location, Certainty::Final)));
        }
        let prefix = self.longest_prefix(path).map(|at| &self.prefix[at].location);
        if let Some(folder) = self.folder(path).filter(|_| prefix.is_none_or(|found| found.name.len() < path.len())) {
            return Ok(Some((folder, Certainty::Folder)));
        }
        let nested = match prefix {
            Some(location) if !location.nested.is_empty() => location.nested.choose(path, captures)?,
            _ => None,
        };
        if nested.is_some_and(|(_, certainty)| certainty != Certainty::Open) {
            return Ok(nested);
        }
        // `^~` speaks for its own level only.
        if !prefix.is_some_and(|location| location.no_regex) {
            for (pattern, location) in &self.regex {
                if pattern.matches(path, captures)? {
                    let inner = location.nested.choose(path, captures)?;
                    return Ok(Some((inner.map_or(location, |(inner, _)| inner), Certainty::Final)));
                }
            }
        }
        Ok(nested.or(prefix.map(|location| (location, Certainty::Open))))
    }
}
