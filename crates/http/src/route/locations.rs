//! `location` and the choice of one: exact, longest prefix (final with `^~`), regular expressions in order.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::generation::Location;
use crate::regex::{Captures, GaveUp, Pattern};

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
    prefix: BTreeMap<Box<[u8]>, Arc<Location>>,
    /// Longest prefix in the table, so that a long path costs no more lookups than that.
    longest: usize,
    regex: Vec<(Pattern, Arc<Location>)>,
    /// Locations that pass requests on and whose names end with a slash, by their names without it.
    folders: FxHashMap<Box<[u8]>, Arc<Location>>,
    named: FxHashMap<Box<str>, Arc<Location>>,
}

impl Locations {
    /// Adds an `=` location; `false` when the name was taken.
    pub fn add_exact(&mut self, path: &str, location: Arc<Location>) -> bool {
        self.add_folder(path, &location);
        self.exact.insert(path.as_bytes().into(), location).is_none()
    }

    /// Adds a prefix location; `false` when the name was taken.
    pub fn add_prefix(&mut self, path: &str, location: Arc<Location>) -> bool {
        self.longest = self.longest.max(path.len());
        self.add_folder(path, &location);
        self.prefix.insert(path.as_bytes().into(), location).is_none()
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

    fn longest_prefix(&self, path: &[u8]) -> Option<&Arc<Location>> {
        let mut end = path.len().min(self.longest);
        loop {
            // The greatest key not above what is left of the path shares the longest beginning with it that any key
            // does; cutting to that beginning makes each step shorter, so this ends after few lookups.
            let (key, location) = self.prefix.range::<[u8], _>((Unbounded, Included(&path[..end]))).next_back()?;
            if path.starts_with(key) {
                return Some(location);
            }
            let common = key.iter().zip(path).take_while(|(a, b)| a == b).count();
            end = common.min(end);
            if end == 0 {
                return self.prefix.get(&[][..]);
            }
        }
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
        if let Some(location) = self.exact.get(path) {
            return Ok(Some((location, Certainty::Final)));
        }
        let prefix = self.longest_prefix(path);
        if let Some(folder) = self.folder(path).filter(|_| prefix.is_none_or(|found| found.name.len() < path.len())) {
            return Ok(Some((folder, Certainty::Folder)));
        }
        let nested = match prefix {
            Some(location) => location.nested.choose(path, captures)?,
            None => None,
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
